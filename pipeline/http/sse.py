"""Says that something changed, so that a page asks anew: server-sent events without any content of their own."""

import asyncio
from collections.abc import AsyncGenerator
from hashlib import sha256
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import StreamingResponse

from pipeline.errors import JobNotFound, StoreUnavailable
from pipeline.http.auth import signed_in
from pipeline.http.errors import Problem
from pipeline.http.principal import Principal
from pipeline.inspector import Inspector

LOOK_S: Final = 1.0
QUIET_S: Final = 15.0
"""A comment so often keeps proxies from closing a stream on which nothing happens."""
LONGEST_S: Final = 600.0
"""A stream ends then; the browser opens another one, and is asked again who it is."""
MOST_STREAMS: Final = 200

router = APIRouter(include_in_schema=False)


class Watch:
    """What the store looks like, in a word. However many listen to a topic, it is looked at once a second."""

    def __init__(self, inspector: Inspector) -> None:
        self._inspector = inspector
        self._seen: dict[str, tuple[float, str]] = {}
        self._looking = asyncio.Lock()
        self.streams = 0
        self.over = False
        """Every stream ends soon: the service is about to stop."""

    async def word(self, topic: str) -> str:
        """Return what changes whenever a topic does: `system`, or ``job:<id>``. Raises StoreUnavailable."""
        async with self._looking:
            now = asyncio.get_running_loop().time()
            self._seen = {t: seen for t, seen in self._seen.items() if now - seen[0] < LOOK_S}
            if topic not in self._seen:
                self._seen[topic] = now, sha256((await self._look(topic)).encode()).hexdigest()
            return self._seen[topic][1]

    async def _look(self, topic: str) -> str:
        kind, _, ident = topic.partition(":")
        if kind == "job":
            try:
                return repr(await self._inspector.job(ident))
            except JobNotFound:
                return "gone"
        stats = await self._inspector.queues()
        beats = await self._inspector.workers()
        counts = [
            (s.pending, s.active, s.scheduled, s.retry, s.archived, s.processed, s.failed, s.paused)
            for s in stats
        ]
        return repr((counts, [(b.worker, b.state, [(p.name, p.active) for p in b.pools]) for b in beats]))


@router.get("/live")
async def live(
    request: Request,
    _who: Annotated[Principal, Depends(signed_in)],
    topic: str = "system",
) -> StreamingResponse:
    """Stream an event whenever the topic changes. Raises Problem 503 when too many listen: they poll instead."""
    watch: Watch = request.app.state.watch
    if watch.streams >= MOST_STREAMS:
        raise Problem(503, "too many listen already", "too_many_streams")
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(events(watch, topic), media_type="text/event-stream", headers=headers)


async def events(watch: Watch, topic: str, look_s: float = LOOK_S) -> AsyncGenerator[str]:
    """Yield what is sent: `changed` after each change, a comment when there is none for long."""
    loop = asyncio.get_running_loop()
    end, said, before = loop.time() + LONGEST_S, loop.time(), ""
    watch.streams += 1
    try:
        yield "retry: 2000\n\n"
        while loop.time() < end and not watch.over:
            try:
                word = await watch.word(topic)
            except StoreUnavailable:
                word = "away"  # the page finds out by itself, and says so
            if before and word != before:
                yield "event: changed\ndata:\n\n"
                said = loop.time()
            elif loop.time() - said > QUIET_S:
                yield ":\n\n"
                said = loop.time()
            before = word
            await asyncio.sleep(look_s)
    finally:
        watch.streams -= 1
