"""What is deployed: one app a lane, for `faststream run consumers.lanes:background`. Each is made when it is asked for."""

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from consumers import core, enrichment, ks, maintenance, postprocess, wiki
from consumers.apps import app_of
from contracts.topology import Lane, pools_of, weights
from pipeline import Handler

if TYPE_CHECKING:
    from faststream import FastStream

    agents: FastStream
    background: FastStream
    interactive: FastStream

HANDLERS: Final[tuple[Handler, ...]] = (
    *core.HANDLERS,
    *postprocess.HANDLERS,
    *enrichment.HANDLERS,
    *maintenance.HANDLERS,
    *wiki.HANDLERS,
    *ks.HANDLERS,
)


def handlers_of(pools: Iterable[str]) -> list[Handler]:
    """Return what handles the jobs of these pools. Raises UnknownNameError."""
    queues = {queue for pool in pools for queue in weights(pool)}
    return [handler for handler in HANDLERS if handler.payload.spec.queue in queues]


@cache
def _app(lane: Lane) -> "FastStream":
    pools = pools_of(lane)
    return app_of(handlers_of(pools), *pools)


def __getattr__(name: str) -> Any:
    """Make the app of a lane, always the same one."""
    if name in set(Lane):
        return _app(Lane(name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
