"""A knowledge base on a real, migrated database, with the documents of a test in it and a queue that a test empties."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from consumers.knowledge import ids
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.documents.contents import Parsed, Passage, Picture
from consumers.knowledge.documents.documents import Registered, SourceFile, register
from consumers.knowledge.documents.slots import Child
from consumers.knowledge.files.store import FolderStore
from consumers.knowledge.search.store import SearchStore
from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase
from consumers.migrations.schema import TARGETS
from consumers.services import search_of
from contracts.fences import Coverage
from contracts.jobs import JobPayload, Scope
from contracts.knowledge import ParseStatus, SlotKind
from contracts.payloads.enrichment import ChunkExtract, KnowledgeAutoTag, SummaryGeneration
from contracts.states import JobState
from pipeline.broker import ScopeCancel
from pipeline.client import Enqueue
from pipeline.clock import now_ms
from pipeline.errors import StoreUnavailable
from pipeline.receipt import Receipt
from pipeline.store import Database, Outbox
from sqlalchemy import URL, text

from tests.support.databases import sqlite_file

MODEL = "test-model"
Step = Callable[..., Any]


class Killed(BaseException):
    """The process is gone: nothing catches this on its way."""


@dataclass
class Queue:
    """What has been enqueued, each job once under its id."""

    waiting: dict[str, JobPayload] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    rooted: dict[str, int] = field(default_factory=dict)
    cuts: dict[Scope, int] = field(default_factory=dict)
    away: bool = False

    async def enqueue_many(self, items: Sequence[Enqueue]) -> list[Receipt]:
        if self.away:
            raise StoreUnavailable("the queue is away, as the test asked")
        return [self._take(item) for item in items]

    async def choose_cut(self) -> int:
        if self.away:
            raise StoreUnavailable("the queue is away, as the test asked")
        return now_ms()

    async def cancel_scope(self, scope: Scope, coverage: Coverage, cut: int | None = None) -> ScopeCancel:
        if self.away:
            raise StoreUnavailable("the queue is away, as the test asked")
        self.cuts[scope] = cut = max(self.cuts.get(scope, 0), now_ms() if cut is None else cut)
        gone = [
            job_id
            for job_id, job in self.waiting.items()
            if scope in job.scopes() and coverage.covers(job.spec.type) and self.rooted[job_id] <= cut
        ]
        for job_id in gone:
            self.waiting.pop(job_id)
        return ScopeCancel(cut, tuple(gone), ())

    def _take(self, item: Enqueue) -> Receipt:
        job_id = item.id or ""
        duplicate = job_id in self.known
        if not duplicate:
            self.known.add(job_id)
            self.waiting[job_id] = item.payload
            cuts = [self.cuts[scope] + 1 for scope in item.payload.scopes() if scope in self.cuts]
            self.rooted[job_id] = max(now_ms(), *cuts, 0)
        return Receipt(job_id, JobState.PENDING, duplicate=duplicate)


@dataclass
class Library:
    """One base, and what its documents need."""

    database: Database
    index: SearchStore
    queue: Queue
    outbox: Outbox
    kb: KnowledgeBase
    files: FolderStore
    source: KnowledgeBase | None = None
    """Another base, from which documents come."""
    profiled: list[JobPayload] = field(default_factory=list)
    """Jobs that would have written what a base is about."""

    async def do(self, step: Step, *args: Any, **options: Any) -> Any:
        """Run one transition in a transaction of its own."""
        async with self.outbox.transaction() as session:
            return await step(session, *args, **options)

    async def look(self, step: Step, *args: Any, **options: Any) -> Any:
        """Run one reading function."""
        async with self.database.read() as session:
            return await step(session, *args, **options)

    async def register(self, source: str = "/a.txt", content: str = "one") -> Registered:
        found: Registered = await self.do(register, self.kb, file(source, content))
        return found

    async def stop(self, verb: Step, ids: Any, **options: Any) -> Any:
        """Do to documents of tenant 7 what a person does."""
        return await self.do(verb, 7, ids, await self.outbox.choose_cut(), **options)

    async def document(self, knowledge_id: str) -> Knowledge:
        async with self.database.read() as session:
            return await session.get_one(Knowledge, knowledge_id)

    async def status(self, knowledge_id: str) -> ParseStatus:
        return (await self.document(knowledge_id)).parse_status

    async def rows(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        async with self.database.read() as session:
            return [tuple(row) for row in await session.execute(text(statement), values)]

    async def contents(self) -> Mapping[str, list[str]]:
        """All that the database holds, but for random ids and times."""
        named = [table.name for target in TARGETS for table in target.sorted_tables]
        return {name: await self._table(name) for name in (*named, "search_entries")}

    async def _table(self, name: str) -> list[str]:
        async with self.database.read() as session:
            rows = (await session.execute(text(f"SELECT * FROM {name}"))).mappings().all()
        return sorted(repr({key: value for key, value in row.items() if _lasting(key)}) for row in rows)

    async def reopen(self) -> None:
        """Go on as another process would after this one was killed."""
        await self.close()
        self.database = Database.open(self.database.url)
        self.index = search_of(self.database)
        self.outbox = Outbox(self.database, self.queue.enqueue_many, self.queue)

    async def close(self) -> None:
        await self.index.close()
        await self.database.close()


@asynccontextmanager
async def open_library(folder: Path, url: URL | None = None) -> AsyncIterator[Library]:
    """A base named demo in a migrated database, by default a file in `folder`."""
    queue, database = Queue(), Database.open(url or sqlite_file(folder))
    outbox = Outbox(database, queue.enqueue_many, queue)
    async with database.transaction() as session:
        kb = await ensure_base(session, 7, "demo")
    library = Library(database, search_of(database), queue, outbox, kb, FolderStore(folder / "files"))
    try:
        yield library
    finally:
        await library.close()


def _lasting(column: str) -> bool:
    return column not in {
        "id",
        "seq",
        "vector",
        "duration_ms",
        "data",
        "options",
        "words",
    } and not column.endswith(("_id", "_at"))


def file(source: str = "/a.txt", content: str = "one") -> SourceFile:
    return SourceFile(
        source=source,
        file_name=Path(source).name,
        file_type="txt",
        file_hash=content,
        file_size=len(content),
        file_key=f"{content}.txt",
    )


def parsed(*texts: str, pictures: int = 0) -> Parsed:
    return Parsed(
        passages=[
            Passage(text=words, heading=("Title",), vector=vector(place)) for place, words in enumerate(texts)
        ],
        pictures=[Picture(file_key=f"picture-{number}", mime="image/png") for number in range(pictures)],
        title="Title",
        language="en",
        model=MODEL,
    )


def vector(place: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    made = np.zeros(4, np.float32)
    made[place % 4] = 1
    return made


def children(library: Library, knowledge_id: str, attempt: int, parts: int = 2) -> list[Child]:
    """A summary, `parts` graph parts, and tags that nobody waits for."""
    common = {
        "tenant_id": 7,
        "knowledge_base_id": library.kb.id,
        "knowledge_id": knowledge_id,
        "attempt": attempt,
    }

    def name(kind: str, index: int = 0) -> str:
        return ids.enrichment_job(knowledge_id, attempt, kind, index)

    graph = [
        Child(
            name("graph", place),
            ChunkExtract(
                **common, chunk_id=ids.chunk(knowledge_id, attempt, "text", place), chunk_index=place
            ),
            SlotKind.GRAPH,
        )
        for place in range(parts)
    ]
    summary = Child(name("summary"), SummaryGeneration(**common), SlotKind.SUMMARY)
    return [summary, *graph, Child(name("auto_tag"), KnowledgeAutoTag(**common))]
