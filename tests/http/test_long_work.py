"""Tasks over HTTP: how far each is, and to stop one."""

import pytest
from consumers.knowledge.long_work import tasks
from contracts.payloads.maintenance import KnowledgeBaseClone
from contracts.tasks import TaskStatus
from pipeline.store.keys import Capability

TASKS = "/api/v1/tasks"


@pytest.fixture
async def task(services):
    job = KnowledgeBaseClone(tenant_id=1, task_id="t1", source_id="a", target_id="b")
    async with services.outbox.transaction() as sql:
        await tasks.open_task(sql, "t1", job, tenant_id=1, kb_id="b", total=3)
    return "t1"


async def test_a_task_says_how_far_it_is(operator, services, task):
    async with services.database.transaction() as sql:
        await tasks.advance(sql, task, processed=2, failed=1, message="copying")
    said = (await operator.get(f"{TASKS}/{task}")).json()
    assert {key: said[key] for key in ("status", "progress", "total", "processed", "failed", "message")} == {
        "status": "processing",
        "progress": 66,
        "total": 3,
        "processed": 2,
        "failed": 1,
        "message": "copying",
    }


async def test_a_task_that_is_stopped_leaves_no_job(operator, pipeline, task, audited):
    answer = (await operator.post(f"{TASKS}/{task}/cancel")).json()
    assert answer == {"task_id": task, "effect": "done", "delivery": "done"}
    record = await pipeline.inspector.job(task)
    assert record is None or record.state == "cancelled"
    assert (await operator.post(f"{TASKS}/{task}/cancel")).json()["effect"] == "already"
    assert [deed.action for deed in await audited()] == ["knowledge.task_canceled"] * 2


async def test_what_has_ended_cannot_be_stopped(operator, services, task):
    async with services.database.transaction() as sql:
        await tasks.finish(sql, task, TaskStatus.COMPLETED)
    answer = await operator.post(f"{TASKS}/{task}/cancel")
    assert (answer.status_code, answer.json()["code"]) == (409, "action_not_allowed")


async def test_the_task_of_another_tenant_is_not_there(client, key, task):
    client.headers.update(await key(*Capability, tenant=2))
    for answer in (await client.get(f"{TASKS}/{task}"), await client.post(f"{TASKS}/{task}/cancel")):
        assert (answer.status_code, answer.json()["code"]) == (404, "task_not_found")
