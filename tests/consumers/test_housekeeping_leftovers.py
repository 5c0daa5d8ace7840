"""What killed processes and lost jobs leave behind: removals, summaries, open spans and slots, orders for the wiki."""

import asyncio
from types import SimpleNamespace

import pytest
from consumers.handlers import removing
from consumers.knowledge.bases.pending import add_if_active
from consumers.knowledge.bases.tenants import delete_tenant
from consumers.knowledge.documents.lifecycle import delete, fail_delete, reparse
from consumers.knowledge.documents.verdicts import DELETES, Why
from consumers.knowledge.files.store import FolderStore
from consumers.knowledge.tables.knowledge import KnowledgeBase, Slot
from contracts.knowledge import ParseStatus, SlotKind, Stage, SummaryStatus
from contracts.outcomes import Skip
from contracts.payloads.maintenance import KnowledgeBaseDelete, KnowledgeListDelete
from contracts.payloads.wiki import WikiFinalize, WikiIngest
from pipeline.errors import StoreUnavailable
from pipeline.store import audit, now_ms
from pipeline.store.tables import task_dead_letters
from pipeline.store.tables_people import audit_logs
from sqlalchemy import update

from tests.support.hand import Hand
from tests.support.house import HOUR_S, PLACES, open_house
from tests.support.waiting import wait_until

COMPLETED, DELETING, FINALIZING = ParseStatus.COMPLETED, ParseStatus.DELETING, ParseStatus.FINALIZING


@pytest.fixture(params=PLACES)
async def house(request, tmp_path):
    async with open_house(tmp_path, request.param) as opened:
        yield opened


async def deleted(house):
    """A document that a person deletes."""
    document = await house.document(FINALIZING)
    await house.library.do(delete, 7, [document.id], now_ms())
    return document


async def gone(house, document):
    return await house.library.rows("SELECT 1 FROM knowledges WHERE id = :id", id=document.id) == []


async def test_rows_stuck_in_deleting_recover(house, tmp_path):
    document = await deleted(house)
    await house.lose_jobs()
    await house.age()
    (deed,) = (await house.sweep()).deeds
    assert (deed.document, deed.verdict) == (document.id, "delete_again")
    assert deed.message == f"the removal was lost and is asked for again (1 of {DELETES})"
    assert await house.library.status(document.id) is DELETING, "nobody who deleted it sees it come back"
    library = house.library
    services = SimpleNamespace(
        database=library.database,
        outbox=library.outbox,
        search=library.index,
        files=FolderStore(tmp_path / "f"),
    )
    async with house.pipeline.workers(
        pools=["maintenance"],
        handlers=removing.HANDLERS,
        services=services,
        only=["knowledge:list_delete"],
    ):
        await wait_until(lambda: gone(house, document), describe="the document is gone")


async def test_a_removal_that_is_lost_again_and_again_fails_with_a_reason(house):
    document = await deleted(house)
    for _ in range(DELETES):
        await house.lose_jobs()
        await house.age()
        assert [deed.verdict for deed in (await house.sweep()).deeds] == ["delete_again"]
        assert (await house.sweep()).deeds == []
    await house.lose_jobs()
    await house.age()
    assert [deed.verdict for deed in (await house.sweep()).deeds] == ["fail"]
    failed = await house.library.document(document.id)
    assert failed.parse_status is ParseStatus.FAILED
    assert failed.error_message == (
        "delete task stranded (no queued/active delete task) > 2h10m0s, recovered by housekeeping"
    )


async def test_a_removal_lost_after_an_earlier_one_was_given_up_is_asked_for_again(house):
    document = await deleted(house)
    for _ in range(2):
        for job in await house.waiting(KnowledgeListDelete):
            await house.pipeline.inspector.cancel(job.id)
        await house.age()
        assert [deed.verdict for deed in (await house.sweep()).deeds] == ["delete_again"]
        assert len(await house.waiting(KnowledgeListDelete)) == 1
        await house.library.do(fail_delete, document.id, "delete task: the disk is away")
        await house.library.do(reparse, 7, document.id, now_ms())
        await house.library.do(delete, 7, [document.id], now_ms())


async def test_a_removal_that_waits_is_left_alone(house):
    document = await deleted(house)
    await house.age()
    assert dict((await house.sweep()).deferred) == {Why.QUEUED: 1}
    assert await house.library.status(document.id) is DELETING


async def test_a_document_that_goes_with_its_base_is_left_alone(house):
    document = await deleted(house)
    await house.lose_jobs()
    await house.pipeline.enqueue(KnowledgeBaseDelete(tenant_id=7, knowledge_base_id=house.library.kb.id))
    await house.age()
    assert dict((await house.sweep()).deferred) == {Why.QUEUED: 1}
    assert await house.library.status(document.id) is DELETING


async def test_a_summary_that_nobody_writes_any_more_fails_and_its_document_did_not_move_by_that(house):
    document = await house.document(FINALIZING)
    await house.set(document, summary_status=SummaryStatus.PROCESSING)
    await house.age(1.5 * HOUR_S)
    assert (await house.sweep()).deeds == [], "its job waits"
    before = await house.library.document(document.id)
    await house.lose_jobs()
    assert [deed.verdict for deed in (await house.sweep()).deeds] == ["fail_summary"]
    after = await house.library.document(document.id)
    assert (after.summary_status, after.parse_status) == (SummaryStatus.FAILED, FINALIZING)
    assert after.updated_at == before.updated_at
    assert (await house.sweep()).deeds == []


@pytest.mark.parametrize(
    ("status", "summary", "seconds", "expected"),
    [
        (COMPLETED, SummaryStatus.PENDING, 1.5 * HOUR_S, SummaryStatus.FAILED),
        (ParseStatus.CANCELLED, SummaryStatus.PENDING, 1.5 * HOUR_S, SummaryStatus.FAILED),
        (COMPLETED, SummaryStatus.PENDING, 0.5 * HOUR_S, SummaryStatus.PENDING),
        (FINALIZING, SummaryStatus.PENDING, 1.5 * HOUR_S, SummaryStatus.PENDING),
        (COMPLETED, SummaryStatus.COMPLETED, 1.5 * HOUR_S, SummaryStatus.COMPLETED),
        (COMPLETED, SummaryStatus.NONE, 1.5 * HOUR_S, SummaryStatus.NONE),
    ],
)
async def test_a_summary_that_an_ended_document_waits_for_in_vain_fails(
    house, status, summary, seconds, expected
):
    document = await house.document(FINALIZING)
    await house.lose_jobs()
    await house.set(document, summary_status=summary, parse_status=status)
    await house.age(seconds)
    await house.sweep()
    assert (await house.library.document(document.id)).summary_status is expected


async def test_an_outage_of_the_queue_never_fails_a_summary(house):
    document = await house.document(FINALIZING)
    await house.lose_jobs()
    await house.set(document, summary_status=SummaryStatus.PROCESSING)
    await house.age(1.5 * HOUR_S)
    with house.backend.faults.away():
        assert (await house.looks()).deeds == []
    assert (await house.library.document(document.id)).summary_status is SummaryStatus.PROCESSING


@pytest.mark.parametrize(
    ("status", "error", "said"),
    [
        (COMPLETED, "", "nobody closed it before its document had ended"),
        (ParseStatus.FAILED, "no use", "no use"),
        (ParseStatus.CANCELLED, "é" * 4000, None),
    ],
)
async def test_spans_that_are_open_though_their_document_has_ended_are_cancelled(house, status, error, said):
    document = await house.document(ParseStatus.PROCESSING)
    await house.open_part(document, Stage.DOCREADER, "docreader.page[1]")
    await house.set(document, parse_status=status, error_message=error)
    assert (await house.sweep()).attempts_closed == 0, "whoever ended it may be closing them"
    await house.age()
    assert (await house.sweep()).attempts_closed == 1
    assert {(span[1], span[2], span[3]) for span in await house.spans(document)} == {
        ("cancelled", "TASK_STALLED", 1)
    }
    messages = await house.library.rows("SELECT DISTINCT error_message FROM knowledge_processing_spans")
    assert messages == [(said,)] if said else len(messages[0][0].encode()) <= 1024
    assert (await house.sweep()).attempts_closed == 0
    assert await house.library.status(document.id) is status


async def test_slots_of_a_document_that_has_ended_are_closed(house):
    document = await house.document(FINALIZING)
    await house.set(document, parse_status=COMPLETED)
    await house.age()
    assert (await house.sweep()).slots_closed == 3
    assert await house.library.rows("SELECT count(*) FROM slots") == [(0,)]


async def test_the_order_of_a_deleted_tenant_is_dropped_at_start(house):
    library = house.library
    await library.do(add_if_active, 7, library.kb.id, "wiki:ingest", "ingest", "k1")
    await library.do(delete_tenant, 7)
    assert await house.keeper().recover() == 0
    assert await library.rows("SELECT count(*) FROM task_pending_ops") == [(0,)]
    assert not await house.waiting(WikiIngest)


async def test_the_orders_of_a_deleted_base_are_dropped_at_start(house):
    library = house.library
    for kind, op in (("wiki:ingest", "ingest"), ("wiki:finalize", "slug")):
        await library.do(add_if_active, 7, library.kb.id, kind, op, "k1")

    async def delete_base(session):
        await session.execute(
            update(KnowledgeBase).where(KnowledgeBase.id == library.kb.id).values(deleted_at=1)
        )

    await library.do(delete_base)
    assert await house.keeper().recover() == 0
    assert await library.rows("SELECT count(*) FROM task_pending_ops") == [(0,)]


async def test_ten_processes_that_start_at_once_tell_each_wiki_once(house):
    library = house.library
    for kind, op in (("wiki:ingest", "ingest"), ("wiki:finalize", "slug")):
        for key in ("k1", "k2"):
            await library.do(add_if_active, 7, library.kb.id, kind, op, key, payload={"language": "ru"})
    await asyncio.gather(*(house.keeper().recover() for _ in range(10)))
    asked = WikiIngest(tenant_id=7, knowledge_base_id=library.kb.id, language="ru")
    (ingest,), (finalize,) = await house.waiting(WikiIngest), await house.waiting(WikiFinalize)
    assert (ingest.data, finalize.data) == (asked.encode(), asked.encode())
    await Hand(house.pipeline.broker).run(queue="wiki")
    await house.keeper().recover()
    assert len(await house.waiting(WikiIngest)) + len(await house.waiting(WikiFinalize)) == 1


async def test_an_outage_at_the_start_puts_the_recovery_off(house):
    library, keeper = house.library, house.keeper()
    await library.do(add_if_active, 7, library.kb.id, "wiki:ingest", "ingest", "k1")
    with house.backend.faults.away(), pytest.raises(StoreUnavailable):
        await keeper.tick()
    await keeper.tick()
    assert len(await house.waiting(WikiIngest)) == 1


async def test_a_slot_that_was_opened_for_the_wiki_is_no_reason_to_wait_for_ever(house):
    library, document = house.library, await house.document(FINALIZING)

    async def open_wiki_slot(session):
        place = {"knowledge_id": document.id, "attempt": document.attempt, "created_at": now_ms()}
        session.add(Slot(id="w", kind=SlotKind.WIKI, **place))

    await library.do(open_wiki_slot)
    await house.lose_jobs()
    await house.age()
    await house.sweep()
    done = await library.document(document.id)
    assert done.parse_status is COMPLETED
    assert "the wiki" in done.warnings[0]


async def test_a_removal_whose_death_is_not_told_yet_is_left_to_its_hook(house):
    document = await deleted(house)
    await Hand(house.pipeline.broker).run(Skip("no use"), queue="low")
    assert await house.pipeline.broker.dead_letters(["low"], 1)
    await house.age()
    assert dict((await house.sweep()).deferred) == {Why.QUEUED: 1}
    assert await house.library.status(document.id) is DELETING


async def test_deaths_and_deeds_are_forgotten_when_their_time_is_over(house):
    library, day_ms = house.library, 86_400_000
    letter = {"tenant_id": 7, "task_type": "t", "scope": "tenant", "scope_id": "7", "related_id": ""}
    letter |= {"reason": "skip", "payload": "{}", "last_error": "", "fail_count": 1}

    async def write(session):
        for number, days in enumerate((89, 91, 92)):
            row = {**letter, "death_id": f"j:{number}", "failed_at": now_ms() - days * day_ms}
            await session.execute(task_dead_letters.insert(), [row])
        for days in (366, 364):
            await audit.write(session, audit.Deed(action=f"{days}", actor_user_id="a", actor_role="r"))
            old = update(audit_logs).where(audit_logs.c.action == f"{days}")
            await session.execute(old.values(created_at=now_ms() - days * day_ms))

    await library.do(write)
    assert (await house.sweep(dry=True)).forgotten == 0
    assert (await house.sweep()).forgotten == 3
    assert await library.rows("SELECT death_id FROM task_dead_letters") == [("j:0",)]
    assert await library.rows("SELECT action FROM audit_logs") == [("364",)]
