"""Background jobs that are typed, leased, retried and never lost.

    class Resize(JobPayload, type="image:resize", queue="default", max_retry=3, timeout=60):
        tenant_id: int
        image_id: str

    async def resize(job: Resize, ctx: Context) -> None: ...

    async with Pipeline.open() as pipeline:
        receipt = await pipeline.enqueue(Resize(tenant_id=7, image_id="i1"), delay=5)
        async with pipeline.workers(pools=["core"], handlers=[on(Resize, resize)]):
            await pipeline.wait(receipt.id, timeout=30)

Payloads come from `contracts.jobs`; what is below this package is nobody's but its own.
"""

import importlib
from typing import TYPE_CHECKING, Any

from contracts.jobs import Unique
from contracts.outcomes import Cancel, Done, Retry, Skip, Snooze
from pipeline import errors
from pipeline.broker import DeadLetter
from pipeline.client import Enqueue
from pipeline.config import Settings
from pipeline.handlers import Context, Handler, on
from pipeline.receipt import Receipt
from pipeline.records import JobRecord
from pipeline.runtime import Pipeline
from pipeline.worker.offload import run_in_child

if TYPE_CHECKING:
    from pipeline.faststream_app import worker_app
    from pipeline.store.engine import Database
    from pipeline.store.outbox import Outbox

__all__ = [
    "Cancel",
    "Context",
    "Database",
    "DeadLetter",
    "Done",
    "Enqueue",
    "Handler",
    "JobRecord",
    "Outbox",
    "Pipeline",
    "Receipt",
    "Retry",
    "Settings",
    "Skip",
    "Snooze",
    "Unique",
    "errors",
    "on",
    "run_in_child",
    "worker_app",
]

_LATER = {
    "Database": "pipeline.store.engine",
    "Outbox": "pipeline.store.outbox",
    "worker_app": "pipeline.faststream_app",
}


def __getattr__(name: str) -> Any:
    """Load what needs SQLAlchemy or FastStream when it is first asked for: they take longer than all the rest."""
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
