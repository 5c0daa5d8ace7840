"""The HTTP service: what `pipeline.http` offers, with the domain behind it."""

import asyncio
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import uvicorn

from consumers.extras import KNOWLEDGE
from consumers.overseeing import StoredDocuments
from pipeline import Database, Pipeline
from pipeline.http.app import create_app
from pipeline.http.dead_letters import another_chance
from pipeline.http.desk import Belonging, Desk
from pipeline.store import batches, people
from pipeline.store.dead_letters import Letter, mark_replayed

if TYPE_CHECKING:
    from fastapi import FastAPI

SIGNALS = (signal.SIGTERM, signal.SIGINT)
FIRST_ADMIN = "admin"


def api_of(pipeline: Pipeline, database: Database) -> "FastAPI":
    """Return the app that serves this pipeline."""
    return create_app(desk_for(pipeline, database))


def desk_for(pipeline: Pipeline, database: Database) -> Desk:
    """Return what the service of this pipeline works with."""
    return Desk(
        settings=pipeline.settings,
        broker=pipeline.broker,
        inspector=pipeline.inspector,
        database=database,
        business=None if KNOWLEDGE.absent else Documents(database),
        documents=StoredDocuments(database, pipeline),
    )


async def replay(pipeline: Pipeline, database: Database, letters: Sequence[Letter]) -> dict[int, str]:
    """Give the jobs of these deaths another chance; return of each "replayed", or why not."""
    desk = desk_for(pipeline, database)
    effects = {letter.id: await another_chance(desk, letter) for letter in letters}
    async with database.transaction() as sql:
        await mark_replayed(sql, [one for one, effect in effects.items() if effect == "replayed"])
    return effects


class Documents:
    """Implements `pipeline.http.desk.Business`: what a job works on is a document."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def cancel_document(self, tenant_id: int | None, knowledge_id: str) -> Belonging:
        """See `Business`."""
        from consumers.knowledge.documents import cancel, document  # here: they load slowly

        async with self._database.transaction() as sql:
            found = await document(sql, knowledge_id)
            if found is None:
                return Belonging.GONE
            if tenant_id not in {None, found.tenant_id}:
                return Belonging.FOREIGN
            await cancel(sql, knowledge_id)
        return Belonging.OURS

    async def cancel_base(self, knowledge_base_id: str) -> Collection[str]:
        """See `Business`."""
        from consumers.knowledge.documents import cancel, documents_of

        async with self._database.read() as sql:
            documents = await documents_of(sql, knowledge_base_id)
        for some in batches([ident for ident, under_way in documents.items() if under_way]):
            async with self._database.transaction() as sql:
                for ident in some:
                    await cancel(sql, ident)
        return documents


@asynccontextmanager
async def listening(app: "FastAPI", host: str, port: int) -> AsyncIterator[str]:
    """Serve an app while the block runs; give its address. Raises OSError when it cannot listen there."""
    bound = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[bound]), name="http")
    try:
        shown = f"[{host}]" if ":" in host else host
        yield f"http://{shown}:{bound.getsockname()[1]}/"
    finally:
        server.should_exit = True
        await serving
        bound.close()


@contextmanager
def stop_asked() -> Iterator[asyncio.Event]:
    """Give an event that SIGTERM and SIGINT set."""
    asked, loop = asyncio.Event(), asyncio.get_running_loop()
    before = {n: signal.signal(n, lambda *_: loop.call_soon_threadsafe(asked.set)) for n in SIGNALS}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def first_password(database: Database) -> str | None:
    """Make the first administrator and return the password, which nobody can find out later; None if there is one."""
    password = secrets.token_urlsafe(15)
    kept = await asyncio.to_thread(people.hashed, password)
    async with database.transaction() as sql:
        if await people.names(sql):
            return None
        await people.add(sql, FIRST_ADMIN, kept)
    return password


class _Server(uvicorn.Server):
    """Leaves the signals to the command, which has more to stop than this."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
