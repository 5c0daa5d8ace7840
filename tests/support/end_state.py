"""All that a knowledge base holds, ids and times aside: two runs with the same end are equal."""

import asyncio
import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from pipeline.store import Database
from sqlalchemy import text

QUERIES = {
    "documents": "SELECT source, file_hash, parse_status, summary_status, summary, summary_method, language, title,"
    " error_message FROM knowledges k",
    "chunks": 'SELECT k.source, c.kind, c.position, c.text, c.heading, c.start, c."end"'
    " FROM chunks c JOIN knowledges k ON k.id = c.knowledge_id",
    "questions": "SELECT k.source, c.position, q.position, q.text FROM questions q"
    " JOIN chunks c ON c.id = q.chunk_id JOIN knowledges k ON k.id = q.knowledge_id",
    "tags": "SELECT k.source, t.name, round(cast(kt.confidence AS numeric), 3) FROM knowledge_tags kt"
    " JOIN tags t ON t.id = kt.tag_id JOIN knowledges k ON k.id = kt.knowledge_id",
    "mentions": "SELECT lower(e.name), k.source, c.position, m.count FROM entity_mentions m"
    " JOIN entities e ON e.id = m.entity_id JOIN chunks c ON c.id = m.chunk_id"
    " JOIN knowledges k ON k.id = m.knowledge_id",
    "entities": "SELECT lower(name) FROM entities",
    "relations": "SELECT lower(a.name), lower(b.name), r.kind, k.source, c.position, v.evidence FROM relation_evidence v"
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
    "sqlite": "SELECT k.source, e.kind, e.position, e.text, e.vector FROM search_entries e"
    " JOIN knowledges k ON k.id = e.knowledge_id",
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
    with ThreadPoolExecutor(1) as aside:  # whoever asks may have a loop of its own
        return aside.submit(asyncio.run, asked).result()


async def _contents(url: str, *, exact: bool) -> dict[str, Any]:
    database = Database.open(url)
    try:
        async with database.read() as session:
            state: dict[str, Any] = {
                name: sorted(repr(tuple(row)) for row in await session.execute(text(query)))
                for name, query in QUERIES.items()
            }
            index = await session.execute(text(INDEX[database.url.get_backend_name()]))
            state["index"] = sorted((*row, vector if exact else _rounded(vector)) for *row, vector in index)
    finally:
        await database.close()
    return state


def _rounded(vector: bytes | str | None) -> list[float]:
    numbers = (
        json.loads(vector) if isinstance(vector, str) else np.frombuffer(vector or b"", dtype=np.float32)
    )
    return list(np.asarray(numbers, dtype=np.float32).round(3).tolist()[:8])
