"""`streamlane serve` and `streamlane api`: the HTTP service, with and without workers in its process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from consumers.api import EVERY, FIRST_ADMIN, api_of, first_password, listening, stop_asked
from consumers.commands.terminal import OK, say
from consumers.database import open_database, refuse_another
from consumers.extras import KNOWLEDGE
from consumers.settings import share
from contracts.payloads import AWAITING_HANDLER
from contracts.topology import POOLS
from pipeline import Database, Pipeline
from pipeline.store import SqlLedger

if TYPE_CHECKING:
    from fastapi import FastAPI


async def serve(host: str, port: int, *, lite: bool) -> int:
    """Serve and work until told to stop; return the exit code."""
    from consumers.lanes import handlers_of
    from consumers.services import open_services

    async with (
        Pipeline.open(**({"redis_url": None} if lite else {})) as pipeline,
        open_services(pipeline) as services,
        listening(api_of(pipeline, services.database, services), host, port) as address,
    ):
        await _introduce(address, host, services.database)
        code = await pipeline.serve(
            pools=tuple(POOLS),
            handlers=handlers_of(POOLS),
            services=services,
            awaiting=AWAITING_HANDLER,
            duties=services.duties,
        )
    say("has stopped; what was not done is kept and runs again")
    return code


async def api(host: str, port: int) -> int:
    """Serve until told to stop; return the exit code."""
    with stop_asked() as asked:
        async with (
            Pipeline.open() as pipeline,
            _app(pipeline) as (database, app),
            pipeline.recording(),
            listening(app, host, port) as address,
        ):
            await _introduce(address, host, database)
            await asked.wait()
    return OK


@asynccontextmanager
async def _app(pipeline: Pipeline) -> AsyncIterator[tuple[Database, "FastAPI"]]:
    """Give the app of a process without workers; without the libraries of the domain, it knows jobs and documents alone."""
    if KNOWLEDGE.absent:
        async with open_database(pipeline.settings) as database:
            await share(pipeline, database)
            await refuse_another(pipeline, database)
            pipeline.ledger = SqlLedger(database)
            yield database, api_of(pipeline, database)
    else:
        from consumers.services import open_services

        async with open_services(pipeline) as services:
            yield services.database, api_of(pipeline, services.database, services)


async def _introduce(address: str, host: str, database: Database) -> None:
    password = await first_password(database)
    how = (
        f"sign in as {FIRST_ADMIN} with the password {password}, which is shown this once"
        if password
        else "sign in with your name and password (`streamlane admins add NAME` sets one)"
    )
    others = " and at every other address of this machine" if host in EVERY else ""
    print(f"streamlane: dashboard and API at {address}{others}; {how}; stop with Ctrl-C", flush=True)  # noqa: T201
