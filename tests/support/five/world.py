"""A process of the platform with a knowledge base on a real queue and a real database, and all that it came to."""

import asyncio
import re
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.documents.uploading import Upload, take_in_passages, take_in_uploads
from consumers.knowledge.embedding.hashing import HashingEmbedder
from consumers.knowledge.reading.passages import Passages
from consumers.knowledge.tables.knowledge import KnowledgeBase
from consumers.lanes import HANDLERS
from consumers.migrations.schema import TARGETS
from consumers.services import Services, open_services
from contracts.jobs import JobPayload
from contracts.states import TERMINAL, JobState
from contracts.topology import QUEUES
from pipeline import Pipeline
from pipeline.actions import Action
from pipeline.records import JobRecord, TaskFilter
from pipeline.store import Database
from pipeline.testing import drain
from sqlalchemy import text

from tests.support.backends import BACKENDS
from tests.support.databases import migrated
from tests.support.embedding_server import EmbeddingServer
from tests.support.five.stepping import Stepped, Watch
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import wait_until

TENANT: Final = 7
OF: Final = {handler.payload.spec.type: handler for handler in HANDLERS}
MODEL: Final[Mapping[str, Any]] = {"embedding_model": HashingEmbedder.MODEL, "embedding_dimension": 64}
PATIENT_S, IMPATIENT_S = 10.0, 1.0
"""For how long a database is waited for, by a world and by one whose database goes away."""
FREE_S: Final = 3.0
"""How long whoever looks after deaths may have a lock; those of handlers would end by themselves after longer."""
LET_GO_S: Final = 0.2
"""After which a cancel that waits for a transaction of the handler lets it go on."""
UNTOLD: Final = {"outbox", "task_dead_letters", "database_identity", "system_settings"}
"""Tables that are looked at otherwise, or that no handler writes."""
OF_THE_WAY: Final = {
    "tasks",
    "knowledge_processing_spans",
    "stage_files",
    "file_notes",
    "audit_logs",
    "sync_logs",
    "files of tasks",
}
"""What tells how it came about."""
CHANGING: Final = {
    "id", "seq", "vector", "duration_ms", "data", "options", "words", "detail", "details", "config", "cursor", "file_key",
    "attempt", "parsed_attempt", "last_position", "generation", "index_generation", "index_generations", "rowid", "meta",
    "payload", "key", "input", "output", "metadata", "sha256", "size", "aggregate_hash", "listing",
}  # fmt: skip
BY_CHANCE: Final = re.compile(
    r"\b([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}|\d{13,}|[\d,]+ bytes, SHA-256 \w+)\b"
)
"""Ids and times inside of texts."""
WAITING: Final = (JobState.PENDING, JobState.SCHEDULED, JobState.RETRY, JobState.ACTIVE)

Snapshot = Mapping[str, Sequence[str]]


@dataclass
class World:
    """What a test of a handler works with."""

    pipeline: Pipeline
    services: Services
    kb: KnowledgeBase
    folder: Path
    proxy: TcpProxy | None
    models: EmbeddingServer | None = None
    locked: set[str] = field(default_factory=set)
    """The names of all locks that were asked for."""

    async def do(self, step: Any, *args: Any, **options: Any) -> Any:
        """Run one transition in a transaction of its own."""
        async with self.services.outbox.transaction() as session:
            return await step(session, *args, **options)

    @staticmethod
    def strange(job: JobPayload) -> list[JobPayload]:
        """The payload with ids that exist nowhere, and as if it were another tenant's."""
        named = {name: value for name, value in job if name.endswith(("_id", "_ids")) and name != "tenant_id"}
        nowhere = {
            name: ("nowhere",) if isinstance(value, tuple) else "nowhere"
            for name, value in named.items()
            if value
        }
        return [job.model_copy(update=nowhere), job.model_copy(update={"tenant_id": TENANT + 1})]

    async def look(self, step: Any, *args: Any) -> Any:
        """Run one reading function."""
        async with self.services.database.read() as session:
            return await step(session, *args)

    async def rows(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        async with self.services.database.read() as session:
            return [tuple(row) for row in await session.execute(text(statement), values)]

    async def base(self, name: str, **settings: Any) -> KnowledgeBase:
        made: KnowledgeBase = await self.do(ensure_base, TENANT, name, settings)
        return made

    async def upload(self, name: str, data: str | bytes, kb: KnowledgeBase | None = None) -> str:
        """Send a file to a base; return its document."""
        path = self.folder / f"sent-{name}"
        await asyncio.to_thread(path.write_bytes, data if isinstance(data, bytes) else data.encode())
        (entered,), _ = await take_in_uploads(self.services, (kb or self.kb).id, [Upload(name, path)])
        return entered.registered.knowledge_id

    async def tell(self, title: str, passage: str, kb: KnowledgeBase | None = None) -> str:
        """Send a base one passage, which no child process has to read; return its document."""
        given = Passages(title=title, passages=(passage,))
        (entered,), _ = await take_in_passages(self.services, (kb or self.kb).id, given)
        return entered.registered.knowledge_id

    async def through(self, *types: str) -> None:
        """Work on what waits of these types, until none is left, also of what is to come later."""
        while True:
            await self.services.outbox.relay(older_than_ms=0)
            for kind in types:
                await self.hurry(kind)
            await drain(self.pipeline, [OF[kind] for kind in types], services=self.services, timeout=60)
            if not [one for kind in types for one in await self.jobs(kind)]:
                return

    async def jobs(self, kind: str, states: Sequence[JobState] = WAITING) -> list[JobRecord]:
        """The jobs of a type that have not ended."""
        queue = OF[kind].payload.spec.queue if kind in OF else kind
        found: list[JobRecord] = []
        for state in states:
            page = await self.pipeline.inspector.tasks(queue, state, None, 100, match=TaskFilter(type=kind))
            found += page.records
        return found

    async def the_job(self, kind: str) -> JobRecord:
        """The one job of a type that waits."""
        await self.services.outbox.relay(older_than_ms=0)
        (found,) = await self.jobs(kind)
        return found

    async def hurry(self, kind: str) -> None:
        """Let what is to come later come now."""
        for job in await self.jobs(kind, (JobState.SCHEDULED, JobState.RETRY)):
            await self.pipeline.inspector.act(Action.RUN_NOW, [job.job.id])

    @staticmethod
    def payload(record: JobRecord) -> Any:
        return OF[record.job.type].payload.decode(record.job.data)

    async def state(self, job_id: str) -> JobState | None:
        (found,) = await self.pipeline.broker.states([job_id])
        return found

    async def ended(self, job_id: str, timeout: float = 30) -> JobState:
        """How a job ended; until then it never waits for its next attempt."""

        async def over() -> JobState | None:
            found = await self.state(job_id)
            if found in {JobState.SCHEDULED, JobState.RETRY}:
                await self.pipeline.inspector.act(Action.RUN_NOW, [job_id])
            return found if found is None or found in TERMINAL else None

        return await wait_until(over, describe=f"job {job_id} has ended", timeout=timeout)

    @asynccontextmanager
    async def working(self, watch: Watch) -> AsyncIterator[None]:
        """A worker that does nothing but jobs of this type."""
        spec = watch.handler.payload.spec
        async with self.pipeline.workers(
            pools=[QUEUES[spec.queue].pool],
            handlers=[watch.watched()],
            services=self.services,
            only={spec.type},
            duties={"outbox": self.services.duties["outbox"]},
        ):
            yield

    async def run(self, watch: Watch, *job_ids: str) -> list[JobState]:
        """Work until these jobs have ended and their deaths are written down; how each did."""
        async with self.working(watch):
            await self.hurry(watch.handler.payload.spec.type)
            ends = [await self.ended(job_id) for job_id in job_ids]
            for job_id, end in zip(job_ids, ends, strict=True):
                if end is JobState.ARCHIVED:
                    await wait_until(partial(self.death, job_id), describe="its death is written down")
        await self.services.outbox.relay(older_than_ms=0)
        return ends

    async def cancelled_in(self, watch: Watch, record: JobRecord, stop: Any) -> bool:
        """Work on a job and stop it at the await that the watch names; False where that came too late."""
        async with self.working(watch):
            await self.hurry(record.job.type)
            await wait_until(lambda: watch.runs, describe="it runs")
            run = watch.runs[0]
            await wait_until(lambda: run.stands.is_set() or run.over, describe="it stands still", timeout=30)
            stopping = asyncio.create_task(stop(self, record))
            await asyncio.wait([stopping], timeout=LET_GO_S)
            run.go.set()  # it may be inside the transaction that this waits for
            stopped = await stopping
            assert await self.ended(record.job.id) in {JobState.CANCELLED, JobState.COMPLETED}
        await self.services.outbox.relay(older_than_ms=0)
        return bool(stopped)

    async def put_off(self, record: JobRecord) -> bool:
        """Whether a job waits for its next attempt."""
        return await self.state(record.job.id) in {JobState.SCHEDULED, JobState.RETRY}

    async def death(self, job_id: str) -> tuple[str, str] | None:
        """Why a job died, in a word and in a sentence."""
        columns = "SELECT reason, last_error FROM task_dead_letters WHERE death_id LIKE :id"
        found = await self.rows(columns, id=f"{job_id}:%")
        return found[-1] if found else None

    async def snapshot(self) -> Snapshot:
        """All that there is, but for random ids and times."""
        tables = [table.name for target in TARGETS for table in target.sorted_tables]
        found = {
            name: await self._table(name)
            for name in (*tables, "search_entries", "search_vectors")
            if name not in UNTOLD
        }
        root = self.services.settings.data_dir / "files"
        files = [path for path in root.rglob("*") if path.is_file() and "stages" not in path.parts]
        of_tasks = [path for path in files if path.is_relative_to(root / "tasks")]
        found["files"] = sorted(_content(path) for path in files if path not in of_tasks)
        found["files of tasks"] = sorted(map(_content, of_tasks))
        waiting: Counter[str] = Counter()
        for queue in QUEUES:
            for state in WAITING:
                page = await self.pipeline.inspector.tasks(queue, state, None, 100)
                waiting.update(one.job.type for one in page.records)
        found["jobs"] = sorted(f"{n} {kind}" for kind, n in waiting.items())
        return {name: rows for name, rows in found.items() if rows}

    async def _table(self, name: str) -> list[str]:
        async with self.services.database.read() as session:
            rows = (await session.execute(text(f"SELECT * FROM {name}"))).mappings().all()
        told = [repr({key: value for key, value in row.items() if _lasting(key)}) for row in rows]
        return sorted(BY_CHANCE.sub("#", one) for one in told)

    async def expect_rest(self) -> None:
        """Nobody holds anything, and nothing is half there."""
        left = {
            "outbox": "SELECT type FROM outbox",
            "open slots": "SELECT s.kind FROM slots s LEFT JOIN knowledges k ON k.id = s.knowledge_id"
            " WHERE k.id IS NULL OR k.parse_status NOT IN ('processing', 'finalizing')",
            "open spans": "SELECT p.name FROM knowledge_processing_spans p JOIN knowledges k ON k.id = p.knowledge_id"
            " WHERE p.status IN ('pending', 'running') AND k.parse_status IN ('completed', 'failed', 'cancelled')",
            "claims": "SELECT op FROM task_pending_ops WHERE claimed_by IS NOT NULL AND claimed_by <> ''",
            "entries of nothing": "SELECT e.id FROM search_entries e LEFT JOIN knowledges k ON k.id = e.knowledge_id"
            " WHERE k.id IS NULL AND e.knowledge_id IS NOT NULL AND e.kind NOT IN ('faq', 'wiki')",
        }
        found = {name: await self.rows(query) for name, query in left.items()}
        assert not any(found.values()), found
        for name in sorted(self.locked):
            await wait_until(partial(self._is_free, name), describe=f"nobody has {name}", timeout=FREE_S)

    async def _is_free(self, name: str) -> bool:
        broker = self.pipeline.broker
        return await broker.lock(name, "passer-by", 1_000) is not None and await broker.unlock(
            name, "passer-by"
        )

    @contextmanager
    def away(self, what: str) -> Iterator[None]:
        """What a handler depends on is not there while the block runs."""
        match what:
            case "files" | "source":
                data = self.services.settings.data_dir
                root = data / "files" if what == "files" else self.folder / "source"
                root.rename(root.with_name("away"))
                try:
                    yield
                finally:
                    assert not root.exists(), "nobody makes another store in its place"
                    root.with_name("away").rename(root)
            case "embedder":
                assert self.models is not None
                self.models.down = True
                try:
                    yield
                finally:
                    self.models.down = False
            case "database" if self.proxy:
                with self.proxy.away():
                    yield
            case _:
                with closing(sqlite3.connect(self.services.database.url.database or "", timeout=0)) as other:
                    other.isolation_level = None
                    other.execute("BEGIN IMMEDIATE")
                    yield


async def in_reach(run: Stepped, world: World, what: str) -> ExitStack:
    """Take away what a run depends on that stands still; it goes on until nobody else has it."""
    while True:
        await asyncio.wait_for(run.stands.wait(), 30)
        stack = ExitStack()
        try:
            stack.enter_context(world.away(what))
        except sqlite3.OperationalError:  # its own transaction has the file
            run.one_more()
        else:
            return stack


def _content(path: Path) -> str:
    return path.suffix if path.suffix == ".zip" else f"{path.suffix} {sha256(path.read_bytes()).hexdigest()}"


def _lasting(column: str) -> bool:
    return column not in CHANGING and not column.endswith(("_id", "_at", "_ids", "_job"))


def difference(one: Snapshot, other: Snapshot) -> dict[str, tuple[list[str], list[str]]]:
    """What only the one has, and what only the other, by table."""
    found = {}
    for name in sorted(one.keys() | other.keys()):
        ours, theirs = Counter(one.get(name, ())), Counter(other.get(name, ()))
        if ours != theirs:
            found[name] = sorted((ours - theirs).elements()), sorted((theirs - ours).elements())
    return found


def but_for_accounts(found: Snapshot) -> Snapshot:
    """All but what was written down of a job that was refused."""
    return {name: rows for name, rows in found.items() if name not in {"tasks", "audit_logs"}}


def lasting(found: Snapshot) -> Snapshot:
    """What is left in the end, however it came about."""
    return {name: rows for name, rows in found.items() if name not in OF_THE_WAY}


@asynccontextmanager
async def open_world(
    folder: Path, place: tuple[str, str], models: EmbeddingServer | None = None, busy_s: float = PATIENT_S
) -> AsyncIterator[World]:
    """A base named demo on a queue and a database of these kinds."""
    queue, kind = place
    backend = BACKENDS[queue](folder)
    with migrated(kind, folder) as there, ExitStack() as closing_, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "open", partial(Database.open, busy_s=busy_s))
        url, proxy = there, None
        if kind == "postgres":
            proxy = TcpProxy(there.host or "127.0.0.1", there.port or 5432, framed=False)
            closing_.callback(proxy.close)
            url = there.set(host="127.0.0.1", port=proxy.port)
        asked = {
            **backend.settings(),
            **(models.settings() if models else MODEL),
            "database_url": url.render_as_string(hide_password=False),
            "source_folders": str(folder),
        }
        try:
            async with Pipeline.open(**asked) as pipeline, open_services(pipeline) as services:
                async with services.outbox.transaction() as session:
                    kb = await ensure_base(session, TENANT, "demo")
                world = World(pipeline, services, kb, folder, proxy, models)
                take = pipeline.broker.lock

                async def noted(name: str, *args: Any) -> int | None:
                    world.locked.add(name)
                    return await take(name, *args)

                patch.setattr(pipeline.broker, "lock", noted)
                yield world
        finally:
            await backend.close()
