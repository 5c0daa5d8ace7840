"""A knowledge base on a real queue, with documents that stand still since a time that the test chooses."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from consumers.database import outbox_of
from consumers.housekeeping import Housekeeping
from consumers.knowledge.documents.contents import store_parsed
from consumers.knowledge.documents.documents import begin_processing
from consumers.knowledge.documents.slots import begin_finalizing
from consumers.knowledge.progress.spans import Attempt
from consumers.knowledge.tables.knowledge import Knowledge
from consumers.sweeping import Sweep, Swept
from contracts.jobs import Job, JobPayload
from contracts.knowledge import ParseStatus, Stage
from contracts.states import JobState
from pipeline.runtime import QUEUE_FILE, Pipeline
from pipeline.store import Database
from sqlalchemy import text, update

from tests.support.backends import BACKENDS, Backend
from tests.support.databases import locked, migrated
from tests.support.library import Library, children, open_library, parsed
from tests.support.redis_backend import Redis
from tests.support.redis_server import forget
from tests.support.tcp_proxy import TcpProxy

HOUR_S: Final = 3600
LONG_S: Final = 3 * HOUR_S
"""Longer than a document may stand still."""


@dataclass
class House:
    """A base, its queue, and who keeps them in order."""

    library: Library
    pipeline: Pipeline
    backend: Backend
    proxy: TcpProxy | None = None

    @asynccontextmanager
    async def database_away(self) -> AsyncIterator[None]:
        """Let no transaction that writes come to its end."""
        if self.proxy:
            with self.proxy.away():
                yield
            return
        async with locked(Path(self.library.database.url.database or "")):
            yield

    async def impatient(self) -> None:
        """Wait for a database no longer than a moment."""
        self.library.database, before = (
            Database.open(self.library.database.url, busy_s=0.2),
            self.library.database,
        )
        await before.close()
        self.reopen_outbox()

    def keeper(self, **options: Any) -> Housekeeping:
        """Housekeeping as another process would do it."""
        library = self.library
        return Housekeeping(self.pipeline, library.database, library.outbox, library.index, **options)

    async def sweep(self, *, dry: bool = False) -> Swept:
        swept = await self.keeper().sweep(dry=dry)
        assert swept is not None, "nobody else sweeps"
        return swept

    async def looks(self) -> Swept:
        """A sweep without asking who leads."""
        library = self.library
        return await Sweep(self.pipeline, library.database, library.outbox, library.index).run()

    async def waiting(self, kind: type[JobPayload]) -> list[Job]:
        """The jobs of a type that wait."""
        found: list[Job] = []
        for state in (JobState.PENDING, JobState.SCHEDULED):
            page = await self.pipeline.inspector.tasks(kind.spec.queue, state)
            found += [record.job for record in page.records if record.job.type == kind.spec.type]
        return found

    async def cancel_jobs(self, document: Knowledge) -> None:
        await self.pipeline.inspector.cancel_scope("knowledge", document.id)

    def reopen_outbox(self) -> None:
        """Let what is asked for go through the database that the library has now."""
        self.pipeline.inspector.unsent = self.library.outbox = outbox_of(self.pipeline, self.library.database)

    async def document(self, status: ParseStatus, content: str = "one") -> Knowledge:
        """A document that came as far as this, by the transitions that its jobs make."""
        library = self.library
        found = await library.register(f"/{content}.txt", content)
        place = found.knowledge_id, found.attempt
        if status is not ParseStatus.PENDING:
            await library.do(begin_processing, *place)
        if status is ParseStatus.FINALIZING:
            await library.do(store_parsed, library.index, *place, parsed("a", "b"))
            await library.do(begin_finalizing, *place, children(library, *place))
        return await library.document(found.knowledge_id)

    async def enter(self, document: Knowledge, stage: Stage) -> None:
        async def enter(session: Any) -> None:
            await Attempt(session, document.id, document.attempt).enter(stage)

        await self.library.do(enter)

    async def open_part(self, document: Knowledge, stage: Stage, name: str) -> None:
        async def open_part(session: Any) -> None:
            await Attempt(session, document.id, document.attempt).open_part(stage, name)

        await self.library.do(open_part)

    async def age(self, seconds: float = LONG_S) -> None:
        """Let everything have stood still for so long."""
        for table, columns in {
            "knowledges": ["updated_at"],
            "knowledge_processing_spans": ["updated_at", "started_at"],
            "slots": ["created_at"],
            "task_pending_ops": ["enqueued_at"],
        }.items():
            set_ = ", ".join(f"{column} = {column} - :by" for column in columns)
            await self._run(f"UPDATE {table} SET {set_}", by=round(seconds * 1000))

    async def lose_jobs(self) -> None:
        """Let the queue lose all its jobs, without a trace, as one does that comes back on an empty disk."""
        if isinstance(self.backend, Redis):
            for server in self.backend.servers:
                forget(server, self.backend.namespace)
            return
        with closing(sqlite3.connect(self.pipeline.settings.data_dir / QUEUE_FILE)) as file:
            for table in ("jobs", "scopes", "tombstones"):
                file.execute(f"DELETE FROM {table}")
            file.commit()

    async def clear(self) -> None:
        """Forget every document, and every job."""
        await self._run("DELETE FROM knowledges")
        await self._run("DELETE FROM outbox")
        await self.lose_jobs()

    async def set(self, document: Knowledge, **values: Any) -> None:
        async def set_(session: Any) -> None:
            await session.execute(update(Knowledge).where(Knowledge.id == document.id).values(**values))

        await self.library.do(set_)

    async def spans(self, document: Knowledge) -> list[tuple[Any, ...]]:
        """Name, status, code of each span, and whether it is known how long it took."""
        return await self.library.rows(
            "SELECT name, status, error_code, duration_ms >= 0 FROM knowledge_processing_spans"
            " WHERE knowledge_id = :id ORDER BY name",
            id=document.id,
        )

    async def _run(self, statement: str, **values: Any) -> None:
        async def run(session: Any) -> None:
            await session.execute(text(statement), values)

        await self.library.do(run)


PLACES: Final = [
    pytest.param((name, "sqlite" if name == "lite" else "postgres"), id=name,
                 marks=[] if name == "lite" else [pytest.mark.postgres])
    for name in BACKENDS
]  # fmt: skip
"""A queue and a database, as they belong together: all in files, or all on servers."""


@asynccontextmanager
async def open_house(folder: Path, place: tuple[str, str], **settings: Any) -> AsyncIterator[House]:
    """A base in a database of this kind, whose jobs go to a queue of this kind."""
    queue, kind = place
    backend = BACKENDS[queue](folder)
    with migrated(kind, folder) as there, ExitStack() as closing_:
        url, proxy = there, None
        if kind == "postgres":
            proxy = TcpProxy(there.host or "127.0.0.1", there.port or 5432, framed=False)
            closing_.callback(proxy.close)
            url = there.set(host="127.0.0.1", port=proxy.port)
        try:
            async with (
                Pipeline.open(**backend.settings(), **settings) as pipeline,
                open_library(folder, url) as library,
            ):
                house = House(library, pipeline, backend, proxy)
                house.reopen_outbox()
                yield house
        finally:
            await backend.close()
