"""What the HTTP service works with."""

from dataclasses import dataclass, field
from typing import Protocol

from fastapi import Request

from pipeline.broker import Broker
from pipeline.clock import now_ms
from pipeline.config import Settings
from pipeline.inspector import Inspector
from pipeline.records import JobRecord
from pipeline.store.engine import Database


class Business(Protocol):
    """What a cancel means to whoever the jobs work for."""

    async def cancel(self, record: JobRecord) -> bool:
        """Cancel what this job is part of, under the job's tenant, and its jobs with it. False where there is nothing
        (any more) to cancel but the jobs themselves. Raises StoreUnavailable.
        """


@dataclass(frozen=True, slots=True)
class Desk:
    """`business` is None where nobody can cancel on behalf of the domain; `started_at` is in milliseconds."""

    settings: Settings
    broker: Broker
    inspector: Inspector
    database: Database
    business: Business | None = None
    started_at: int = field(default_factory=now_ms)


def desk_of(request: Request) -> Desk:
    """Return the desk of the app that serves a request."""
    desk: Desk = request.app.state.desk
    return desk
