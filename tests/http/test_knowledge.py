"""Documents over HTTP: where each stands, how its parse went, and to stop, repeat or delete it."""

import pytest
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.documents.documents import SourceFile, begin_processing, document, register
from contracts.identity import new_id
from contracts.knowledge import ParseStatus, Stage
from contracts.states import JobState
from pipeline.errors import StoreUnavailable
from pipeline.store import Outbox
from pipeline.store.keys import Capability

from tests.http import conftest

BASE = "/api/v1/knowledge"
WRITE = Capability.KNOWLEDGE_WRITE


@pytest.fixture
def outbox(database, pipeline):
    return Outbox(database, pipeline.enqueue_many, pipeline.broker)


@pytest.fixture
def bring(outbox):
    """Put a document into a base of a tenant and start it; return its id."""

    async def one(name: str = "a.txt", tenant: int = 1, *, begin: bool = False) -> str:
        file = SourceFile(
            source=f"/{name}", file_name=name, file_type="txt", file_hash=name, file_size=1, file_key=name
        )
        async with outbox.transaction() as sql:
            kb = await ensure_base(sql, tenant, "b")
            found = (await register(sql, kb, file)).knowledge_id
        if begin:
            async with outbox.transaction() as sql:
                await begin_processing(sql, found, 1)
        return found

    return one


@pytest.fixture
def stands(database):
    async def of(ident: str) -> tuple[ParseStatus, int]:
        async with database.read() as sql:
            found = await document(sql, ident)
        assert found
        return found.parse_status, found.attempt

    return of


async def test_a_parse_is_stopped_with_its_jobs_and_written_down(operator, bring, stands, pipeline, audited):
    ident = await bring()
    [job] = (await pipeline.inspector.tasks("default", JobState.PENDING)).records
    answer = await operator.post(f"{BASE}/{ident}/cancel-parse")
    assert answer.json() == {
        "success": True, "knowledge_id": ident, "effect": "done", "attempt": 1, "delivery": "done",
    }  # fmt: skip
    assert await stands(ident) == (ParseStatus.CANCELLED, 1)
    assert (await pipeline.inspector.job(job.job.id)).state is JobState.CANCELLED
    (deed,) = await audited()
    assert (deed.action, deed.outcome, deed.target_type, deed.target_id) == (
        "knowledge.parse_canceled", "canceled", "knowledge", ident,
    )  # fmt: skip


async def test_stopping_twice_is_success_and_cancels_what_is_left(operator, bring, pipeline):
    ident = await bring()
    await operator.post(f"{BASE}/{ident}/cancel-parse")
    left = await pipeline.enqueue(conftest.document(knowledge=ident))
    answer = await operator.post(f"{BASE}/{ident}/cancel-parse")
    assert (answer.status_code, answer.json()["effect"]) == (200, "already")
    assert (await pipeline.inspector.job(left.id)).state is JobState.CANCELLED


async def test_a_document_that_is_being_deleted_can_neither_be_stopped_nor_parsed_again(
    operator, bring, audited
):
    ident = await bring()
    assert (await operator.delete(f"{BASE}/{ident}")).json()["effect"] == "done"
    for verb in ("cancel-parse", "reparse"):
        answer = await operator.post(f"{BASE}/{ident}/{verb}")
        assert (answer.status_code, answer.json()["code"]) == (400, "action_not_allowed")
        assert answer.json()["error"] == f"a document that is deleting does not allow {verb}"
    assert [deed.outcome for deed in await audited()] == ["denied", "denied", "success"]


async def test_a_document_is_parsed_again_by_a_new_attempt(operator, bring, stands, pipeline, audited):
    ident = await bring(begin=True)
    [old] = (await pipeline.inspector.tasks("default", JobState.PENDING)).records
    answer = await operator.post(f"{BASE}/{ident}/reparse", json={"fresh": True})
    assert answer.json()["attempt"] == 2
    assert await stands(ident) == (ParseStatus.PENDING, 2)
    assert (await pipeline.inspector.job(old.job.id)).state is JobState.CANCELLED
    [new] = (await pipeline.inspector.tasks("default", JobState.PENDING)).records
    assert (new.job.type, new.job.id) != (old.job.type, old.job.id)
    assert [deed.action for deed in await audited()] == ["knowledge.reparsed"]


async def test_a_delete_enqueues_one_job_that_says_who_asked(operator, bring, pipeline, stands):
    ident = await bring()
    answer = await operator.delete(f"{BASE}/{ident}")
    assert (answer.status_code, answer.json()["delivery"]) == (200, "done")
    assert await stands(ident) == (ParseStatus.DELETING, 1)
    [job] = (await pipeline.inspector.tasks("low", JobState.PENDING)).records
    assert job.job.type == "knowledge:list_delete"
    assert '"role":"platform_api_key"' in job.job.data


@pytest.mark.parametrize("verb", ["cancel-parse", "reparse", "delete"])
async def test_each_of_many_documents_has_an_answer_of_its_own(operator, bring, verb, audited):
    fine, gone = await bring("a.txt"), new_id()
    deleting = await bring("b.txt")
    await operator.delete(f"{BASE}/{deleting}")
    said = (await operator.post(f"{BASE}/batch/{verb}", json={"ids": [fine, deleting, gone, fine]})).json()
    assert [(one["knowledge_id"], one["effect"]) for one in said["results"]] == [
        (fine, "done"), (deleting, "already" if verb == "delete" else "refused"), (gone, "not_found"),
    ]  # fmt: skip
    assert said["results"][2]["code"] == "knowledge_not_found"
    assert (said["success"], said["delivery"]) == (False, "done")
    assert sum(said["counts"].values()) == 3
    deed, _ = await audited()
    assert (deed.outcome, deed.details["not_found"]) == ("partial", "1")
    assert deed.details["knowledge_ids"].split() == [fine, deleting, gone]


async def test_two_hundred_documents_are_cancelled_by_one_request(operator, bring):
    named = [await bring(f"{n}.txt") for n in range(200)]
    said = (await operator.post(f"{BASE}/batch/cancel-parse", json={"ids": named})).json()
    assert said["counts"] == {"done": 200}
    assert [one["knowledge_id"] for one in said["results"]] == named


async def test_more_than_two_hundred_documents_are_refused(operator):
    answer = await operator.post(f"{BASE}/batch/delete", json={"ids": [f"k{n}" for n in range(201)]})
    assert (answer.status_code, answer.json()["code"]) == (400, "too_many")


@pytest.mark.parametrize("ids", [[], [""], ["x" * 65], None])
async def test_a_batch_of_nothing_is_refused(operator, ids):
    answer = await operator.post(f"{BASE}/batch/delete", json={"ids": ids})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


async def test_a_cancelled_parse_is_listed_by_its_status(operator, bring):
    ident, other = await bring("a.txt"), await bring("b.txt")
    await operator.post(f"{BASE}/{ident}/cancel-parse")
    said = (await operator.get(BASE, params={"status": "cancelled"})).json()
    assert [one["id"] for one in said["knowledge"]] == [ident]
    everything = (await operator.get(BASE)).json()["knowledge"]
    assert {one["id"] for one in everything} == {ident, other}
    assert (await operator.get(BASE, params={"status": "canceled"})).json()["code"] == "unknown_status"


async def test_documents_are_listed_page_by_page_and_of_one_base(operator, bring):
    named = [await bring(f"{n}.txt") for n in range(5)]
    await bring("other.txt", tenant=2)
    base = (await operator.get(f"{BASE}/{named[0]}")).json()["knowledge_base_id"]
    params = {"page_size": 2, "knowledge_base_id": base}
    found = []
    while True:
        page = (await operator.get(BASE, params=params)).json()
        found += [one["id"] for one in page["knowledge"]]
        if not page["has_more"]:
            break
        params["cursor"] = page["next_cursor"]
    assert sorted(found) == sorted(named)
    assert (await operator.get(BASE, params={"cursor": "nonsense"})).status_code == 400


async def test_a_document_says_where_it_stands(operator, bring):
    ident = await bring(begin=True)
    said = (await operator.get(f"{BASE}/{ident}")).json()
    assert (said["parse_status"], said["current_stage"], said["attempt"]) == ("processing", "docreader", 1)
    assert said["last_activity_at"] >= said["created_at"]
    assert "stall_state" not in said
    await operator.post(f"{BASE}/{ident}/cancel-parse")
    assert "last_activity_at" not in (await operator.get(f"{BASE}/{ident}")).json()


async def test_the_spans_of_a_parse_are_a_tree_of_all_stages(operator, bring):
    ident = await bring(begin=True)
    said = (await operator.get(f"{BASE}/{ident}/spans")).json()
    assert {name: value for name, value in said.items() if name != "trace"} == {
        "knowledge_id": ident, "attempt": 1, "latest_attempt": 1, "current_attempt": 1,
        "parse_status": "processing", "current_stage": "docreader", "last_error": None,
    }  # fmt: skip
    assert said["trace"]["name"] == "knowledge_processing"
    stages = [(stage["name"], stage["status"]) for stage in said["trace"]["children"]]
    assert stages == [(stage, "running" if stage is Stage.DOCREADER else "pending") for stage in Stage]
    await operator.post(f"{BASE}/{ident}/reparse")
    old = (await operator.get(f"{BASE}/{ident}/spans", params={"attempt": 1})).json()
    assert (old["attempt"], old["latest_attempt"], old["trace"]["status"]) == (1, 2, "cancelled")
    missing = await operator.get(f"{BASE}/{ident}/spans", params={"attempt": 3})
    assert (missing.status_code, "an attempt 3" in missing.json()["error"]) == (404, True)
    assert (await operator.get(f"{BASE}/nobody/spans")).json()["code"] == "knowledge_not_found"


async def test_another_tenants_document_is_as_one_that_is_not_there(client, key, bring, stands):
    ident = await bring(tenant=2)
    client.headers.update(await key(WRITE, tenant=1))
    for method, path in (
        ("GET", ident), ("GET", f"{ident}/spans"), ("POST", f"{ident}/cancel-parse"),
        ("POST", f"{ident}/reparse"), ("DELETE", ident),
    ):  # fmt: skip
        answer = await client.request(method, f"{BASE}/{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "knowledge_not_found")
    said = (await client.post(f"{BASE}/batch/delete", json={"ids": [ident]})).json()
    assert [one["effect"] for one in said["results"]] == ["not_found"]
    assert (await client.get(BASE)).json()["knowledge"] == []
    assert await stands(ident) == (ParseStatus.PENDING, 1)


async def test_an_undelivered_cancel_says_that_it_is_pending(operator, bring, pipeline, stands, monkeypatch):
    ident = await bring()
    [job] = (await pipeline.inspector.tasks("default", JobState.PENDING)).records

    async def away(*_: object) -> None:
        raise StoreUnavailable("gone")

    with monkeypatch.context() as patch:
        patch.setattr(type(pipeline.broker), "cancel_scope", away)
        answer = await operator.post(f"{BASE}/{ident}/cancel-parse")
    assert (answer.status_code, answer.json()["delivery"]) == (200, "pending")
    assert await stands(ident) == (ParseStatus.CANCELLED, 1)
    assert (await pipeline.inspector.job(job.job.id)).state is JobState.PENDING
    assert await pipeline.inspector.unsent.waiting() != (0, 0)
