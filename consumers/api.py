"""The HTTP service: what `pipeline.http` offers, with the domain behind it."""

import asyncio
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import uvicorn

from consumers.desk import desk_of
from pipeline import Database, Pipeline
from pipeline.http.app import create_app
from pipeline.store import people

if TYPE_CHECKING:
    from fastapi import FastAPI

SIGNALS = (signal.SIGTERM, signal.SIGINT)
FIRST_ADMIN = "admin"


def api_of(pipeline: Pipeline, database: Database) -> "FastAPI":
    """Return the app that serves this pipeline."""
    return create_app(desk_of(pipeline, database))


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
        app.state.watch.over = True
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
        return password if await people.add_new(sql, FIRST_ADMIN, kept) else None


class _Server(uvicorn.Server):
    """Leaves the signals to the command, which has more to stop than this."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
