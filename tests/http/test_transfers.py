"""Bases copied and documents moved over HTTP, by jobs that really run."""

import pytest
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.long_work import tasks
from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase
from consumers.knowledge.upkeep.carrying import copy_document
from consumers.knowledge.upkeep.transfers import copy_id
from contracts.knowledge import ParseStatus
from contracts.payloads.maintenance import KnowledgeBaseClone, KnowledgeMove
from contracts.tasks import TaskStatus
from pipeline.store.keys import Capability
from sqlalchemy import select

BASES = "/api/v1/knowledge-bases"
COPY = f"{BASES}/copy"
MOVE = "/api/v1/knowledge/move"


@pytest.fixture
async def target(services):
    async with services.database.transaction() as sql:
        return (await ensure_base(sql, 1, "target")).id


async def sources(services, kb):
    async with services.database.read() as sql:
        found = select(Knowledge.source, Knowledge.parse_status).where(Knowledge.knowledge_base_id == kb)
        return {row[0]: row[1] for row in await sql.execute(found.order_by(Knowledge.source))}


async def hits(services, kb):
    async with services.database.read() as sql:
        found = (await sql.scalars(select(Knowledge.id).where(Knowledge.knowledge_base_id == kb))).all()
        return sorted([entry.text for ident in found for entry in await services.search.entries(sql, ident)])


async def test_a_base_becomes_equal_to_another(
    operator, services, complete_one, register_one, maintained, task_ended, audited
):
    await complete_one("ducks")
    _, kb, _ = await complete_one("geese")
    await register_one("late")
    _, target, _ = await complete_one("extra", base="target")
    said = (await operator.post(COPY, json={"source_id": kb, "target_id": target})).json()
    assert said["delivery"] == "done"
    async with maintained():
        await task_ended(said["task_id"])
    done = (await operator.get(f"{COPY}/progress/{said['task_id']}")).json()
    assert (done["status"], done["progress"], done["total"], done["processed"]) == ("completed", 100, 3, 3)
    assert (done["source_id"], done["target_id"]) == (kb, target)
    assert "1 documents that are not complete were left out" in done["message"]
    assert await sources(services, target) == dict.fromkeys(("ducks", "geese"), ParseStatus.COMPLETED)
    assert await hits(services, target) == ["ducks flies", "ducks swims", "geese flies", "geese swims"]
    again = (await operator.post(COPY, json={"source_id": kb, "target_id": target})).json()
    async with maintained():
        assert (await task_ended(again["task_id"]))["total"] == 0
    deeds = [(deed.action, deed.outcome, deed.target_id) for deed in await audited()]
    assert deeds[:2] == [("kb.clone_completed", "success", target), ("kb.clone_started", "success", target)]


async def test_a_copy_that_was_interrupted_goes_on_and_copies_nothing_twice(
    operator, services, complete_one, target, maintained, task_ended
):
    ident, kb, _ = await complete_one("ducks")
    await complete_one("geese")
    said = (await operator.post(COPY, json={"source_id": kb, "target_id": target})).json()

    async with services.outbox.transaction() as sql:
        source, base = await ensure_base(sql, 1, "b"), await ensure_base(sql, 1, "target")
        new = copy_id(said["task_id"], ident)
        assert await copy_document(sql, services.search, ident, source, base, new) == ""
        await tasks.advance(sql, said["task_id"], processed=1, total=2)
    async with maintained():
        done = await task_ended(said["task_id"])
    assert (done["status"], done["total"], done["processed"]) == ("completed", 2, 2)
    assert await sources(services, target) == dict.fromkeys(("ducks", "geese"), ParseStatus.COMPLETED)


async def test_a_copy_between_bases_that_changed_meanwhile_fails_and_says_why(
    operator, services, complete_one, target, maintained, task_ended, audited
):
    _, kb, _ = await complete_one("ducks")
    said = (await operator.post(COPY, json={"source_id": kb, "target_id": target})).json()
    async with services.database.transaction() as sql:
        base = await sql.get(KnowledgeBase, target)
        base.embedding_model, base.embedding_dimension = "another", 3
    async with maintained():
        done = await task_ended(said["task_id"])
    assert done["status"] == "failed"
    assert "vectors of different models" in done["error"]
    (last, *_) = await audited()
    assert (last.action, last.outcome) == ("kb.clone_failed", "failed")


@pytest.mark.parametrize(
    ("source", "goal", "said"),
    [
        ("nowhere", "target", (404, "knowledge_base_not_found")),
        ("target", "nowhere", (404, "knowledge_base_not_found")),
        ("target", "target", (409, "conflict")),
        ("anothers", "target", (404, "knowledge_base_not_found")),
        ("other model", "target", (409, "conflict")),
        ("deleted", "target", (404, "knowledge_base_not_found")),
    ],
)
async def test_what_cannot_be_copied_is_refused(operator, services, complete_one, target, source, goal, said):
    named = {"target": target, "nowhere": "nowhere"}
    await complete_one("x", base="target")
    async with services.database.transaction() as sql:
        named["anothers"] = (await ensure_base(sql, 2, "anothers")).id
        other, gone = await ensure_base(sql, 1, "other"), await ensure_base(sql, 1, "gone")
        other.embedding_model, other.embedding_dimension = "another", 3
        named |= {"other model": other.id, "deleted": gone.id}
    await operator.delete(f"{BASES}/{named['deleted']}")
    answer = await operator.post(COPY, json={"source_id": named[source], "target_id": named[goal]})
    assert (answer.status_code, answer.json()["code"]) == said


async def test_a_base_that_is_busy_waits_for_no_second_copy(operator, services, complete_one, target):
    ident, kb, _ = await complete_one("ducks")
    first = (await operator.post(COPY, json={"source_id": kb, "target_id": target})).json()
    back = await operator.post(COPY, json={"source_id": target, "target_id": kb})
    assert (back.status_code, back.json()["code"]) == (409, "conflict")
    assert first["task_id"] in back.json()["error"]
    moved = {"knowledge_ids": [ident], "source_kb_id": kb, "target_kb_id": target}
    assert (await operator.post(MOVE, json=moved)).status_code == 409
    await operator.post(f"/api/v1/tasks/{first['task_id']}/cancel")
    assert (await operator.post(MOVE, json=moved)).status_code == 200


async def test_documents_move_with_their_vectors_and_those_that_cannot_are_named(
    operator, services, complete_one, target, maintained, task_ended
):
    ducks, kb, _ = await complete_one("ducks")
    geese, _, _ = await complete_one("geese")
    asked = {"knowledge_ids": [f" {ducks}", geese, ducks], "source_kb_id": kb, "target_kb_id": target}
    said = (await operator.post(MOVE, json=asked)).json()
    await complete_one("geese", base="target")
    async with maintained():
        await task_ended(said["task_id"])
    done = (await operator.get(f"{MOVE}/progress/{said['task_id']}")).json()
    assert (done["status"], done["total"], done["processed"], done["failed"]) == ("completed", 2, 2, 1)
    assert (done["source_kb_id"], done["target_kb_id"]) == (kb, target)
    assert list(done["detail"]["refused"]) == [geese]
    assert await sources(services, kb) == {"geese": ParseStatus.COMPLETED}
    assert await hits(services, kb) == ["geese flies", "geese swims"]
    assert await hits(services, target) == ["ducks flies", "ducks swims", "geese flies", "geese swims"]


async def test_documents_move_to_be_parsed_again(
    operator, services, complete_one, target, maintained, task_ended
):
    ducks, kb, _ = await complete_one("ducks")
    asked = {"knowledge_ids": [ducks], "source_kb_id": kb, "target_kb_id": target, "mode": "reparse"}
    said = (await operator.post(MOVE, json=asked)).json()
    async with maintained():
        assert (await task_ended(said["task_id"]))["status"] == "completed"
    assert await sources(services, target) == {"ducks": ParseStatus.PENDING}
    assert await hits(services, target) == []


async def test_a_move_of_which_nothing_came_has_failed(
    operator, services, complete_one, target, maintained, task_ended
):
    ducks, kb, _ = await complete_one("ducks")
    asked = {"knowledge_ids": [ducks], "source_kb_id": kb, "target_kb_id": target}
    said = (await operator.post(MOVE, json=asked)).json()
    await operator.post(f"/api/v1/knowledge/{ducks}/reparse")
    async with maintained():
        done = await task_ended(said["task_id"])
    assert (done["status"], done["failed"]) == ("failed", 1)
    assert "none of the documents was moved: it is pending" in done["error"]


async def test_only_complete_documents_of_the_source_are_moved(operator, complete_one, register_one, target):
    ducks, kb, _ = await complete_one("ducks")
    late, _ = await register_one("late")
    for ids, status, code in (
        ([ducks, "unheard-of"], 400, "not_of_base"),
        ([ducks, late], 409, "conflict"),
        ([" "], 400, "none_named"),
        ([f"k{n}" for n in range(201)], 400, "too_many"),
    ):
        asked = {"knowledge_ids": ids, "source_kb_id": kb, "target_kb_id": target}
        answer = await operator.post(MOVE, json=asked)
        assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_work_whose_base_is_gone_when_it_runs_fails_and_says_so(
    operator, pipeline, services, maintained, task_ended
):
    jobs: list[KnowledgeBaseClone | KnowledgeMove] = [
        KnowledgeBaseClone(tenant_id=1, task_id="t1", source_id="a", target_id="b"),
        KnowledgeMove(tenant_id=1, task_id="t2", knowledge_ids=("k",), source_kb_id="a", target_kb_id="b"),
    ]
    for job in jobs:
        await pipeline.enqueue(job, id=job.task_id)
    async with services.database.transaction() as sql:
        for job in jobs:
            await tasks.register(sql, job.task_id, job, tenant_id=1, kb_id="b")
    async with maintained():
        for job in jobs:
            done = await task_ended(job.task_id)
            assert done["status"] == TaskStatus.FAILED
            assert "is gone" in done["error"]


async def test_the_progress_of_another_tenant_or_kind_is_not_there(
    client, operator, key, complete_one, target
):
    _, kb, _ = await complete_one("ducks")
    task_id = (await operator.post(COPY, json={"source_id": kb, "target_id": target})).json()["task_id"]
    assert (await operator.get(f"{MOVE}/progress/{task_id}")).status_code == 404
    headers = await key(*Capability, tenant=2)
    assert (await client.get(f"{COPY}/progress/{task_id}", headers=headers)).status_code == 404
    answer = await client.post(COPY, json={"source_id": kb, "target_id": target}, headers=headers)
    assert answer.status_code == 404
