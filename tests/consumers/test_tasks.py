"""Long work that people watch: it ends once, and what has ended does not move."""

import pytest
from consumers.knowledge.long_work import tasks
from contracts.knowledge import DocumentEffect
from contracts.payloads.knowledge import StoreBackup, StoreReembed, StoreRestore
from contracts.payloads.maintenance import KnowledgeBaseClone
from contracts.tasks import TaskStatus
from pipeline.store import now_ms

from tests.support.library import open_library


@pytest.fixture
async def library(tmp_path, database_url):
    async with open_library(tmp_path, database_url) as opened:
        yield opened


async def begin(library, task_id="t1"):
    job = KnowledgeBaseClone(tenant_id=7, task_id=task_id, source_id="a", target_id="b")
    await library.do(tasks.open_task, task_id, job, tenant_id=7, kb_id="b", total=4)
    return await library.look(tasks.find, 7, task_id)


async def stop(library, task_id="t1", tenant=7):
    return await library.do(tasks.cancel, tenant, task_id, await library.outbox.choose_cut())


async def test_a_task_and_its_job_begin_together(library):
    task = await begin(library)
    assert (task.status, task.kind, task.total) == (TaskStatus.PENDING, "kb:clone", 4)
    assert await library.look(tasks.under_way, "b", "kb:clone") == "t1"
    assert list(library.queue.waiting) == ["t1"]
    await begin(library)
    assert list(library.queue.waiting) == ["t1"]


async def test_what_has_ended_does_not_move_any_more(library):
    await begin(library)
    assert await library.do(tasks.advance, "t1", processed=3, failed=1)
    assert await library.do(tasks.finish, "t1", TaskStatus.COMPLETED, message="done")
    assert not await library.do(tasks.advance, "t1", processed=4)
    assert not await library.do(tasks.finish, "t1", TaskStatus.FAILED, error="late")
    task = await library.look(tasks.find, None, "t1")
    assert (task.status, task.processed, task.failed, task.error) == (TaskStatus.COMPLETED, 3, 1, "")
    assert await library.look(tasks.under_way, "b", "kb:clone") is None


async def test_a_cancelled_task_takes_its_job_along(library):
    await begin(library)
    assert await stop(library) is DocumentEffect.DONE
    assert not library.queue.waiting
    assert await stop(library) is DocumentEffect.ALREADY
    assert not await library.do(tasks.advance, "t1", processed=1)


LEAVING = [
    StoreBackup(tenant_id=7, knowledge_base_id="b", backup_id="t1"),
    StoreReembed(tenant_id=7, knowledge_base_id="b", task_id="t1", model="m", dimension=3),
    StoreRestore(tenant_id=7, knowledge_base_id="b", task_id="t1", file_key="tasks/t1/archive.zip"),
]


@pytest.mark.parametrize("job", LEAVING, ids=lambda job: job.spec.type)
async def test_whoever_cancels_a_task_asks_for_the_removal_of_what_it_made(library, job):
    """Also where no handler was ever loaded, as in a process that only answers HTTP."""
    await library.do(tasks.open_task, "t1", job, tenant_id=7, kb_id="b", detail=job.model_dump())
    await stop(library)
    assert list(library.queue.waiting.values()) == [job]


async def test_nobody_stops_the_task_of_another_tenant(library):
    await begin(library)
    assert await stop(library, tenant=8) is DocumentEffect.NOT_FOUND
    assert list(library.queue.waiting) == ["t1"]


async def test_a_task_is_forgotten_long_after_its_end(library, monkeypatch):
    await begin(library)
    await begin(library, "t2")
    await library.do(tasks.finish, "t1", TaskStatus.FAILED, error="no")
    later = now_ms() + tasks.KEPT_MS + 1000
    monkeypatch.setattr(tasks, "now_ms", lambda: later)
    old = await library.look(tasks.finished_long_ago)
    assert old == ["t1"]
    await library.do(tasks.forget, old)
    assert await library.look(tasks.find, 7, "t1") is None
    assert await library.look(tasks.find, 7, "t2")
