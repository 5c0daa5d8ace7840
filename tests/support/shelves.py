"""A base with documents in its index, on whatever database, and its handlers run step by step."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import structlog
from consumers.knowledge.answers.asking import Found, look
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.documents.contents import Parsed, Passage, store_parsed
from consumers.knowledge.documents.documents import ProcessOptions, SourceFile, begin_processing, register
from consumers.knowledge.embedding.hashing import HashingEmbedder
from consumers.knowledge.reading.chunking import context
from consumers.knowledge.search.sides import hold
from consumers.knowledge.tables.knowledge import KnowledgeBase
from consumers.knowledge.tables.tasks import Task
from consumers.services import Services, open_services
from pipeline import Pipeline
from sqlalchemy import URL, text

TENANT = 7
MODEL, DIMENSION = HashingEmbedder.MODEL, 64


@dataclass
class Shelf:
    """A base, and what works on it."""

    pipeline: Pipeline
    services: Services
    kb: KnowledgeBase
    progress: list[tuple[int, int, str]] = field(default_factory=list)

    def context(self, **more: Any) -> Any:
        """What a handler is given."""

        async def progress(done: int, total: int, stage: str = "") -> None:
            self.progress.append((done, total, stage))

        log = structlog.get_logger()
        return SimpleNamespace(
            services=self.services, job=None, progress=progress, log=log, final=False, **more
        )

    def with_settings(self, **changes: Any) -> Services:
        """The services, with other settings."""
        return replace(self.services, settings=self.services.settings.model_copy(update=changes))

    async def write(self, name: str, *texts: str, kb: KnowledgeBase | None = None) -> str:
        """Store a document of these passages, as parsing does; return its id."""
        services, base = self.services, kb or self.kb
        file = SourceFile(
            source=f"/{name}",
            file_name=name,
            file_type="md",
            file_hash=name,
            file_size=1,
            file_key=f"{name}.md",
        )
        async with services.outbox.transaction() as sql:
            knowledge_id = (await register(sql, base, file, ProcessOptions())).knowledge_id
        async with services.outbox.transaction() as sql:
            await begin_processing(sql, knowledge_id, 1)
        side = await services.side(base.id)
        vectors = await side.embedder.embed([context(words, (name,)) for words in texts])
        passages = [
            Passage(text=words, heading=(name,), vector=vector)
            for words, vector in zip(texts, vectors, strict=True)
        ]
        parsed = Parsed(passages=passages, title=name, model=side.model, generation=side.generation)
        async with services.outbox.transaction() as sql:
            await hold(sql, side)
            await store_parsed(sql, services.search, knowledge_id, 1, parsed)
        return knowledge_id

    async def find(self, query: str, kb_id: str = "") -> Found:
        return await look(self.services, kb_id or self.kb.id, query, limit=10)

    async def do(self, step: Any, *args: Any, **options: Any) -> Any:
        async with self.services.outbox.transaction() as sql:
            return await step(sql, *args, **options)

    async def rows(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        async with self.services.database.read() as sql:
            return [tuple(row) for row in await sql.execute(text(statement), values)]

    async def base(self) -> KnowledgeBase:
        async with self.services.database.read() as sql:
            return await sql.get_one(KnowledgeBase, self.kb.id)

    async def task(self, task_id: str) -> Task:
        async with self.services.database.read() as sql:
            return await sql.get_one(Task, task_id)

    async def generations(self) -> dict[int, int]:
        """How many vectors each generation of the base has."""
        return dict(
            await self.rows(
                "SELECT generation, count(*) FROM search_vectors WHERE kb_id = :kb GROUP BY generation",
                kb=self.kb.id,
            )
        )


@asynccontextmanager
async def open_shelf(url: URL, folder: Path, **settings: Any) -> AsyncIterator[Shelf]:
    """A base that is embedded by hashing, with no document yet; its jobs wait in a queue that nobody works on."""
    asked = {
        "database_url": url.render_as_string(hide_password=False),
        "data_dir": folder,
        "embedding_model": MODEL,
        "embedding_dimension": DIMENSION,
        **settings,
    }
    async with Pipeline.open(**asked) as pipeline, open_services(pipeline) as services:
        async with services.outbox.transaction() as sql:
            kb = await ensure_base(sql, TENANT, "shelf")
        yield Shelf(pipeline, services, kb)


ANIMALS: Sequence[str] = (
    "Storks walk in wet meadows.", "Otters sleep on their backs.", "A heron waits for frogs.",
    "Bees dance to tell the way.", "Ravens remember faces.", "An octopus opens jars.",
)  # fmt: skip
