"""A handler that is watched, await by await, and that stands still before one of them when a test wants it to."""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from contracts.outcomes import Retry
from pipeline import Handler


class Stepped:
    """Awaits a coroutine. Before its await number `at` it stands still until `go` is set, or its task is cancelled."""

    def __init__(self, work: Coroutine[Any, Any, Any], at: int) -> None:
        self._work, self.at = work, at
        self.count = 0
        self.stands = asyncio.Event()
        self.go = asyncio.Event()
        self.over = False

    def one_more(self) -> None:
        """Go on to the next await, and stand still there."""
        self.at = self.count + 1
        self.stands.clear()
        self.go.set()

    def __await__(self) -> Generator[Any, Any, Any]:
        said: Any = None
        problem: BaseException | None = None
        while True:
            try:
                waits = self._work.send(said) if problem is None else self._work.throw(problem)
            except StopIteration as end:
                return end.value
            said = problem = None
            self.count += 1
            try:
                if self.count == self.at:
                    yield from self._stand()
            except asyncio.CancelledError as cancel:
                if (
                    waits is None or not waits.cancel()
                ):  # as a task does that is cancelled when its turn has come
                    problem = cancel
                    continue
            try:
                said = yield waits
            except BaseException as error:
                problem = error

    def _stand(self) -> Generator[Any, Any, Any]:
        self.go.clear()
        self.stands.set()
        yield from self.go.wait().__await__()


@dataclass
class Watch:
    """Every run of a handler; the first one stands still at its await number `at`."""

    handler: Handler
    at: int = 0
    loses_reply: bool = False
    """Whether the first run does all its work, and nobody learns of it."""
    held: Mapping[str, asyncio.Event] = field(default_factory=dict)
    """By id, what jobs wait for before they begin."""
    runs: list[Stepped] = field(default_factory=list)
    of_job: Counter[str] = field(default_factory=Counter)
    failures: set[int] = field(default_factory=set)
    """How many failed attempts the runs were told of."""

    def watched(self) -> Handler:
        """The handler; after a failed attempt its next one comes when somebody hurries it."""
        return replace(self.handler, run=self._run, retry=lambda _: 60)

    async def _run(self, job: Any, ctx: Any) -> Any:
        if ctx.id in self.held:
            await self.held[ctx.id].wait()
        run: Any = self.handler.run
        stepped = Stepped(run(job, ctx), 0 if self.runs else self.at)
        self.runs.append(stepped)
        self.of_job[ctx.id] += 1
        self.failures.add(ctx.retried)
        try:
            said = await stepped
        finally:
            stepped.over = True
        if self.loses_reply and len(self.runs) == 1:
            raise Retry(after=0, reason="the reply was lost")
        return said
