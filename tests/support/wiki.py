"""A base with a wiki on a real queue and a real database, and the workers that write it."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from consumers.commands.hurrying import wake_wiki
from consumers.knowledge import ids
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.bases.wiki_lane import FINALIZE, INGEST, finalize_lane, ingest_lane
from consumers.knowledge.documents.contents import Parsed, Passage, store_parsed
from consumers.knowledge.documents.documents import begin_processing, register
from consumers.knowledge.documents.slots import Child, begin_finalizing
from consumers.knowledge.embedding.embedder import Embedder, Vectors
from consumers.knowledge.embedding.embedders import Embedders
from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase
from consumers.services import Services, open_services
from consumers.wiki import HANDLERS
from contracts.identity import derive_id
from contracts.knowledge import ParseStatus, SlotKind
from contracts.payloads.wiki import WikiIngest
from pipeline import Handler, Pipeline, Settings
from pipeline.store import pending_ops
from sqlalchemy import URL, text

from tests.support.backends import Backend
from tests.support.library import file
from tests.support.waiting import wait_until

TENANT = 7
POOL = (
    "The Core Pool is a set of queues with its own slots. The Core Pool never takes the slots of another one."
)
QUEUE = "The Default Queue is one stream of jobs that wait for the Core Pool. Every Default Queue has a weight in it."
LEASE = "A Job Lease is the time for which the Core Pool holds a job. Each Job Lease is renewed every two seconds."
TYPES = frozenset({INGEST, FINALIZE})


__all__ = ["HANDLERS", "LEASE", "POOL", "QUEUE", "TENANT", "Wiki", "changed", "open_wiki"]


class Hashed:
    """An embedder that costs nothing: texts are near each other where their letters are."""

    model = "hashed"
    dimension = 8

    async def embed(self, texts: Sequence[str]) -> Vectors:
        rows = np.array(
            [[1 + sum(map(ord, one[at::8])) % 97 for at in range(8)] for one in texts], np.float32
        )
        rows = rows.reshape(len(texts), 8)
        unit: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit


class OnlyHashed(Embedders):
    """Nothing else embeds."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.local = self.default = Hashed()

    def get(self, _model: str, _dimension: int) -> Embedder:
        return Hashed()


@dataclass
class Wiki:
    """One base, and a process that may work for it."""

    backend: Backend
    url: URL
    pipeline: Pipeline
    services: Services
    kb: KnowledgeBase

    async def write(self, name: str, *texts: str, title: str = "") -> tuple[str, int]:
        """Bring a document to where it waits for nothing but its pages; return its id and attempt."""
        async with self.services.outbox.transaction() as session:
            found = await register(session, self.kb, file(f"/notes/{name}.md", derive_id(*texts)))
            place = found.knowledge_id, found.attempt
            await begin_processing(session, *place)
            passages = [Passage(text=words, heading=("Basics",)) for words in texts]
            parsed = Parsed(passages=passages, title=title or name.capitalize(), language="en")
            await store_parsed(session, self.services.search, *place, parsed)
            await begin_finalizing(session, *place, [self.child(*place)])
        return place

    def child(self, knowledge_id: str, attempt: int) -> Child:
        """What post-processing asks for."""
        job = WikiIngest(tenant_id=TENANT, knowledge_base_id=self.kb.id, language="en")
        return Child(ids.enrichment_job(knowledge_id, attempt, "wiki"), job, SlotKind.WIKI)

    @asynccontextmanager
    async def working(self, handlers: Iterable[Handler] = HANDLERS) -> AsyncIterator[None]:
        """Work on the wiki while the block runs."""
        async with self.pipeline.workers(
            pools=["wiki"],
            handlers=list(handlers),
            services=self.services,
            only=TYPES,
            duties=self.services.duties,
        ):
            yield

    async def settled(self, timeout: float = 60) -> None:
        """Wait until nothing of the wiki waits, in the database or in the queue; what is delayed comes at once."""

        async def over() -> bool:
            await wake_wiki(self.pipeline, self.kb.id)
            queued = await self.pipeline.inspector.has_queued("knowledge_base", self.kb.id, TYPES)
            return not (queued or await self.waiting())

        await wait_until(over, describe="the wiki is written", timeout=timeout)

    async def waiting(self) -> int:
        """How many operations there are."""
        async with self.services.database.read() as session:
            lanes = ingest_lane(self.kb.id), finalize_lane(self.kb.id)
            return sum([await pending_ops.count(session, lane) for lane in lanes])

    async def pages(self) -> dict[str, str]:
        """The bodies of all pages by slug."""
        rows = await self.rows("SELECT slug, body FROM wiki_pages")
        return {row[0]: row[1] for row in rows}

    async def versions(self) -> dict[str, int]:
        rows = await self.rows("SELECT slug, version FROM wiki_pages")
        return {slug: version for slug, version in rows if slug != "index"}

    async def status(self, knowledge_id: str) -> ParseStatus:
        async with self.services.database.read() as session:
            return (await session.get_one(Knowledge, knowledge_id)).parse_status

    async def rows(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        async with self.services.database.read() as session:
            return [tuple(row) for row in await session.execute(text(statement), values)]

    async def end(self) -> dict[str, list[tuple[Any, ...]]]:
        """Everything the wiki left, but for ids and times; versions only grow where something was said anew."""
        pages = "SELECT slug, title, kind, folder, lead, written, body FROM wiki_pages"
        of_pages = "JOIN wiki_pages p ON p.id ="
        queries = {
            "pages": pages,
            "versions": f"SELECT p.slug, v.version, v.written FROM wiki_page_versions v {of_pages} v.page_id"
            " WHERE slug <> 'index'",
            "sources": "SELECT s.slug, k.source, s.attempt, s.kind, s.weight FROM wiki_page_sources s"
            " LEFT JOIN knowledges k ON k.id = s.knowledge_id",
            "folders": "SELECT path FROM wiki_folders",
            "readings": "SELECT part FROM wiki_readings",
            "slots": "SELECT kind FROM slots",
            "documents": "SELECT source, parse_status FROM knowledges",
            "outbox": "SELECT type FROM outbox",
            "index": f"SELECT p.slug, e.attempt, e.text FROM search_entries e {of_pages} e.id",
            "spans": "SELECT name FROM knowledge_processing_spans WHERE name = 'postprocess.wiki'",
        }
        return {name: sorted(await self.rows(query), key=repr) for name, query in queries.items()}


@asynccontextmanager
async def open_wiki(backend: Backend, url: URL, folder: Path, **settings: Any) -> AsyncIterator[Wiki]:
    """A base that wants a wiki, in a process of its own."""
    asked = {
        **backend.settings(),
        "database_url": url.render_as_string(hide_password=False),
        "data_dir": folder,
    }
    opening = Pipeline.open(**asked, lease_s=1.0, grace_s=0.5, **settings)
    async with opening as pipeline, open_services(pipeline) as opened:
        services = replace(opened, embedders=OnlyHashed(pipeline.settings))
        async with services.database.transaction() as session:
            kb = await ensure_base(session, TENANT, "notes", {"wiki": True})
        yield Wiki(backend, url, pipeline, services, kb)


def changed(handler: Handler, change: Callable[[Any, Any, Any], Any]) -> Handler:
    """A handler that does `change(run, job, ctx)` instead."""
    run: Any = handler.run

    async def instead(job: Any, ctx: Any) -> Any:
        return await change(run, job, ctx)

    return replace(handler, run=instead)
