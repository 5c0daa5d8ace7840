"""All that a knowledge base holds, ids and times aside: two runs with the same end are equal."""

import asyncio
import json
import sqlite3
from collections.abc import Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pipeline.store import Database
from sqlalchemy import text

T = TypeVar("T")
QUERIES = {
    "documents": "SELECT source, file_hash, parse_status, summary_status, summary, summary_method, language, title,"
    " error_message FROM knowledges k",
    "chunks": 'SELECT k.source, c.kind, c.position, c.text, cast(c.heading AS text), c.start, c."end"'
    " FROM chunks c JOIN knowledges k ON k.id = c.knowledge_id",
    "questions": "SELECT k.source, c.position, q.position, q.text FROM questions q"
    " JOIN chunks c ON c.id = q.chunk_id JOIN knowledges k ON k.id = q.knowledge_id",
    "tags": "SELECT k.source, t.name, round(cast(kt.confidence AS numeric), 3) FROM knowledge_tags kt"
    " JOIN tags t ON t.id = kt.tag_id JOIN knowledges k ON k.id = kt.knowledge_id",
    "mentions": "SELECT e.name, k.source, c.position, m.count FROM entity_mentions m"
    " JOIN entities e ON e.id = m.entity_id JOIN chunks c ON c.id = m.chunk_id"
    " JOIN knowledges k ON k.id = m.knowledge_id",
    "entities": "SELECT name FROM entities",
    "relations": "SELECT a.name, b.name, r.kind, k.source, c.position, v.evidence FROM relation_evidence v"
    " JOIN relations r ON r.id = v.relation_id JOIN entities a ON a.id = r.source_id"
    " JOIN entities b ON b.id = r.target_id JOIN chunks c ON c.id = v.chunk_id"
    " JOIN knowledges k ON k.id = v.knowledge_id",
    "images": "SELECT k.source, i.position, i.status FROM images i JOIN knowledges k ON k.id = i.knowledge_id",
    "pages": "SELECT slug, title, kind, folder, lead, written, body FROM wiki_pages",
    "said to pages": "SELECT s.slug, k.source, s.kind, s.weight FROM wiki_page_sources s"
    " JOIN knowledges k ON k.id = s.knowledge_id",
    "pending operations": "SELECT task_type, op FROM task_pending_ops",
    "kept readings": "SELECT part FROM wiki_readings",
    "open slots": "SELECT k.source, s.kind FROM slots s JOIN knowledges k ON k.id = s.knowledge_id",
    "outbox": "SELECT type FROM outbox",
    "open spans": "SELECT name FROM knowledge_processing_spans WHERE status IN ('pending', 'running')",
}


INDEX = {
    "sqlite": "SELECT k.source, e.kind, e.position, e.text, v.vector FROM search_entries e"
    " JOIN knowledges k ON k.id = e.knowledge_id LEFT JOIN search_vectors v ON v.id = e.id",
    "postgresql": "SELECT k.source, e.kind, e.position, e.text, v.vector::text FROM search_entries e"
    " JOIN knowledges k ON k.id = e.knowledge_id LEFT JOIN search_vectors v ON v.id = e.id",
}


def end_state(data_dir: Path, url: str = "") -> dict[str, Any]:
    """Return the contents of the database and what is left in the queue file, if there is one."""
    state = contents(data_dir, url=url)
    if (data_dir / "queue.db").exists():
        with closing(sqlite3.connect(data_dir / "queue.db")) as queue:
            state["jobs"] = sorted(
                queue.execute(
                    "SELECT type, state, count(*) FROM jobs WHERE state <> 'archived' GROUP BY 1, 2"
                )
            )
    return state


def contents(data_dir: Path, *, exact: bool = False, url: str = "") -> dict[str, Any]:
    """Return the sorted contents of the database at `url`, by default the file in the folder; of vectors, unless `exact`,
    only the beginning, rounded: the encoder's last digits depend on what is encoded beside, and that on where a kill
    took place.
    """
    asked = _contents(url or f"sqlite:///{data_dir / 'streamlane.db'}", exact=exact)
    return _aside(asked)


def _said(row: Iterable[Any]) -> str:
    """What a row says, whichever database: of names the one that came first is kept, so their case says nothing."""
    return repr(tuple(float(one) if isinstance(one, Decimal) else one for one in row)).casefold()


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query, from wherever. Raises StoreUnavailable."""

    async def asked() -> list[tuple[Any, ...]]:
        database = Database.open(url)
        try:
            async with database.read() as session:
                return [tuple(row) for row in await session.execute(text(query))]
        finally:
            await database.close()

    return _aside(asked())


def _aside(asked: Coroutine[Any, Any, T]) -> T:
    with ThreadPoolExecutor(1) as aside:  # whoever asks may have a loop of its own
        return aside.submit(asyncio.run, asked).result()


async def _contents(url: str, *, exact: bool) -> dict[str, Any]:
    database = Database.open(url)
    try:
        async with database.read() as session:
            state: dict[str, Any] = {
                name: sorted(map(_said, await session.execute(text(query))))
                for name, query in QUERIES.items()
            }
            index = await session.execute(text(INDEX[database.url.get_backend_name()]))
            look = _numbers if exact else _rounded
            state["index"] = sorted((*row, look(vector)) for *row, vector in index)
    finally:
        await database.close()
    return state


def _numbers(vector: bytes | str | None) -> list[float]:
    if isinstance(vector, str):
        return list(np.asarray(json.loads(vector), dtype=np.float32).tolist())
    return list(np.frombuffer(vector or b"", dtype=np.float32).tolist())


def _rounded(vector: bytes | str | None) -> list[float]:
    return [round(number, 3) for number in _numbers(vector)[:8]]
