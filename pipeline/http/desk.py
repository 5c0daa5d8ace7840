"""What the HTTP service works with."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from fastapi import Request
from sqlalchemy.ext.asyncio import AsyncSession

from pipeline.broker import Broker, ScopeCancel
from pipeline.clock import now_ms
from pipeline.config import Settings
from pipeline.http.documents import Documents
from pipeline.http.graphs import Graphs
from pipeline.http.wikis import Wikis
from pipeline.inspector import Inspector
from pipeline.store.engine import Database


class Belonging(StrEnum):
    """Whose a document turned out to be when it was to be cancelled."""

    OURS = "ours"
    """It is cancelled, or had nothing to cancel."""
    GONE = "gone"
    FOREIGN = "foreign"
    """It is another tenant's and was left alone."""


Stopped = Sequence[ScopeCancel]
"""What became of the jobs of a cancel, as far as the queue was told already."""


@dataclass(frozen=True, slots=True)
class Chance:
    """What another chance of a job that died comes to. `refusal`: to nothing, and why; `afresh`: other work was asked for
    in its place; neither: the job itself has something to do.
    """

    refusal: str = ""
    afresh: bool = False


class Business(Protocol):
    """What a cancel means to whoever the jobs work for."""

    async def cancel_document(self, tenant_id: int | None, knowledge_id: str) -> tuple[Belonging, Stopped]:
        """Cancel the parse of a document of this tenant, None: of whatever tenant, with its jobs; return whose it is.

        Raises StoreUnavailable.
        """

    async def cancel_base(self, knowledge_base_id: str) -> Collection[str]:
        """Cancel the parses of all documents of a knowledge base; return the ids of its documents. Their jobs are the
        caller's to cancel afterwards. Raises StoreUnavailable.
        """

    async def again(self, job_id: str, task_type: str, data: str) -> Chance:
        """Decide what another chance of a job that died comes to, by its type and payload, and ask for what is done in its
        place. Raises StoreUnavailable.
        """


class Tenants(Protocol):
    """Knows which tenants there are."""

    async def lives(self, session: AsyncSession, tenant_id: int) -> bool:
        """Whether a tenant is not deleted. Raises StoreUnavailable."""


@dataclass(frozen=True, slots=True)
class Desk:
    """`handled` are the job types that workers of ours handle. `business` is None where nobody can cancel on behalf of the domain, `documents`,
    `wikis` and `tenants` where nobody keeps any;
    `started_at` is in milliseconds; `guesses` limits how many passwords are tried at once, for each takes a core and
    32 MB.
    """

    settings: Settings
    broker: Broker
    inspector: Inspector
    database: Database
    handled: Collection[str] = frozenset()
    business: Business | None = None
    documents: Documents | None = None
    wikis: Wikis | None = None
    graphs: Graphs | None = None
    tenants: Tenants | None = None
    started_at: int = field(default_factory=now_ms)
    guesses: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))


def desk_of(request: Request) -> Desk:
    """Return the desk of the app that serves a request."""
    desk: Desk = request.app.state.desk
    return desk
