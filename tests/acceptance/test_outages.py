"""What is away for a while loses nothing: what was accepted meanwhile runs afterwards, who died meanwhile has one row."""

import json
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from consumers.commands.session import TENANT
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.documents.ingesting import find_files, take_in
from consumers.knowledge.progress.fates import fates
from consumers.migrations.migrate import upgrade
from consumers.services import Services, open_services
from contracts.knowledge import OPEN, ParseStatus
from pipeline import Context, Enqueue, on
from pipeline.runtime import Pipeline
from pipeline.store import Database, SqlLedger
from pipeline.store.tables import task_dead_letters
from sqlalchemy import func, select, text
from structlog.testing import capture_logs

from tests.support.backends import BACKENDS
from tests.support.commands import start_streamlane
from tests.support.databases import locked
from tests.support.jobs import Work, working
from tests.support.postgres_server import PostgresServer
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MANY = 500
OUTAGE_S = float(os.environ.get("STREAMLANE_TEST_OUTAGE_S", "3"))
DOCUMENTS = 250 if OUTAGE_S > 30 else 20


async def outage_is_over(began: float) -> None:
    await wait_until(
        lambda: time.monotonic() >= began + OUTAGE_S, describe="the outage has lasted", timeout=OUTAGE_S + 5
    )


async def fail(_job: Work, _ctx: Context) -> None:
    raise ValueError("no")


@pytest.fixture(params=list(BACKENDS.values()), ids=list(BACKENDS))
async def pipeline(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Pipeline]:
    backend = request.param(tmp_path)
    try:
        async with Pipeline.open(**backend.settings()) as opened:
            yield opened
    finally:
        await backend.close()


@dataclass
class Fragile:
    """A database, and what takes it away for as long as a block lasts."""

    database: Database
    away: Callable[[], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def killed(server: PostgresServer) -> AsyncIterator[None]:
    server.kill()
    yield
    server.start()


@asynccontextmanager
async def suspended(server: PostgresServer) -> AsyncIterator[None]:
    server.suspend()
    yield
    server.resume()


@pytest.fixture(
    params=[
        pytest.param(None, id="sqlite-locked"),
        pytest.param(killed, marks=pytest.mark.postgres, id="postgres-killed"),
        pytest.param(suspended, marks=pytest.mark.postgres, id="postgres-suspended"),
    ]
)
async def fragile(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Fragile]:
    if request.param is None:
        path = tmp_path / "streamlane.db"
        upgrade(f"sqlite:///{path}")
        made = Fragile(Database.open(f"sqlite:///{path}", busy_s=0.2), partial(locked, path))
    else:
        server = request.getfixturevalue("postgres_server")
        made = Fragile(Database.open(server.url), partial(request.param, server))
    yield made
    await made.database.close()


async def test_the_database_is_away_while_jobs_die_and_each_death_has_one_row(
    pipeline: Pipeline, fragile: Fragile
) -> None:
    pipeline.ledger = SqlLedger(fragile.database)

    async def rows() -> int:
        async with fragile.database.read() as session:
            return (await session.execute(select(func.count()).select_from(task_dead_letters))).scalar_one()

    async def enqueue(numbers: range) -> None:
        await pipeline.enqueue_many([Enqueue(Work(n=n), max_retry=0) for n in numbers])

    async def all_died() -> bool:
        stats = await pipeline.inspector.queues()
        return {stat.name: stat.archived for stat in stats}["default"] == MANY

    async def all_recorded() -> bool:
        return await rows() >= MANY and not await pipeline.broker.dead_letters(["default"], 1)

    await enqueue(range(MANY // 2))
    with capture_logs() as said:
        async with working(pipeline, on(Work, fail)):
            await wait_until(rows, describe="some deaths are recorded", timeout=60)
            async with fragile.away():
                began = time.monotonic()
                await enqueue(range(MANY // 2, MANY))
                await wait_until(all_died, describe="every job has died", timeout=120)
                await outage_is_over(began)
            await wait_until(all_recorded, describe="every death is recorded", timeout=120)
    async with fragile.database.read() as session:
        payloads = list(await session.scalars(select(task_dead_letters.c.payload)))
    assert sorted(json.loads(payload)["n"] for payload in payloads) == list(range(MANY))
    events = Counter(line["event"] for line in said if line["component"] == "dead_letter")
    assert set(events.values()) <= {1}, events


@pytest.fixture
def durable_redis() -> Iterator[RedisServer]:
    server = RedisServer(appendonly="yes", appendfsync="always")
    try:
        yield server.start()
    finally:
        server.close()


async def statuses(services: Services, idents: list[str]) -> set[ParseStatus]:
    async with services.database.read() as sql:
        return {fate.status for fate in (await fates(sql, idents)).values()}


async def test_redis_is_away_while_documents_come_and_all_that_were_accepted_run(
    durable_redis: RedisServer, tmp_path: Path
) -> None:
    folder, data_dir = tmp_path / "files", tmp_path / "data"
    folder.mkdir()
    for n in range(MANY):
        (folder / f"{n}.txt").write_text(
            f"Lighthouse number {n} stands on the coast and warns the ships of the night."
        )
    async with (
        Pipeline.open(redis_url=durable_redis.url, data_dir=data_dir) as pipeline,
        open_services(pipeline) as services,
    ):
        async with services.database.transaction() as sql:
            kb = await ensure_base(sql, TENANT, "coast")
        durable_redis.stop()
        began = time.monotonic()
        taken = [
            one
            async for some in take_in(services, kb, list(find_files([folder], leave_out=data_dir)))
            for one in some
        ]
        idents = [one.knowledge_id for one in taken if not isinstance(one, Exception)]
        assert len(idents) == MANY
        assert (await services.outbox.waiting())[0] == MANY
        await outage_is_over(began)
        durable_redis.start()
        worker = start_streamlane(
            "worker", "background", data_dir=data_dir, env={"STREAMLANE_REDIS_URL": durable_redis.url}
        )
        try:

            async def all_ended() -> bool:
                return await statuses(services, idents) == {ParseStatus.COMPLETED}

            await wait_until(
                all_ended, describe="every document is completed", timeout=400, longest_pause=0.5
            )
        finally:
            worker.terminate()
            worker.wait(30)
        assert await services.outbox.waiting() == (0, 0)


@pytest.fixture(params=["lite", "redis"])
def env(request: pytest.FixtureRequest, postgres_server: PostgresServer, tmp_path: Path) -> Mapping[str, str]:
    """What a worker is told whose database is that server."""
    told = {
        "STREAMLANE_DATA_DIR": str(tmp_path / "data"),
        "STREAMLANE_DATABASE_URL": postgres_server.url.render_as_string(hide_password=False),
    }
    if request.param == "redis":
        told["STREAMLANE_REDIS_URL"] = request.getfixturevalue("durable_redis").url
    return told


@pytest.mark.postgres
@pytest.mark.parametrize("away", [killed, suspended])
async def test_postgres_is_away_while_documents_are_worked_on_and_each_ends_as_it_would_have(
    postgres_server: PostgresServer,
    env: Mapping[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    away: Callable[[PostgresServer], AbstractAsyncContextManager[None]],
) -> None:
    folder, log = tmp_path / "files", tmp_path / "log"
    folder.mkdir()
    for n in range(DOCUMENTS):
        (folder / f"{n}.txt").write_text(f"Lighthouse number {n} stands on the coast and warns the ships.")
        (folder / f"{n}-empty.txt").write_text(" " * n)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    async with Pipeline.open() as pipeline, open_services(pipeline) as services:

        async def ended() -> Counter[ParseStatus]:
            async with services.database.read() as sql:
                found = await fates(sql, idents)
            return Counter(fate.status for fate in found.values() if fate.status not in OPEN)

        async def all_ended() -> bool:
            return (await ended()).total() == 2 * DOCUMENTS and await services.outbox.waiting() == (0, 0)

        async with services.outbox.transaction() as sql:
            kb = await ensure_base(sql, TENANT, "coast")
        files = list(find_files([folder], leave_out=Path(env["STREAMLANE_DATA_DIR"])))
        taken = [one async for some in take_in(services, kb, files) for one in some]
        idents = [one.knowledge_id for one in taken if not isinstance(one, Exception)]
        worker = start_streamlane(
            "worker", "background", data_dir=Path(env["STREAMLANE_DATA_DIR"]), env=env, log=log
        )
        try:
            await wait_until(ended, describe="some documents have ended", timeout=120)
            async with away(postgres_server):
                await outage_is_over(time.monotonic())
            await wait_until(all_ended, describe="all have ended", timeout=400, longest_pause=0.5)
            assert worker.poll() is None
        finally:
            worker.terminate()
            worker.wait(30)
        assert await ended() == {ParseStatus.COMPLETED: DOCUMENTS, ParseStatus.FAILED: DOCUMENTS}
        await expect_nothing_left(services.database)
    expect_calm(log)


async def expect_nothing_left(database: Database) -> None:
    """A row for each document that could not be read, and neither slot nor span open."""
    async with database.read() as sql:
        dead = list(await sql.scalars(select(task_dead_letters.c.related_id)))
        slots = await sql.scalar(text("SELECT count(*) FROM slots"))
        spans = await sql.scalar(
            text("SELECT count(*) FROM knowledge_processing_spans WHERE status IN ('pending', 'running')")
        )
    assert (len(dead), len(set(dead)), slots, spans) == (DOCUMENTS, DOCUMENTS, 0, 0)


def expect_calm(log: Path) -> None:
    """No outage is said twice, and no job is said to have failed for it."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    errors = Counter((line["component"], line["event"]) for line in lines if line["level"] == "error")
    assert set(errors.values()) <= {1}, errors
    assert "attempt failed" not in {line["event"] for line in lines}
