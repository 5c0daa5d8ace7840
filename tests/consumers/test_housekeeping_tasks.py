"""Tasks whose jobs are lost end, and deleted bases whose removal was lost go all the same."""

import pytest
from consumers.knowledge.documents.verdicts import Why
from consumers.knowledge.long_work import tasks
from consumers.knowledge.tables.knowledge import KnowledgeBase
from consumers.knowledge.tables.tasks import Task
from consumers.knowledge.upkeep import clearance
from contracts.fences import EVERYTHING
from contracts.jobs import Scope
from contracts.payloads.maintenance import KnowledgeBaseClone, KnowledgeBaseDelete
from contracts.tasks import TaskStatus
from pipeline.store import now_ms
from sqlalchemy import update

from tests.support.house import LONG_S, PLACES, open_house


@pytest.fixture(params=PLACES)
async def house(request, tmp_path):
    async with open_house(tmp_path, request.param) as opened:
        yield opened


async def begin(house):
    """A copy that stands still since long."""
    kb = house.library.kb.id
    job = KnowledgeBaseClone(tenant_id=7, task_id="t1", source_id="a", target_id=kb)
    await house.library.do(tasks.open_task, "t1", job, tenant_id=7, kb_id=kb, total=3)
    await house.library.do(tasks.advance, "t1", processed=1)
    await stand_still(house)


async def stand_still(house):
    async def age(session):
        long_ago = now_ms() - LONG_S * 1000
        await session.execute(update(Task).values(updated_at=long_ago))
        await session.execute(
            update(KnowledgeBase).where(KnowledgeBase.deleted_at > 0).values(deleted_at=long_ago)
        )

    await house.library.do(age)


async def task_of(house, task_id="t1"):
    return await house.library.look(tasks.find, None, task_id)


async def lose(house, task_id="t1"):
    await house.pipeline.inspector.cancel(task_id)


async def test_a_task_whose_job_is_lost_has_failed_and_says_so(house):
    await begin(house)
    await lose(house)
    dry = await house.sweep(dry=True)
    assert [(deed.document, deed.verdict) for deed in dry.deeds] == [("t1", "fail_task")]
    assert (await task_of(house)).status is TaskStatus.PROCESSING
    await house.sweep()
    task = await task_of(house)
    assert (task.status, task.processed) == (TaskStatus.FAILED, 1)
    assert "its job was lost: no progress since" in task.error
    assert (await house.sweep()).deeds == []


async def test_a_task_whose_job_waits_or_is_not_sent_yet_is_left_alone(house):
    await begin(house)
    swept = await house.sweep()
    assert (swept.deeds, swept.deferred) == ([], {Why.QUEUED: 1})
    assert (await task_of(house)).status is TaskStatus.PROCESSING


async def test_a_task_that_moved_is_left_alone(house):
    await begin(house)
    await lose(house)
    await house.library.do(tasks.advance, "t1", processed=2)
    assert (await house.sweep()).deeds == []


async def delete_base(house):
    library = house.library
    begun = await library.do(clearance.begin, 7, library.kb.id, await library.outbox.choose_cut())
    await stand_still(house)
    return begun.task_id


async def test_a_deleted_base_whose_removal_was_lost_is_removed_by_another_job(house):
    first = await delete_base(house)
    swept = await house.sweep()
    assert (swept.deeds, swept.deferred[Why.QUEUED]) == ([], 2), "the task waits, and so does the base"
    scope = Scope("knowledge_base", house.library.kb.id)
    await house.pipeline.broker.cancel_scope(scope, EVERYTHING)
    swept = await house.sweep()
    assert [deed.verdict for deed in swept.deeds] == ["fail_task", "delete_again"]
    assert (await task_of(house, first)).status is TaskStatus.FAILED
    (job,) = await house.waiting(KnowledgeBaseDelete)
    assert (await task_of(house, job.id)).status is TaskStatus.PENDING
    assert (await house.sweep()).deeds == []
