"""What people see and do among very many jobs: the slowest look at a queue of a hundred thousand, and the cancel of ten
thousand among as many of another tenant.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.measure import Scoped, report
from bench.rows import opened
from contracts.jobs import Scope
from contracts.states import JobState
from pipeline import Enqueue, Pipeline
from pipeline.records import TaskFilter

MANY: Final = 100_000
EACH: Final = 10_000
BATCH: Final = 1_000


async def looks(folder: Path) -> None:
    """Each look at a queue, once; the slowest counts."""
    async with opened(folder) as pipeline:
        for first in range(0, MANY, BATCH):
            await pipeline.enqueue_many(
                [_job(n, "t", first >= MANY // 2) for n in range(first, first + BATCH)]
            )
        took = {name: await _timed(ask) for name, ask in (await _asks(pipeline)).items()}
    slowest = max(took, key=took.__getitem__)
    found = f"{took[slowest] * 1000:.0f} ms ({slowest})"
    report(f"slowest look at {MANY:,} jobs", found, "<= 300 ms", 0.3 / took[slowest])


async def cancel_many(folder: Path) -> None:
    """Cancel one of two tenants, whose jobs take turns, and see what became of each."""
    async with opened(folder) as pipeline:
        for first in range(0, EACH, BATCH // 2):
            await pipeline.enqueue_many([_job(n, "t", False) for n in range(2 * first, 2 * first + BATCH)])
        began = time.perf_counter()
        effects = await pipeline.inspector.effects(await pipeline.inspector.cancel_scope("tenant", "1"))
        took = time.perf_counter() - began
    report(f"cancel {len(effects):,} jobs among {2 * EACH:,}", f"{took:.2f} s", "<= 2 s", 2 / took)


def _job(number: int, knowledge: str, later: bool) -> Enqueue:
    payload = Scoped(n=number, tenant_id=number % 2 + 1, knowledge_id=knowledge)
    return Enqueue(payload, delay=3600 if later else None)


async def _timed(ask: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await ask()
    return time.perf_counter() - began


async def _asks(pipeline: Pipeline) -> Mapping[str, Callable[[], Awaitable[Any]]]:
    inspector = pipeline.inspector
    asks: dict[str, Callable[[], Awaitable[Any]]] = {"queues": inspector.queues, "history": inspector.history}
    filters = {"": {}, " of a tenant": {"scope": Scope("tenant", "2")}, " by error": {"error": "nowhere"}}
    for state in (JobState.PENDING, JobState.SCHEDULED):
        for name, match in filters.items():
            wanted = TaskFilter(**match)  # type: ignore[arg-type]
            asks[f"page, {state}{name}"] = partial(
                inspector.tasks, "default", state, page_size=100, match=wanted
            )
            asks[f"count, {state}{name}"] = partial(inspector.count, "default", state, wanted)
    newest = (await inspector.tasks("default", JobState.PENDING)).records[0]
    return asks | {"why": partial(inspector.why, newest), "relatives": partial(inspector.relatives, newest)}
