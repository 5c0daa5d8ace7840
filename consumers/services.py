"""What handlers need, built once per process."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from consumers.database import newest_database, outbox_of, refuse_another
from consumers.housekeeping import Housekeeping
from consumers.knowledge.answers import attachments
from consumers.knowledge.documents.stages import KeptEmbedder, Stages
from consumers.knowledge.embedding.embedder import Embedder
from consumers.knowledge.embedding.embedders import Embedders
from consumers.knowledge.files.filing import files_of
from consumers.knowledge.files.noted import NotedStore
from consumers.knowledge.files.store import FileStore
from consumers.knowledge.long_work import tasks
from consumers.knowledge.search.postgres import PostgresSearch
from consumers.knowledge.search.precedence import Precedence
from consumers.knowledge.search.sides import Side, side_of
from consumers.knowledge.search.sqlite import SqliteSearch
from consumers.knowledge.search.store import SearchStore
from consumers.knowledge.upkeep.unowned import remove_unowned
from consumers.knowledge.vision import Vision
from consumers.scratch import sweep_scratch
from consumers.settings import share
from consumers.sources.firing import Firing
from pipeline import Database, Outbox, Pipeline, Settings
from pipeline.runtime import through
from pipeline.store.ledger import SqlLedger

RELAY_S: Final = 1.0
PRUNE_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Services:
    """The outside world, as handlers see it. `reading` is held while a file or picture is read."""

    settings: Settings
    pipeline: Pipeline
    database: Database
    outbox: Outbox
    files: FileStore
    search: SearchStore
    embedders: Embedders
    vision: Vision
    stages: Stages
    reading: asyncio.Semaphore
    precedence: Precedence
    housekeeping: Housekeeping
    firing: Firing

    @property
    def duties(self) -> Mapping[str, Callable[[], Awaitable[float]]]:
        """What a worker process does beside its jobs: send what the outbox still holds, and look for what got stuck."""
        return {
            "outbox": self._relay,
            "kept": self._prune,
            "sweeps": self.housekeeping.tick,
            "sources": self.firing.tick,
        }

    @property
    def embedder(self) -> Embedder:
        """Compares texts within this process; what is indexed is embedded by the `side` of its base."""
        return self.embedders.local

    async def side(self, kb_id: str) -> Side:
        """Return the serving index of a base, with its embedder. Raises ModelUnavailable, StoreUnavailable."""
        async with self.database.read() as session:
            return await side_of(session, self.embedders, kb_id)

    def embedder_for(self, knowledge_id: str, side: Side | None = None) -> Embedder:
        """Return the embedder of a side, None: of this process, that makes vectors of a text of this document once only."""
        if side is None:
            return KeptEmbedder(self.stages, self.embedder, knowledge_id)
        return KeptEmbedder(self.stages, side.embedder, knowledge_id, side.generation)

    async def _prune(self) -> float:
        await self.stages.prune()
        await attachments.prune(self.database, self.files)
        await self.files.tidy()
        await remove_unowned(self.database, self.files)
        await asyncio.to_thread(sweep_scratch)
        async with self.database.read() as session:
            old = await tasks.finished_long_ago(session)
        for task_id in old:
            await self.files.delete(tasks.folder(task_id))
        async with self.database.transaction() as session:
            await tasks.forget(session, old)
        return PRUNE_S

    async def _relay(self) -> float:
        await self.outbox.relay()
        return RELAY_S


@asynccontextmanager
async def open_services(pipeline: Pipeline) -> AsyncIterator[Services]:
    """Bring the database to its newest form and open everything. Raises ConfigurationError, StoreUnavailable."""
    await asyncio.to_thread(sweep_scratch)
    database = await newest_database(pipeline.settings)
    search, kept = search_of(database), files_of(pipeline.settings)
    files = NotedStore(database, kept)
    opened: list[Embedders | Vision] = []
    pipeline.ledger = SqlLedger(database)
    pipeline.inspector.unsent = outbox = outbox_of(pipeline, database)

    async def close() -> None:
        for models in opened:
            await models.close()
        await search.close()
        await files.close()
        await database.close()

    try:
        await share(pipeline, database)
        await refuse_another(pipeline, database)
        settings = pipeline.settings
        opened.append(embedders := Embedders(settings))
        opened.append(vision := Vision(settings))
        yield Services(
            settings=settings,
            pipeline=pipeline,
            database=database,
            outbox=outbox,
            files=files,
            search=search,
            embedders=embedders,
            vision=vision,
            stages=Stages(database, kept),
            reading=asyncio.Semaphore(settings.parser_concurrency),
            precedence=Precedence(),
            housekeeping=Housekeeping(pipeline, database, outbox, search),
            firing=Firing(outbox, pipeline.inspector.has_queued, pipeline.broker.states),
        )
    finally:
        await through(close())


def search_of(database: Database) -> SearchStore:
    """Return the index that lies in a database."""
    return PostgresSearch(database) if database.on_server else SqliteSearch(database.url)
