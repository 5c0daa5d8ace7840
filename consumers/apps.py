"""Apps for `faststream run`. FastStream is slow to import, so each is made when it is asked for."""

from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from consumers.services import open_services
from contracts.payloads import AWAITING_HANDLER
from pipeline import Handler

if TYPE_CHECKING:
    from faststream import FastStream


def app_of(handlers: Sequence[Handler], *pools: str) -> "FastStream":
    """Return the app that works these pools. Raises UnknownNameError."""
    from pipeline import worker_app

    return worker_app(
        pools=pools,
        handlers=handlers,
        services=open_services,
        awaiting=AWAITING_HANDLER,
        duties=attrgetter("duties"),
    )


def app_on_demand(handlers: Sequence[Handler], pool: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of the module of a pool: its `app` is always the same one."""

    @cache
    def app() -> "FastStream":
        return app_of(handlers, pool)

    def __getattr__(name: str) -> Any:  # noqa: N807 - becomes that of the module
        if name == "app":
            return app()
        raise AttributeError(f"the pool {pool} has no attribute {name!r}")

    return __getattr__
