"""What is deployed: one app a lane, for `faststream run consumers.lanes:background`. Each is made when it is asked for."""

from collections.abc import Iterable
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from consumers import core, enrichment, ks, maintenance, postprocess, wiki
from consumers.handlers import attachments, manual, tables
from consumers.services import open_services
from contracts.payloads import AWAITING_HANDLER
from contracts.topology import Lane, pools_of, weights
from pipeline import Handler

if TYPE_CHECKING:
    from faststream import FastStream

    agents: FastStream
    background: FastStream
    interactive: FastStream

HANDLERS: Final[tuple[Handler, ...]] = (
    *core.HANDLERS,
    *manual.HANDLERS,
    *attachments.HANDLERS,
    *postprocess.HANDLERS,
    *enrichment.HANDLERS,
    *tables.HANDLERS,
    *maintenance.HANDLERS,
    *wiki.HANDLERS,
    *ks.HANDLERS,
)


def handlers_of(pools: Iterable[str]) -> list[Handler]:
    """Return what handles the jobs of these pools. Raises UnknownNameError."""
    queues = {queue for pool in pools for queue in weights(pool)}
    return [handler for handler in HANDLERS if handler.payload.spec.queue in queues]


@cache
def app_of(*pools: str) -> "FastStream":
    """Return the app of these pools, always the same one. Raises UnknownNameError."""
    from pipeline import worker_app

    return worker_app(
        pools=pools,
        handlers=handlers_of(pools),
        services=open_services,
        awaiting=AWAITING_HANDLER,
        duties=attrgetter("duties"),
    )


def __getattr__(name: str) -> Any:
    """Make the app of a lane."""
    if name in set(Lane):
        return app_of(*pools_of(Lane(name)))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
