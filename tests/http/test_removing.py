"""Bases and many documents over HTTP: deleted and parsed again by jobs that really run."""

import pytest
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.bases.tags import Pick, ensure_tags, store_tags, tags_of
from consumers.knowledge.documents.contents import chunks_of
from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase
from consumers.knowledge.tables.tasks import Task
from consumers.knowledge.upkeep.several import MOST
from contracts.knowledge import ParseStatus
from contracts.payloads.maintenance import KnowledgeListDelete, KnowledgeListReparse
from contracts.states import JobState
from contracts.topology import QUEUES
from pipeline.store.keys import Capability
from sqlalchemy import func, select

from tests.http.conftest import document
from tests.support.waiting import wait_until

BASES = "/api/v1/knowledge-bases"


async def count(database, row, *where):
    async with database.read() as sql:
        return await sql.scalar(select(func.count()).select_from(row).where(*where))


async def test_a_deleted_base_is_gone_with_its_documents_and_leaves_no_job(
    operator, services, register_one, maintained, audited, task_ended
):
    first, kb = await register_one("a")
    await register_one("b")
    await register_one("c", base="other")
    jobs = [KnowledgeListDelete(tenant_id=1, knowledge_ids=(first,)), document(1, kb, first)]
    await services.pipeline.enqueue_many([*jobs, KnowledgeListReparse(tenant_id=1, knowledge_ids=(first,))])
    said = (await operator.delete(f"{BASES}/{kb}")).json()
    assert (said["effect"], said["delivery"]) == ("done", "done")
    again = (await operator.delete(f"{BASES}/{kb}")).json()
    assert (again["effect"], again["task_id"]) == ("already", said["task_id"])
    assert (await operator.get(f"/api/v1/knowledge/{first}")).status_code == 404
    async with maintained():
        task = await task_ended(said["task_id"])
    assert (task["status"], task["message"], task["total"], task["progress"]) == (
        "completed",
        "deleted",
        2,
        100,
    )
    assert await count(services.database, KnowledgeBase, KnowledgeBase.id == kb) == 0
    assert await count(services.database, Knowledge) == 1
    for scope in (("knowledge_base", kb), ("knowledge", first)):
        assert not await services.pipeline.inspector.has_queued(*scope)
    assert await services.pipeline.inspector.has_queued("tenant", "1"), "the parse in the other base"
    gone = await operator.delete(f"{BASES}/{kb}")
    assert (gone.status_code, gone.json()["code"]) == (404, "knowledge_base_not_found")
    (last, *_) = await audited()
    assert (last.action, last.outcome) == ("knowledge.base_deleted", "denied")
    async with services.database.transaction() as sql:
        assert (await ensure_base(sql, 1, "b")).id != kb


async def test_twelve_deleted_bases_leave_no_job(operator, pipeline, register_one, maintained, task_ended):
    bases = {}
    for number in range(12):
        ident, kb = await register_one(f"{number}", base=f"base {number}")
        bases[kb] = ident
        await pipeline.enqueue_many([document(1, kb, ident) for _ in range(5)])
    tasks = [(await operator.delete(f"{BASES}/{kb}")).json()["task_id"] for kb in bases]
    async with maintained():
        assert {(await task_ended(task))["status"] for task in tasks} == {"completed"}
    left = [
        record.job.type
        for name in QUEUES
        for state in (JobState.PENDING, JobState.SCHEDULED, JobState.RETRY)
        for record in (await pipeline.inspector.tasks(name, state)).records
    ]
    assert left == []


async def test_documents_named_twice_and_with_spaces_are_deleted_once(
    operator, database, register_one, maintained, task_ended
):
    first, kb = await register_one("a")
    second, _ = await register_one("b")
    third, _ = await register_one("c")
    ids = [first, f" {second} ", first, ""]
    said = (await operator.post(f"{BASES}/{kb}/knowledge/batch-delete", json={"ids": ids})).json()
    assert (said["deleted_count"], said["delivery"]) == (2, "done")
    assert await count(database, Knowledge, Knowledge.parse_status == ParseStatus.DELETING) == 2
    async with maintained():
        task = await task_ended(said["task_id"])
    assert (task["status"], task["processed"], task["progress"]) == ("completed", 2, 100)
    async with database.read() as sql:
        assert (await sql.scalars(select(Knowledge.id))).all() == [third]
    again, _ = await register_one("a")
    assert again != first


@pytest.mark.parametrize("verb", ["batch-delete", "batch-reparse"])
async def test_nothing_is_done_to_documents_that_are_not_all_of_the_base(
    operator, database, register_one, verb
):
    first, kb = await register_one("a")
    other, _ = await register_one("b", base="other")
    for strange in (other, "unheard-of"):
        answer = await operator.post(f"{BASES}/{kb}/knowledge/{verb}", json={"ids": [first, strange]})
        assert (answer.status_code, answer.json()["code"]) == (400, "not_of_base")
    assert await count(database, Knowledge, Knowledge.parse_status != ParseStatus.PENDING) == 0
    assert await count(database, Task) == 0


@pytest.mark.parametrize(
    ("ids", "status", "code"),
    [
        ([f"k{n}" for n in range(MOST + 1)], 400, "too_many"),
        ([" "], 400, "none_named"),
        (["k"] * 401, 422, "invalid_request"),
        ([], 422, "invalid_request"),
    ],
)
async def test_a_request_names_at_most_two_hundred_documents(operator, register_one, ids, status, code):
    _, kb = await register_one("a")
    answer = await operator.post(f"{BASES}/{kb}/knowledge/batch-delete", json={"ids": ids})
    assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_documents_are_parsed_again_with_what_was_said_and_the_task_names_those_that_were_not(
    operator, pipeline, database, register_one, maintained, task_ended
):
    first, kb = await register_one("a")
    second, _ = await register_one("b")
    url, config = f"{BASES}/{kb}/knowledge", {"enable_question_generation": False, "language": "de"}
    asked = {"ids": [first, second], "process_config": config}
    said = (await operator.post(f"{url}/batch-reparse", json=asked)).json()
    assert said["reparse_count"] == 2
    await operator.delete(f"/api/v1/knowledge/{second}")
    async with maintained():
        task = await task_ended(said["task_id"])
    assert (task["status"], task["processed"], task["failed"]) == ("failed", 2, 1)
    assert second in task["error"]
    assert first not in task["error"]
    page = await pipeline.inspector.tasks("default", JobState.PENDING)
    (job,) = [record.job.data for record in page.records if '"attempt":2' in record.job.data]
    assert first in job
    assert '"enable_question_generation":false' in job
    assert '"language":"de"' in job
    async with database.read() as sql:
        assert (await sql.get(Knowledge, first)).attempt == 2


async def test_a_process_config_of_unknown_words_is_refused(operator, register_one):
    ident, kb = await register_one("a")
    asked = {"ids": [ident], "process_config": {"modell": "x"}}
    answer = await operator.post(f"{BASES}/{kb}/knowledge/batch-reparse", json=asked)
    assert answer.status_code == 422


async def test_the_base_of_another_tenant_is_not_there(client, key, database, register_one):
    ident, kb = await register_one("a")
    client.headers.update(await key(*Capability, tenant=2))
    for answer in (
        await client.delete(f"{BASES}/{kb}"),
        await client.post(f"{BASES}/{kb}/knowledge/batch-delete", json={"ids": [ident]}),
        await client.post(f"{BASES}/{kb}/knowledge/batch-reparse", json={"ids": [ident]}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "knowledge_base_not_found")
    assert await count(database, Knowledge, Knowledge.parse_status == ParseStatus.PENDING) == 1


async def test_a_deleted_passage_leaves_its_document_and_the_index(
    operator, services, complete_one, maintained, audited
):
    ident, kb, (first, second) = await complete_one()
    url = f"{BASES}/{kb}/knowledge/{ident}/chunks"
    said = (await operator.delete(f"{url}/{first}")).json()
    assert said == {"chunk_id": first, "delivery": "done"}
    async with maintained():

        async def out():
            async with services.database.read() as sql:
                return [one.id for one in await services.search.entries(sql, ident)] == [second]

        await wait_until(out, describe="the entry is gone", timeout=30)
    async with services.database.read() as sql:
        assert [chunk.id for chunk in await chunks_of(sql, ident, 1)] == [second]
    again = await operator.delete(f"{url}/{first}")
    assert (again.status_code, again.json()["code"]) == (404, "chunk_not_found")
    assert {deed.action for deed in await audited()} == {"knowledge.chunk_deleted"}
    await operator.post(f"/api/v1/knowledge/{ident}/reparse")
    late = await operator.delete(f"{url}/{second}")
    assert late.status_code in {404, 409}


async def test_the_documents_of_a_tag_are_deleted(
    operator, services, complete_one, maintained, database, task_ended
):
    ident, kb, _ = await complete_one()
    async with services.outbox.transaction() as sql:
        await ensure_tags(sql, kb, {"birds": ""})
        (tag,) = await tags_of(sql, kb)
        await store_tags(sql, kb, ident, 1, [Pick(tag.id, 0.9)], method="extractive")
    url = f"{BASES}/{kb}/tags/{tag.id}/knowledge"
    said = (await operator.delete(url)).json()
    assert (said["deleted_count"], said["more"]) == (1, False)
    async with maintained():
        assert (await task_ended(said["task_id"]))["status"] == "completed"
    assert await count(database, Knowledge) == 0
    again = await operator.delete(url)
    assert (again.status_code, again.json()["code"]) == (404, "knowledge_not_found")
