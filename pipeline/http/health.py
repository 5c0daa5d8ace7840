"""Whether this process lives, and whether it can do its work. Both answer without a key."""

import asyncio
from importlib.metadata import version
from typing import Annotated, Final

from fastapi import APIRouter, Depends
from pydantic import BaseModel
from sqlalchemy import text

from pipeline.clock import now_ms
from pipeline.errors import StoreUnavailable
from pipeline.http.desk import Desk, desk_of
from pipeline.http.errors import ErrorBody

LIMIT_S: Final = 5.0
"""Who asks whether we are ready does not wait until a database that is frozen is given up."""

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """Said by a process that lives. `uptime_s` is in seconds."""

    status: str
    version: str
    uptime_s: float


class Ready(BaseModel):
    """The queue and the database answer."""

    status: str


@router.get("/healthz")
async def healthz(desk: Annotated[Desk, Depends(desk_of)]) -> Health:
    """Whether the process lives."""
    return Health(
        status="ok", version=version("streamlane"), uptime_s=max(0, now_ms() - desk.started_at) / 1000
    )


@router.get("/readyz", responses={503: {"model": ErrorBody}})
async def readyz(desk: Annotated[Desk, Depends(desk_of)]) -> Ready:
    """Whether the queue and the database can be reached."""
    try:
        async with asyncio.timeout(LIMIT_S):
            await desk.broker.ping()
            async with desk.database.read() as sql:
                await sql.execute(text("SELECT 1"))
    except TimeoutError:
        raise StoreUnavailable(f"the queue and the database did not answer in {LIMIT_S:g} s") from None
    return Ready(status="ready")
