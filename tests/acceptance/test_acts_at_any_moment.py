"""Documents are stopped, parsed again and deleted at whatever moments of a real pipeline: each ends as it should, and nothing
is left of what was given up.
"""

import random
from pathlib import Path
from typing import Any

import pytest
from consumers.commands.session import POOLS, TENANT
from consumers.document_deeds import act
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.documents.ingesting import find_files, take_in
from consumers.knowledge.tables.knowledge import Knowledge
from consumers.lanes import HANDLERS
from consumers.services import Services, open_services
from contracts.knowledge import OPEN, DocumentVerb, ParseStatus
from pipeline import Pipeline
from pipeline.http.documents import Deed, Done
from pipeline.store import Outbox
from sqlalchemy import select, text

from tests.support.backends import BACKENDS
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
ACTS = 20
VERBS = (DocumentVerb.CANCEL, DocumentVerb.REPARSE, DocumentVerb.REPARSE, DocumentVerb.DELETE)
LEFT = {
    "slots": "SELECT id FROM slots",
    "outbox": "SELECT id FROM outbox",
    "open spans": "SELECT name FROM knowledge_processing_spans WHERE status IN ('pending', 'running')",
    "passages of other attempts": "SELECT c.id FROM chunks c JOIN knowledges k ON k.id = c.knowledge_id"
    " WHERE c.attempt <> k.parsed_attempt",
    "passages of nobody": "SELECT id FROM chunks WHERE knowledge_id NOT IN (SELECT id FROM knowledges)",
    "entries of nobody": "SELECT id FROM search_entries WHERE knowledge_id NOT IN (SELECT id FROM knowledges)",
    "results of nobody": "SELECT key FROM stage_files WHERE knowledge_id NOT IN (SELECT id FROM knowledges)",
}


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with every transaction of the outbox: moments of the pipeline that do not depend on the clock."""
    begun: list[int] = []
    transaction = Outbox.transaction

    def counted(self: Outbox, parent: Any = None) -> Any:
        begun.append(1)
        return transaction(self, parent)

    monkeypatch.setattr(Outbox, "transaction", counted)
    return begun


@pytest.mark.parametrize("kind", list(BACKENDS))
async def test_whatever_is_done_to_documents_whenever_they_end_as_asked_and_nothing_is_left(
    kind: str, samples: Path, tmp_path: Path, moments: list[int]
) -> None:
    seed = random.randrange(1 << 32)
    chance, backend = random.Random(seed), BACKENDS[kind](tmp_path)
    try:
        async with Pipeline.open(**backend.settings()) as pipeline, open_services(pipeline) as services:
            ids = await take(services, [samples / "web", samples / "office"])
            last: dict[str, Done | DocumentVerb] = {}
            ours = {handler.payload.spec.type for handler in HANDLERS}
            async with pipeline.workers(
                pools=POOLS, handlers=HANDLERS, services=services, only=ours, duties=services.duties
            ):
                for _ in range(ACTS):
                    await go_on(services, moments, chance.randrange(12))
                    ident, verb = chance.choice(ids), chance.choice(VERBS)
                    (done,) = await act(services.settings, services.outbox, Deed(verb), [ident])
                    if done.ok:
                        last[ident] = verb
                await wait_until(lambda: settled(pipeline, services), describe="all has ended", timeout=120)
            stands = await statuses(services)
            for ident in ids:
                told = (seed, ident, last.get(ident), stands.get(ident))
                match last.get(ident):
                    case DocumentVerb.DELETE:
                        assert ident not in stands, told
                    case DocumentVerb.CANCEL:
                        assert stands[ident] is ParseStatus.CANCELLED, told
                    case _:
                        assert stands[ident] is ParseStatus.COMPLETED, told
            assert {
                what: rows for what, query in LEFT.items() if (rows := await found(services, query))
            } == {}
    finally:
        await backend.close()


async def take(services: Services, folders: list[Path]) -> list[str]:
    async with services.database.transaction() as sql:
        kb = await ensure_base(sql, TENANT, "test")
    files = list(find_files(folders, leave_out=services.settings.data_dir))[:8]
    return [one.knowledge_id async for some in take_in(services, kb, files) for one in some]  # type: ignore[union-attr]


async def statuses(services: Services) -> dict[str, ParseStatus]:
    async with services.database.read() as sql:
        rows = await sql.execute(select(Knowledge.id, Knowledge.parse_status))
        return {row[0]: row[1] for row in rows}


async def go_on(services: Services, moments: list[int], by: int) -> None:
    """Let the pipeline do some more, unless there is nothing left to do."""
    there = len(moments) + by

    async def passed() -> bool:
        under_way = any(status in OPEN for status in (await statuses(services)).values())
        return len(moments) >= there or not under_way

    await wait_until(passed, describe="it has gone on", timeout=60)


async def settled(pipeline: Pipeline, services: Services) -> bool:
    if (await services.outbox.waiting())[0]:
        return False
    moving = {ParseStatus.DELETING, *OPEN}
    if any(status in moving for status in (await statuses(services)).values()):
        return False
    return not any(stat.pending + stat.active + stat.retry for stat in await pipeline.inspector.queues())


async def found(services: Services, query: str) -> list[Any]:
    async with services.database.read() as sql:
        return [tuple(row) for row in await sql.execute(text(query))]
