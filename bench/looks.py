"""What people see and do among very many jobs: the slowest look at a queue of a hundred thousand, and the cancel of ten
thousand among as many of another tenant.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx

from bench.measure import Scoped, report
from bench.rows import opened
from consumers.api import api_of
from consumers.database import open_database
from contracts.jobs import Scope
from contracts.states import JobState
from pipeline import Enqueue, Pipeline
from pipeline.records import TaskFilter
from pipeline.store import people

MANY: Final = 100_000
EACH: Final = 10_000
BATCH: Final = 1_000
NAME: Final = "bench"
PASSWORD: Final = "long enough to be taken"


async def looks(folder: Path) -> None:
    """Each look at a queue and each page of the dashboard, once; the slowest counts."""
    async with opened(folder) as pipeline:
        for first in range(0, MANY, BATCH):
            await pipeline.enqueue_many(
                [_job(n, "t", first >= MANY // 2) for n in range(first, first + BATCH)]
            )
        looks = {name: await _timed(ask) for name, ask in (await _asks(pipeline)).items()}
        pages = await _pages(pipeline)
    _slowest("slowest look", looks)
    _slowest("slowest page of the dashboard", pages)


def _slowest(what: str, took: Mapping[str, float]) -> None:
    slowest = max(took, key=took.__getitem__)
    found = f"{took[slowest] * 1000:.0f} ms ({slowest})"
    report(f"{what} at {MANY:,} jobs", found, "<= 300 ms", 0.3 / took[slowest])


async def _pages(pipeline: Pipeline) -> Mapping[str, float]:
    """How long the service takes to give each page to somebody who is signed in."""
    job = (await pipeline.inspector.tasks("default", JobState.PENDING)).records[0].job.id
    queue = "/queues/default?state="
    paths = ["/", f"/jobs/{job}", "/dead", "/workers", "/documents", "/audit", queue + "pending",
             queue + "scheduled", queue + "pending&scope=tenant:2", queue + "pending&error=nowhere"]  # fmt: skip
    async with open_database(pipeline.settings) as database:
        async with database.transaction() as sql:
            await people.add(sql, NAME, people.hashed(PASSWORD))
        transport = httpx.ASGITransport(api_of(pipeline, database))
        async with httpx.AsyncClient(transport=transport, base_url="http://bench.test") as client:
            await client.post("/sign-in", data={"name": NAME, "password": PASSWORD, "back": "/"})
            await client.get("/workers")  # the first page compiles the frame of all
            return {path: await _timed(partial(_page, client, path)) for path in paths}


async def _page(client: httpx.AsyncClient, path: str) -> None:
    (await client.get(path)).raise_for_status()


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
