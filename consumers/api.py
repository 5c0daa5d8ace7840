"""The HTTP service: what `pipeline.http` offers, with the domain behind it."""

import asyncio
import errno
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final

import uvicorn

from consumers.desk import desk_of
from pipeline import Database, Pipeline
from pipeline.http.app import create_app
from pipeline.http.errors import answer_known
from pipeline.store import people

if TYPE_CHECKING:
    from fastapi import FastAPI

    from consumers.services import Services

SIGNALS = (signal.SIGTERM, signal.SIGINT)
FIRST_ADMIN = "admin"
EVERY: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what a browser is told instead
"""Hosts that stand for every address of a machine, and one that can be called."""


def api_of(pipeline: Pipeline, database: Database, services: "Services | None" = None) -> "FastAPI":
    """Return the app that serves this pipeline; with `services`, also what needs the libraries of the domain."""
    app = create_app(desk_of(pipeline, database))
    if services is not None:
        from consumers.http.routers import KNOWN, ROUTERS  # here: what they need may be absent

        app.state.services = services
        answer_known(app, KNOWN)
        for router in ROUTERS:
            app.include_router(router)
    return app


@asynccontextmanager
async def listening(app: "FastAPI", host: str, port: int) -> AsyncIterator[str]:
    """Serve an app while the block runs; give an address of it. Raises OSError when it cannot listen there."""
    bound = _bound(host, port)
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
        named = EVERY.get(host, host)
        shown = f"[{named}]" if ":" in named else named
        yield f"http://{shown}:{bound.getsockname()[1]}/"
    finally:
        app.state.watch.over = True
        server.should_exit = True
        await serving
        bound.close()


def _bound(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        reasons = {
            errno.EADDRINUSE: "another process listens there already",
            errno.EACCES: "this user may not listen there",
        }
        said = reasons.get(error.errno or 0, error.strerror or str(error))
        raise OSError(
            f"cannot listen on port {port} of {host}: {said}; choose another with --port or --host"
        ) from None


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
