"""What a command works with: the pipeline, the services and the handlers of this process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from consumers.lanes import HANDLERS
from consumers.services import Services, open_services
from contracts.payloads import AWAITING_HANDLER
from pipeline import Pipeline

TENANT: Final = 1
"""The tenant of everything done on the command line."""

POOLS: Final = ("core", "postprocess", "enrichment", "shared", "maintenance", "wiki", "ks")


@dataclass(frozen=True, slots=True)
class Session:
    """An open pipeline with its services."""

    pipeline: Pipeline
    services: Services


@asynccontextmanager
async def session(*, work: bool = False) -> AsyncIterator[Session]:
    """Open everything; with `work`, also run the pools of the document pipeline in this process."""
    async with Pipeline.open() as pipeline, open_services(pipeline) as services:
        if not work:
            yield Session(pipeline, services)
            return
        async with pipeline.workers(
            pools=POOLS,
            handlers=HANDLERS,
            services=services,
            awaiting=AWAITING_HANDLER,
            duties=services.duties,
        ):
            yield Session(pipeline, services)
