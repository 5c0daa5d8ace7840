"""What every handler of upkeep keeps: run twice it comes to the same, stopped it keeps what it did, and what is down it awaits."""

import asyncio
from dataclasses import replace

import pytest
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.files.store import FileStoreError, FolderStore
from consumers.knowledge.long_work import tasks
from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase
from consumers.knowledge.upkeep import several
from consumers.knowledge.upkeep.carrying import copy_document
from contracts.outcomes import Retry
from contracts.payloads.maintenance import IndexDelete, KnowledgeBaseDelete, KnowledgeListReparse
from contracts.states import JobState
from pipeline.actions import Action
from pipeline.store.dead_letters import Narrowed, listed
from sqlalchemy import select

from tests.support.waiting import wait_until

BASES = "/api/v1/knowledge-bases"
CLONING = "consumers.handlers.cloning"


def twice(handler):
    """The handler, run again after it has run."""

    async def again(job, ctx):
        await handler.run(job, ctx)
        return await handler.run(job, ctx)

    return replace(handler, run=again)


def failing_first(handler):
    """The handler, whose first attempt does its work and then fails all the same."""

    async def fail(job, ctx):
        said = await handler.run(job, ctx)
        if ctx.retried == 0:
            raise Retry(after=0, reason="the reply was lost")
        return said

    return replace(handler, run=fail)


async def documents(services):
    """Base, source, status and attempt of every document."""
    async with services.database.read() as sql:
        columns = select(KnowledgeBase.name, Knowledge.source, Knowledge.parse_status, Knowledge.attempt)
        rows = await sql.execute(columns.join(KnowledgeBase, KnowledgeBase.id == Knowledge.knowledge_base_id))
        return sorted(tuple(row) for row in rows)


@pytest.mark.parametrize("change", [twice, failing_first])
async def test_run_twice_every_handler_comes_to_the_same(
    operator, services, complete_one, maintained, task_ended, change
):
    ducks, kb, (first, _) = await complete_one("ducks")
    geese, _, _ = await complete_one("geese")
    swans, _, _ = await complete_one("swans")
    _, target, _ = await complete_one("extra", base="target")
    async with maintained("enrichment", change=change):

        async def do(path, **asked):
            said = (await operator.post(path, json=asked)).json()
            return await task_ended(said["task_id"])

        copied = await do(f"{BASES}/copy", source_id=kb, target_id=target)
        assert (copied["status"], copied["failed"]) == ("completed", 0)
        both = {"source_kb_id": kb, "target_kb_id": target}
        moved = await do("/api/v1/knowledge/move", knowledge_ids=[ducks], **both)
        assert (moved["status"], moved["failed"]) == ("failed", 1), "its copy has its place"
        async with services.database.transaction() as sql:
            third = (await ensure_base(sql, 1, "third")).id
        moved = await do("/api/v1/knowledge/move", knowledge_ids=[ducks], source_kb_id=kb, target_kb_id=third)
        assert (moved["status"], moved["failed"], moved["processed"]) == ("completed", 0, 1)
        await operator.delete(f"{BASES}/{third}/knowledge/{ducks}/chunks/{first}")
        again = await do(f"{BASES}/{kb}/knowledge/batch-reparse", ids=[geese])
        assert (again["status"], again["processed"]) == ("completed", 1)
        gone = await do(f"{BASES}/{kb}/knowledge/batch-delete", ids=[swans])
        assert gone["status"] == "completed"
        profile = (await operator.post(f"{BASES}/{third}/profile")).json()
        deleted = (await operator.delete(f"{BASES}/{target}")).json()
        assert (await task_ended(deleted["task_id"]))["status"] == "completed"
        await wait_until(
            lambda: is_ready(operator, third), describe=f"profile {profile['job_id']}", timeout=60
        )
    assert await documents(services) == [("b", "geese", "pending", 2), ("third", "ducks", "completed", 1)]
    async with services.database.read() as sql:
        entries = await services.search.entries(sql, ducks)
        assert await sql.get(KnowledgeBase, target) is None
    assert [(entry.kb_id, entry.text) for entry in entries] == [(third, "ducks flies")]


async def is_ready(operator, kb):
    answer = await operator.get(f"{BASES}/{kb}/profile")
    return answer.status_code == 200 and answer.json()["status"] == "ready"


async def test_a_copy_that_is_stopped_in_the_middle_keeps_what_it_did(
    operator, services, complete_one, maintained, task_ended, monkeypatch
):
    await complete_one("ducks")
    _, kb, _ = await complete_one("geese")
    async with services.database.transaction() as sql:
        target = (await ensure_base(sql, 1, "target")).id
    held, called = asyncio.Event(), []

    async def copy(*args):
        called.append(1)
        if len(called) > 1:
            await held.wait()
        return await copy_document(*args)

    monkeypatch.setattr(f"{CLONING}.copy_document", copy)
    monkeypatch.setattr(f"{CLONING}.TOGETHER", 1)
    said = (await operator.post(f"{BASES}/copy", json={"source_id": kb, "target_id": target})).json()
    async with maintained():
        await wait_until(lambda: len(called) > 1, describe="the second copy is held", timeout=30)
        stopped = (await operator.post(f"/api/v1/tasks/{said['task_id']}/cancel")).json()
        assert stopped["effect"] == "done"
        held.set()
        assert (await task_ended(said["task_id"]))["status"] == "cancelled"
        assert len(await documents(services)) >= 3
        monkeypatch.setattr(f"{CLONING}.copy_document", copy_document)
        again = (await operator.post(f"{BASES}/copy", json={"source_id": kb, "target_id": target})).json()
        assert (await task_ended(again["task_id"]))["status"] == "completed"
    assert [name for name, *_ in await documents(services)] == ["b", "b", "target", "target"]


async def test_a_removal_waits_for_files_that_are_away_and_ends_when_they_are_back(
    operator, pipeline, services, complete_one, maintained, task_ended, monkeypatch
):
    _, kb, _ = await complete_one("ducks")
    real = FolderStore.delete

    async def away(self, prefix):
        raise FileStoreError("away, as the test asked")

    monkeypatch.setattr(FolderStore, "delete", away)
    said = (await operator.delete(f"{BASES}/{kb}")).json()
    async with maintained():

        async def waits():
            (state,) = await pipeline.broker.states([said["task_id"]])
            return state is JobState.RETRY

        await wait_until(waits, describe="the job waits for its next try", timeout=30)
        half = (await operator.get(f"/api/v1/tasks/{said['task_id']}")).json()
        assert half["status"] in {"pending", "processing"}
        monkeypatch.setattr(FolderStore, "delete", real)
        await pipeline.inspector.act(Action.RUN_NOW, [said["task_id"]])
        assert (await task_ended(said["task_id"]))["status"] == "completed"
    assert await documents(services) == []


async def test_what_no_run_could_do_is_given_up_at_once_with_the_reason(
    operator, pipeline, services, complete_one, maintained, database
):
    ident, kb, _ = await complete_one("ducks")
    wrong = {"modell": "x"}
    jobs = {
        "t1": KnowledgeBaseDelete(tenant_id=1, knowledge_base_id=kb),
        "t2": KnowledgeListReparse(tenant_id=1, knowledge_ids=(ident,), process_config=wrong),
        "t3": IndexDelete(
            tenant_id=1,
            knowledge_base_id=kb,
            embedding_model_id="",
            chunk_ids=("c",),
            effective_engines=("milvus",),
        ),
    }
    async with services.database.transaction() as sql:
        for task_id, job in jobs.items():
            await tasks.register(sql, task_id, job, tenant_id=1, kb_id=kb)
    for task_id, job in jobs.items():
        await pipeline.enqueue(job, id=task_id)
    async with maintained():

        async def recorded():
            async with database.read() as sql:
                found = await listed(sql, Narrowed(), 10)
            return found if len(found) == len(jobs) else None

        letters = await wait_until(recorded, describe="the deaths are recorded", timeout=30)
    why = {letter.job_id: (letter.reason, letter.last_error) for letter in letters}
    assert {reason for reason, _ in why.values()} == {"skip"}
    assert "is not deleted" in why["t1"][1]
    assert "process_config cannot be used" in why["t2"][1]
    assert "milvus, which this worker cannot reach" in why["t3"][1]
    states = {task: (await operator.get(f"/api/v1/tasks/{task}")).json()["status"] for task in ("t1", "t2")}
    assert set(states.values()) == {"failed"}
    assert await documents(services) == [("b", "ducks", "completed", 1)]


async def test_a_process_config_is_laid_over_what_a_base_wants(services, complete_one):
    _, kb, _ = await complete_one("ducks")
    async with services.database.read() as sql:
        base = await sql.get(KnowledgeBase, kb)
    options = several.ProcessConfig(enable_multimodel=False, question_count=7).over(base, 5.0)
    assert (options.read_pictures, options.ask_questions, options.question_count) == (False, True, 7)
    assert options.timeout == 5.0
