"""A cancel of a job is one of the document that it works on; without the document, of the jobs that are left."""

from dataclasses import replace

import httpx
import pytest
from consumers.database import outbox_of
from consumers.desk import Documents, desk_of
from consumers.knowledge.documents.documents import document
from contracts.knowledge import ParseStatus
from contracts.payloads.maintenance import KnowledgeBaseDelete
from contracts.states import JobState
from pipeline.http.app import create_app
from pipeline.http.desk import Desk

from tests.http import conftest

BASE = "/api/v1/system/admin/runtime"


def at(task: str, action: str = "cancel") -> str:
    return f"{BASE}/queues/default/tasks/{task}/actions/{action}"


@pytest.fixture
def status(database):
    async def of(knowledge: str):
        async with database.read() as sql:
            found = await document(sql, knowledge)
        return found and found.parse_status

    return of


async def test_a_cancel_of_a_job_cancels_its_document_and_all_its_jobs(
    operator, pipeline, register_one, status
):
    knowledge, base = await register_one("a.txt")
    jobs = [(await pipeline.enqueue(conftest.document(base=base, knowledge=knowledge))).id for _ in range(2)]
    assert (await operator.post(at(jobs[0]))).json() == {"success": True}
    assert await status(knowledge) is ParseStatus.CANCELLED
    assert {(await pipeline.inspector.job(job)).state for job in jobs} == {JobState.CANCELLED}


async def test_a_running_job_is_told_to_stop(operator, pipeline, register_one, hand):
    knowledge, base = await register_one("a.txt")
    job = (await pipeline.enqueue(conftest.document(base=base, knowledge=knowledge))).id
    (delivery,) = await hand.take()
    assert (await operator.post(at(job))).status_code == 200
    assert await hand.settle(delivery, RuntimeError("stopped")) is JobState.CANCELLED


async def test_an_orphan_is_swept_away_with_what_is_left_of_its_document(operator, pipeline, audited):
    jobs = [(await pipeline.enqueue(conftest.document(knowledge="gone"))).id for _ in range(2)]
    other = (await pipeline.enqueue(conftest.document(knowledge="other"))).id
    assert (await operator.post(at(jobs[0]))).status_code == 200
    assert await pipeline.broker.job(jobs[0]) is None
    assert (await pipeline.inspector.job(jobs[1])).state is JobState.CANCELLED
    assert (await pipeline.inspector.job(other)).state is JobState.PENDING
    (deed,) = await audited()
    assert (deed.action, deed.details["orphan_purge"]) == ("system.queue_task_cancelled", "true")


async def test_a_job_that_names_another_tenants_document_takes_nothing_of_it_along(
    operator, pipeline, register_one, status
):
    knowledge, base = await register_one("a.txt", tenant=2)
    own = (await pipeline.enqueue(conftest.document(2, base, knowledge))).id
    foreign = (await pipeline.enqueue(conftest.document(1, base, knowledge))).id
    assert (await operator.post(at(foreign))).status_code == 200
    assert (await pipeline.inspector.job(foreign)).state is JobState.CANCELLED
    assert (await pipeline.inspector.job(own)).state is JobState.PENDING
    assert await status(knowledge) is ParseStatus.PENDING


async def test_a_cancelled_base_takes_its_documents_along_and_is_still_deleted(
    operator, pipeline, register_one, status
):
    knowledge, base = await register_one("a.txt")
    kept, _ = await register_one("b.txt", base="other")
    job = (await pipeline.enqueue(conftest.document(base=base, knowledge=knowledge))).id
    deleting = (await pipeline.enqueue(KnowledgeBaseDelete(tenant_id=1, knowledge_base_id=base))).id
    done = await operator.post(f"{BASE}/scopes/knowledge_base/{base}/cancel")
    assert done.json()["cancelled"] == 1
    assert await status(knowledge) is ParseStatus.CANCELLED
    assert await status(kept) is ParseStatus.PENDING
    assert (await pipeline.inspector.job(job)).state is JobState.CANCELLED
    assert (await pipeline.inspector.job(deleting)).state is JobState.PENDING


async def test_a_running_job_of_a_base_is_told_to_stop_once(operator, pipeline, register_one, hand):
    knowledge, base = await register_one("a.txt")
    await pipeline.enqueue(conftest.document(base=base, knowledge=knowledge))
    await hand.take_one()
    done = await operator.post(f"{BASE}/scopes/knowledge_base/{base}/cancel")
    said = done.json()
    assert (said["cancelled"], said["signalled"], list(said["effects"].values())) == (0, 1, ["signalled"])


async def test_what_comes_into_a_base_after_its_cancel_is_left_alone(pipeline, database, key, register_one):
    class Slow(Documents):
        """Somebody uploads a document while those that were there before are cancelled."""

        async def cancel_base(self, knowledge_base_id):
            found = await super().cancel_base(knowledge_base_id)
            uploaded.append((await pipeline.enqueue(conftest.document(base=base, knowledge="new"))).id)
            return found

    uploaded: list[str] = []
    _, base = await register_one("a.txt")
    desk = replace(desk_of(pipeline, database), business=Slow(database, outbox_of(pipeline, database)))
    transport = httpx.ASGITransport(create_app(desk))
    async with httpx.AsyncClient(transport=transport, base_url="http://streamlane.test") as client:
        url = f"{BASE}/scopes/knowledge_base/{base}/cancel"
        assert (await client.post(url, headers=await key("system_runtime_manage"))).status_code == 200
    assert (await pipeline.inspector.job(uploaded[0])).state is JobState.PENDING


async def test_a_cancelled_scope_of_a_document_takes_the_document_along(operator, register_one, status):
    knowledge, _ = await register_one("a.txt")
    assert (await operator.post(f"{BASE}/scopes/knowledge/{knowledge}/cancel")).status_code == 200
    assert await status(knowledge) is ParseStatus.CANCELLED


async def test_a_bulk_cancel_is_one_of_documents_too(operator, pipeline, register_one, status):
    found = [await register_one(name) for name in ("a.txt", "b.txt")]
    for knowledge, base in found:
        await pipeline.enqueue(conftest.document(base=base, knowledge=knowledge))
    done = await operator.post(f"{BASE}/queues/default/actions/cancel", json={"state": "pending"})
    assert done.json()["counts"] == {"cancelled": 2}
    assert [await status(knowledge) for knowledge, _ in found] == [ParseStatus.CANCELLED] * 2


async def test_where_nobody_knows_documents_none_is_cancelled(pipeline, database, key, audited):
    desk = Desk(pipeline.settings, pipeline.broker, pipeline.inspector, database)
    job = (await pipeline.enqueue(conftest.document())).id
    transport = httpx.ASGITransport(create_app(desk))
    async with httpx.AsyncClient(transport=transport, base_url="http://streamlane.test") as client:
        answer = await client.post(at(job), headers=await key("system_runtime_manage"))
    assert (answer.status_code, answer.json()["code"]) == (503, "business_cancel_unavailable")
    assert (await pipeline.inspector.job(job)).state is JobState.PENDING
    assert [deed.outcome for deed in await audited()] == ["failed"]
