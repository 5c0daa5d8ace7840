"""What a command works with: the pipeline, the services and the handlers of this process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from consumers.knowledge.bases.tenants import is_alive
from consumers.services import Services, open_services
from contracts.payloads import AWAITING_HANDLER
from pipeline import Pipeline
from pipeline.errors import ConfigurationError

TENANT: Final = 1
"""The tenant of what is done on the command line, unless another is named."""

POOLS: Final = ("core", "postprocess", "enrichment", "shared", "maintenance", "wiki", "ks")


@dataclass(frozen=True, slots=True)
class Session:
    """An open pipeline with its services, and on whose behalf they are used."""

    pipeline: Pipeline
    services: Services
    tenant: int = TENANT


@asynccontextmanager
async def session(*, work: bool = False, tenant: int = TENANT) -> AsyncIterator[Session]:
    """Open everything; with `work`, also run the pools of the document pipeline in this process.

    Raises ConfigurationError where the tenant is deleted.
    """
    async with Pipeline.open() as pipeline, open_services(pipeline) as services:
        async with services.database.read() as sql:
            alive = await is_alive(sql, tenant)
        if not alive:
            how = f"`streamlane tenants restore {tenant}` takes it back"
            raise ConfigurationError(f"tenant {tenant} is deleted: {how}")
        if not work:
            yield Session(pipeline, services, tenant)
            return
        from consumers.lanes import HANDLERS  # here: all handlers take a while to load

        async with pipeline.workers(
            pools=POOLS,
            handlers=HANDLERS,
            services=services,
            awaiting=AWAITING_HANDLER,
            duties=services.duties,
        ):
            yield Session(pipeline, services, tenant)
