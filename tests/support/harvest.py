"""A base with sources, on a real queue and a real database: runs are worked on, documents are only registered."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from consumers.handlers.sync import HANDLERS
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase
from consumers.knowledge.tables.sources import DataSource, SourceItem, SyncLog
from consumers.maintenance import HANDLERS as MAINTENANCE
from consumers.services import Services, open_services
from consumers.sources import registry, runs
from consumers.sources.registry import NewSource, Plan
from consumers.sources.runs import Wish
from contracts.payloads.maintenance import KnowledgeListDelete
from contracts.sources import SyncState
from pipeline import Handler, Pipeline, on
from pipeline.testing import drain
from sqlalchemy import URL, select

from tests.support.waiting import wait_until

REMOVING = tuple(one for one in MAINTENANCE if one.payload is KnowledgeListDelete)


@dataclass
class Harvest:
    """What a test of sources works with."""

    pipeline: Pipeline
    services: Services
    kb: KnowledgeBase
    place: Path

    async def source(
        self, kind: str = "folder", config: Mapping[str, Any] | None = None, name: str = "", **plan: Any
    ) -> DataSource:
        """Make a source; a folder named `papers` below the place of the test, unless told otherwise."""
        if config is None:
            (self.place / "papers").mkdir(exist_ok=True)
            config = {"path": str(self.place / "papers")}
        credentials = plan.pop("credentials", {})
        new = NewSource(
            name=name or kind, kind=kind, config=config, credentials=credentials, plan=Plan(**plan)
        )
        async with self.services.outbox.transaction() as session:
            made = await registry.create(session, self.kb, new)
        assert made is not None
        return made

    async def ask(self, source: DataSource, **wish: Any) -> str | None:
        """Ask for a run."""
        async with self.services.outbox.transaction() as session:
            return await runs.open_run(session, source, Wish(**wish))

    async def sync(self, source: DataSource, **wish: Any) -> SyncLog:
        """Run a source to its end, with the removals that it asks for, and return the log of the run."""
        run_id = await self.ask(source, **wish)
        assert run_id is not None, "another run is under way"
        await self.work()
        return await self.run(run_id)

    async def work(self, handlers: Sequence[Handler] = HANDLERS) -> None:
        """Work on what waits."""
        await drain(self.pipeline, [*handlers, *REMOVING], services=self.services, timeout=60)

    async def through(self, run_id: str) -> SyncLog:
        """Work until a run has ended, with attempts that follow each other at once, and return its log."""
        soon = [
            on(one.payload, one.run, on_archived=one.on_archived, retry=lambda *_: 0.0)
            for one in (*HANDLERS, *REMOVING)
        ]

        async def ended() -> bool:
            return (await self.run(run_id)).state is not SyncState.RUNNING

        types = {one.payload.spec.type for one in soon}
        async with self.pipeline.workers(
            pools=["maintenance"], handlers=soon, services=self.services, only=types
        ):
            await wait_until(ended, describe="the run has ended", timeout=60)
        await self.work()
        return await self.run(run_id)

    async def run(self, run_id: str) -> SyncLog:
        async with self.services.database.read() as session:
            return await session.get_one(SyncLog, run_id)

    async def row(self, source: DataSource) -> DataSource:
        async with self.services.database.read() as session:
            return await session.get_one(DataSource, source.id)

    async def documents(self) -> Mapping[str, Knowledge]:
        """The documents of the base by what their source calls them."""
        async with self.services.database.read() as session:
            rows = await session.scalars(
                select(Knowledge).where(Knowledge.knowledge_base_id == self.kb.id).order_by(Knowledge.source)
            )
            return {row.source.partition(":")[2]: row for row in rows}

    async def items(self, source: DataSource) -> Mapping[str, SourceItem]:
        async with self.services.database.read() as session:
            rows = await session.scalars(
                select(SourceItem)
                .where(SourceItem.data_source_id == source.id)
                .order_by(SourceItem.external_id)
            )
            return {row.external_id: row for row in rows}


def counts(run: SyncLog) -> dict[str, int]:
    """What a run came to, without what is nought."""
    return {name: getattr(run, name) for name in runs.COUNTS if getattr(run, name)}


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files below a folder."""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@asynccontextmanager
async def open_harvest(place: Path, database_url: URL, **settings: Any) -> AsyncIterator[Harvest]:
    """Open a base whose sources may read what lies in a place."""
    settings.setdefault("source_folders", str(place))
    url = database_url.render_as_string(hide_password=False)
    async with (
        Pipeline.open(database_url=url, **settings) as pipeline,
        open_services(pipeline) as services,
    ):
        async with services.outbox.transaction() as session:
            kb = await ensure_base(session, 7, "papers")
        yield Harvest(pipeline, services, kb, place)
