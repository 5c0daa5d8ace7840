"""Another chance for what died: a run that would find nothing to do is not promised."""

from typing import Any

import pytest
from consumers.knowledge import ids
from consumers.knowledge.tables.knowledge import Knowledge, Slot
from contracts.knowledge import ParseStatus, SlotKind, SummaryStatus
from contracts.payloads.documents import KnowledgePostProcess
from contracts.payloads.enrichment import KnowledgeAutoTag, QuestionGeneration, SummaryGeneration
from contracts.payloads.maintenance import KnowledgeListDelete
from contracts.states import JobState

from tests.http.conftest import document
from tests.support.standing import let_stand

RUNTIME = "/api/v1/system/admin/runtime"
LETTERS = f"{RUNTIME}/dead-letters"
ABOUT: dict[str, Any] = {"tenant_id": 1, "knowledge_base_id": "b1", "knowledge_id": "k1", "attempt": 1}
COMPLETE: dict[str, Any] = {"parse_status": ParseStatus.COMPLETED, "parsed_attempt": 1}
FAILED: dict[str, Any] = {"parse_status": ParseStatus.FAILED, "error_message": "no text"}


async def only(operator, **params):
    (letter,) = (await operator.get(LETTERS, params=params)).json()["dead_letters"]
    return letter


async def replay(operator):
    return await operator.post(f"{LETTERS}/{(await only(operator))['id']}/replay")


async def run_now(operator):
    letter = await only(operator)
    record = (await operator.get(f"{LETTERS}/{letter['id']}")).json()["task"]
    return await operator.post(f"{RUNTIME}/queues/{record['queue']}/tasks/{letter['job_id']}/actions/run_now")


@pytest.fixture
def row(database):
    async def row(kind=Knowledge, ident="k1"):
        async with database.read() as sql:
            return await sql.get(kind, ident)

    return row


@pytest.mark.parametrize("again", [replay, run_now])
@pytest.mark.parametrize("status", [ParseStatus.FAILED, ParseStatus.CANCELLED])
async def test_a_document_that_failed_with_its_job_is_parsed_again(
    operator, die, database, pipeline, row, again, status
):
    await let_stand(database, parse_status=status)
    died = await die(payload=document() if again is replay else KnowledgePostProcess(**ABOUT))
    assert (await again(operator)).status_code == 200
    found = await row()
    assert (found.parse_status, found.attempt) == (ParseStatus.PENDING, 2)
    parse = await pipeline.inspector.job(ids.process_job("k1", 2))
    assert (parse.state, parse.job.type) == (JobState.PENDING, "document:process")
    assert await pipeline.broker.job(died) is None
    assert (await only(operator, replayed=True))["job_id"] == died


@pytest.mark.parametrize("again", [replay, run_now])
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"parse_status": ParseStatus.DELETING}, "its document is being deleted"),
        (FAILED | {"attempt": 2}, "attempt 2 has taken the place of 1"),
        (COMPLETE, "its document is complete"),
        (FAILED | {"tenant_id": 2}, "its document is gone"),
        (None, "its document is gone"),
    ],
    ids=["deleting", "superseded", "complete", "foreign", "gone"],
)
async def test_a_run_that_would_do_nothing_is_refused_and_its_death_stays(
    operator, die, database, pipeline, again, values, said
):
    if values is not None:
        await let_stand(database, **values)
    died = await die(payload=document())
    refused = await again(operator)
    assert (refused.status_code, said in refused.json()["error"]) == (409, True)
    assert (await only(operator))["job_id"] == died
    assert (await pipeline.inspector.job(died)).state is JobState.ARCHIVED


async def test_a_summary_that_a_document_went_on_without_is_written_after_all(
    operator, die, database, pipeline, hand
):
    await let_stand(database, summary_status=SummaryStatus.FAILED, **COMPLETE)
    died = await die(payload=SummaryGeneration(**ABOUT))
    assert (await replay(operator)).status_code == 200
    delivery = await hand.take_one("summary")
    assert delivery.job_id != died
    assert '"refresh":true' in delivery.record["data"].replace(" ", "")


async def test_a_part_that_a_document_went_on_without_is_not_promised(operator, die, database):
    await let_stand(database, **COMPLETE)
    await die(payload=QuestionGeneration(**ABOUT))
    refused = await replay(operator)
    assert (refused.status_code, "parse the document again" in refused.json()["error"]) == (409, True)
    await only(operator)


async def test_a_part_that_its_document_waits_for_runs_again(operator, die, database, pipeline):
    await let_stand(database, parse_status=ParseStatus.FINALIZING, parsed_attempt=1)
    died = await die(payload=QuestionGeneration(**ABOUT))
    async with database.transaction() as sql:
        sql.add(Slot(id=died, knowledge_id="k1", attempt=1, kind=SlotKind.QUESTION, created_at=1))
    assert (await replay(operator)).status_code == 200
    assert (await pipeline.inspector.job(died)).state is JobState.PENDING


async def test_tags_for_which_no_document_waits_are_given_again(operator, die, database, pipeline):
    await let_stand(database, **COMPLETE)
    died = await die(payload=KnowledgeAutoTag(**ABOUT))
    assert (await replay(operator)).status_code == 200
    assert (await pipeline.inspector.job(died)).state is JobState.PENDING


async def test_documents_whose_removal_was_given_up_are_deleted_after_all(
    operator, die, database, row, pipeline
):
    error = "delete task exhausted retries: no"
    await let_stand(database, "k1", parse_status=ParseStatus.FAILED, error_message=error)
    await let_stand(database, "k2", **COMPLETE)  # somebody put it in again
    await die(payload=KnowledgeListDelete(tenant_id=1, knowledge_ids=("k1", "k2", "k3")))
    assert (await replay(operator)).status_code == 200
    assert [(await row(ident="k1")).parse_status, (await row(ident="k2")).parse_status] == [
        ParseStatus.DELETING,
        ParseStatus.COMPLETED,
    ]
    (record,) = (await pipeline.inspector.tasks("low", JobState.PENDING)).records
    assert '["k1"]' in record.job.data.replace(" ", "")


async def test_a_removal_of_what_is_wanted_again_is_refused(operator, die, database):
    await let_stand(database, "k2", **COMPLETE)
    await die(payload=KnowledgeListDelete(tenant_id=1, knowledge_ids=("k1", "k2")))
    refused = await replay(operator)
    assert (refused.status_code, "none of its documents" in refused.json()["error"]) == (409, True)
