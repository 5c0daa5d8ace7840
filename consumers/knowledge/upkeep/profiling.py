"""What a knowledge base is about, from what its documents were summarised to: a gist, topics, questions and figures."""

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final, Protocol

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.bases.settings import Profile
from consumers.knowledge.bounds import spread
from consumers.knowledge.embedding.embedder import Embedder
from consumers.knowledge.embedding.summarising import TooLittleText, first_words, summarise
from consumers.knowledge.language.keyphrases import keyphrases
from consumers.knowledge.tables.graph import KnowledgeTag, Tag
from consumers.knowledge.tables.knowledge import Chunk, Knowledge, KnowledgeBase, Question, table_of
from consumers.knowledge.tables.profiles import ProfileStatus, StoredProfile
from contracts.knowledge import EXTRACTIVE, ParseStatus
from pipeline.store import Database, now_ms, upsert

# facts 1.17
TOPICS: Final = 10
QUESTIONS: Final = 5
RAW_TOPICS: Final = 30
TAGS: Final = 30
FOLDERS: Final = 20
TITLES: Final = 60
QUESTIONS_READ: Final = 40
GISTS: Final = 20
LONGEST_GIST: Final = 300
LONGEST_ERROR: Final = 300
PAGE: Final = 500
"""Documents that are read at once."""
SHOWN: Final = frozenset({ParseStatus.FINALIZING, ParseStatus.COMPLETED})


@dataclass(slots=True)
class Material:
    """What a profile is made of. `hash` stands for all of it; `gists` are (title, summary)."""

    hash: str = ""
    gists: list[tuple[str, str]] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    stats: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a base is about."""

    gist: str
    topics: Sequence[str]
    raw_topics: Sequence[str]
    questions: Sequence[str]


class ProfileWriter(Protocol):
    """Writes a profile. `custom_instructions` are of whoever owns the base."""

    @property
    def method(self) -> str:
        """How it writes; stored with what it wrote."""

    async def write(self, material: Material, *, language: str | None, custom_instructions: str) -> Written:
        """Say what documents are about."""


class ExtractiveWriter:
    """Says it in the documents' own words."""

    method: Final = EXTRACTIVE

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def write(self, material: Material, *, language: str | None, custom_instructions: str) -> Written:
        """See `ProfileWriter`; nobody is there to be instructed."""
        del language, custom_instructions
        told = "\n\n".join(summary for _, summary in material.gists)
        try:
            gist = (await summarise(told, self._embedder)).text
        except TooLittleText:
            gist = first_words(told or "\n\n".join(material.titles)).text
        headed = [f"# {title}" for title in material.titles]
        said = "\n\n".join([*headed, told])
        phrases = await asyncio.to_thread(keyphrases, said, limit=RAW_TOPICS)
        raw = [phrase.text for phrase in phrases]
        return Written(
            gist=gist,
            topics=raw[:TOPICS],
            raw_topics=raw,
            questions=_telling(material.questions, raw[:TOPICS])[:QUESTIONS],
        )


def _telling(questions: Sequence[str], topics: Sequence[str]) -> list[str]:
    """Each question once, those that name topics first."""
    named = [topic.casefold() for topic in topics]
    different: dict[str, str] = {}
    for one in questions:
        different.setdefault(one.casefold(), one)

    def silence(question: str) -> int:
        return -sum(topic in question.casefold() for topic in named)

    return sorted(different.values(), key=silence)


async def gather(database: Database, kb: KnowledgeBase, wanted: Profile) -> Material:
    """Return what the profile of a base is made of. Raises StoreUnavailable."""
    figures = _Figures()
    after = (-1, "")
    while True:
        async with database.read() as session:
            rows = await _page(session, kb.id, after)
        if not rows:
            break
        for row in rows:
            figures.add(row)
        after = rows[-1].created_at, rows[-1].id
    material = Material(titles=figures.titles())
    async with database.read() as session:
        tags = await _tags(session, kb.id)
        material.gists = await _gists(session, figures.chosen())
        material.questions = await _questions(session, figures.chosen())
    material.stats = figures.stats(tags)
    made_of = [sorted(figures.fingerprints), tags, wanted.model_dump(exclude={"enabled"}), EXTRACTIVE]
    material.hash = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()
    return material


class _Figures:
    """What is counted of the documents of a base, one after the other."""

    def __init__(self) -> None:
        self.fingerprints: list[str] = []
        self._documents: list[tuple[str, str]] = []
        self._profiled: list[str] = []
        self._types: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        self._folders: Counter[str] = Counter()
        self._earliest = self._latest = 0

    def add(self, row: Any) -> None:
        said = (row.id, row.file_hash, row.parsed_attempt, row.title, row.summary)
        self.fingerprints.append(hashlib.sha256(json.dumps(said).encode()).hexdigest())
        self._documents.append((row.id, row.title or row.file_name))
        if row.summary:
            self._profiled.append(row.id)
        self._types[row.file_type or "unknown"] += 1
        self._kinds[str(row.kind)] += 1
        if folder := PurePosixPath(row.source).parent.name:
            self._folders[folder] += 1
        self._earliest = min(self._earliest or row.created_at, row.created_at)
        self._latest = max(self._latest, row.created_at)

    def titles(self) -> list[str]:
        """Titles of some documents, evenly spread."""
        return [self._documents[at][1] for at in spread(len(self._documents), TITLES)]

    def chosen(self) -> list[str]:
        """Documents that stand for all, evenly spread."""
        return [self._profiled[at] for at in spread(len(self._profiled), GISTS)]

    def stats(self, tags: Mapping[str, int]) -> dict[str, Any]:
        return {
            "document_count": len(self._documents),
            "profiled_count": len(self._profiled),
            "file_types": dict(self._types.most_common()),
            "tags": dict(tags),
            "raw_topics": [],
            "doc_types": dict(self._kinds.most_common()),
            "folders": dict(self._folders.most_common(FOLDERS)),
            "earliest_at": self._earliest,
            "latest_at": self._latest,
        }


async def _page(session: AsyncSession, kb_id: str, after: tuple[int, str]) -> Sequence[Any]:
    at, ident = after
    behind = (Knowledge.created_at > at) | ((Knowledge.created_at == at) & (Knowledge.id > ident))
    columns = select(Knowledge.id, Knowledge.file_hash, Knowledge.parsed_attempt, Knowledge.title).add_columns(
        Knowledge.file_name, Knowledge.file_type, Knowledge.kind, Knowledge.source, Knowledge.summary,
        Knowledge.created_at,
    )  # fmt: skip
    shown = Knowledge.knowledge_base_id == kb_id, Knowledge.parse_status.in_(SHOWN), behind
    return (
        await session.execute(columns.where(*shown).order_by(Knowledge.created_at, Knowledge.id).limit(PAGE))
    ).all()


async def _tags(session: AsyncSession, kb_id: str) -> dict[str, int]:
    given = func.count().label("given")
    counted = (
        select(Tag.name, given)
        .join(KnowledgeTag, KnowledgeTag.tag_id == Tag.id)
        .where(Tag.knowledge_base_id == kb_id)
        .group_by(Tag.name)
        .order_by(given.desc(), Tag.name)
        .limit(TAGS)
    )
    return {row[0]: row[1] for row in await session.execute(counted)}


async def _gists(session: AsyncSession, idents: Sequence[str]) -> list[tuple[str, str]]:
    columns = select(Knowledge.id, Knowledge.title, Knowledge.summary).where(Knowledge.id.in_(idents))
    found = {row.id: (row.title, _shortened(row.summary)) for row in await session.execute(columns)}
    return [found[ident] for ident in idents if ident in found]


def _shortened(text: str) -> str:
    """As many whole sentences as fit, or else as many words."""
    if len(text) <= LONGEST_GIST:
        return text
    cut = text[:LONGEST_GIST]
    end = max(cut.rfind(mark) for mark in (". ", "! ", "? ", "。"))
    return cut[: end + 1] if end > LONGEST_GIST // 3 else cut.rpartition(" ")[0] or cut


async def _questions(session: AsyncSession, idents: Sequence[str]) -> list[str]:
    """Return questions that documents answer, of each one in turn."""
    each = -(-QUESTIONS_READ // max(1, len(idents)))
    by_document: list[list[str]] = []
    for ident in idents:
        first = (
            select(Question.text)
            .join(Chunk, Chunk.id == Question.chunk_id)
            .where(Question.knowledge_id == ident)
            .order_by(Question.position, Chunk.position)
            .limit(each)
        )
        by_document.append(list(await session.scalars(first)))
    in_turn = [texts[at] for at in range(each) for texts in by_document if at < len(texts)]
    return in_turn[:QUESTIONS_READ]


async def profile_of(session: AsyncSession, kb_id: str) -> StoredProfile | None:
    """Return what a base said last of what it is about."""
    return await session.get(StoredProfile, kb_id, populate_existing=True)


async def store(session: AsyncSession, kb_id: str, **values: Any) -> None:
    """Store what a base is about, or that it cannot be said; what is not given stays."""
    values |= {"knowledge_base_id": kb_id, "updated_at": now_ms()}
    empty: dict[str, Any] = {
        "gist": "", "topics": [], "typical_questions": [], "stats": {}, "aggregate_hash": "", "error": "",
        "model_id": "", "method": "", "generated_at": None,
    }  # fmt: skip
    replaced = [name for name in values if name != "knowledge_base_id"]
    await upsert(session, table_of(StoredProfile), [empty | values], replace=replaced)


async def store_written(
    session: AsyncSession, kb_id: str, material: Material, written: Written, method: str
) -> None:
    """Store a profile."""
    await store(
        session,
        kb_id,
        status=ProfileStatus.READY,
        gist=written.gist,
        topics=list(written.topics)[:TOPICS],
        typical_questions=list(written.questions)[:QUESTIONS],
        stats=material.stats | {"raw_topics": list(written.raw_topics)[:RAW_TOPICS]},
        aggregate_hash=material.hash,
        error="",
        method=method,
        generated_at=now_ms(),
    )


async def store_empty(session: AsyncSession, kb_id: str, material: Material) -> None:
    """Store that a base has no documents."""
    await store(
        session,
        kb_id,
        status=ProfileStatus.EMPTY,
        gist="",
        topics=[],
        typical_questions=[],
        stats=material.stats,
        aggregate_hash=material.hash,
        error="",
        method="",
        generated_at=now_ms(),
    )
