"""What a question finds in a base, and how sure that is."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from consumers.commands.session import TENANT, Session
from consumers.demo import DOCUMENTS
from consumers.knowledge.answers.answering import Passage
from consumers.knowledge.answers.asking import look
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.tables.knowledge import KnowledgeBase
from consumers.services import open_services
from pipeline import Pipeline

from tests.support.platform import ingest


@pytest.fixture
async def base(tmp_path: Path) -> AsyncIterator[tuple[Session, KnowledgeBase]]:
    """The documents of the demo."""
    await ingest(DOCUMENTS)
    async with Pipeline.open() as pipeline, open_services(pipeline) as services:
        async with services.database.transaction() as sql:
            kb = await ensure_base(sql, TENANT, "test")
        yield Session(pipeline, services), kb


async def test_a_score_says_how_well_a_passage_fits_and_what_does_not_fit_is_not_found(
    base: tuple[Session, KnowledgeBase],
) -> None:
    opened, kb = base

    async def found(query: str) -> list[Passage]:
        return (await look(opened.services, kb.id, query, limit=10)).passages

    for query in ("pizza", "кошка", "banana bread recipe", "天气"):
        assert await found(query) == []
    for query, file in {
        "What happens when a worker is killed?": "crash-recovery.md",
        "повторы": "ocheredi.md",
        "进程被杀死后任务会丢失吗？": "lite-moshi.md",
    }.items():
        best, *others = await found(query)
        assert best.path.endswith(file)
        assert 0.5 < best.score <= 1
        scores = [best.score, *(other.score for other in others)]
        assert scores == sorted(scores, reverse=True)
        assert not others or others[-1].score < 0.3
    across, *_ = await found("Что такое пул?")
    assert across.path.endswith("queues-and-pools.md"), "no word in common"
    assert 0.3 < across.score < 0.5
