"""What operators do through the inspector: cancel what belongs together, act on many, count, and see what stalls."""

import asyncio
from typing import Any

import pytest
from contracts.jobs import JobPayload, Scope
from contracts.outcomes import Cancel, Retry, Skip
from contracts.payloads.enrichment import KnowledgeBaseProfile
from contracts.payloads.maintenance import (
    FAQImport,
    IndexDelete,
    KnowledgeBaseClone,
    KnowledgeBaseDelete,
    KnowledgeListReparse,
    KnowledgeMove,
)
from contracts.states import JobState
from contracts.topology import POOLS
from pipeline.actions import Action, Effect
from pipeline.broker import Broker
from pipeline.clock import now_ms
from pipeline.inspector import Inspector
from pipeline.records import Count, PoolBeat, PoolStat, TaskFilter, WorkerBeat

from tests.support.backends import Backend
from tests.support.faults import Faults, Loss
from tests.support.hand import Hand, ids, new, news, state

KB, OTHER_KB, TENANT = Scope("knowledge_base", "kb"), Scope("knowledge_base", "other"), Scope("tenant", "7")
DOCUMENT = Scope("knowledge", "doc")


@pytest.fixture
def inspector(store: Broker) -> Inspector:
    return Inspector(store)


def typed(job_type: str, *scopes: Scope, **fields: Any) -> Any:
    return new(type=job_type, scopes=scopes, **fields)


async def test_a_cancel_of_a_document_stops_just_the_types_that_are_its_own(
    store: Broker, inspector: Inspector
) -> None:
    mine = [typed(one, DOCUMENT) for one in ("document:process", "chunk:extract", "summary:generation")]
    kept = [typed(one, DOCUMENT) for one in ("knowledge:auto_tag", "datatable:summary", "wiki:ingest")]
    kept.append(typed("document:process", Scope("knowledge", "doc2")))
    await store.enqueue([*mine, *kept])
    done = await inspector.cancel_scope("knowledge", "doc")
    assert await inspector.effects(done) == dict.fromkeys(ids(mine), Effect.CANCELLED)
    assert await store.states(ids(kept)) == [JobState.PENDING] * 4


async def test_a_cancel_of_a_base_takes_what_names_only_its_documents_or_sources_and_leaves_its_deletion(
    store: Broker, inspector: Inspector
) -> None:
    mine = [
        typed("wiki:ingest", KB),
        typed("document:process", KB, DOCUMENT, delay_ms=60_000),
        typed("knowledge:list_delete", DOCUMENT, Scope("knowledge", "elsewhere")),
        typed("datasource:sync", Scope("data_source", "source")),
    ]
    kept = [
        typed("kb:delete", KB, Scope("data_source", "source")),
        typed("index:delete", KB, DOCUMENT),
        typed("wiki:ingest", OTHER_KB),
        typed("datasource:sync", Scope("data_source", "other")),
    ]
    await store.enqueue([*mine, *kept])
    done = await inspector.cancel_knowledge_base("kb", ["doc", "doc"], ["source"])
    assert await inspector.effects(done) == dict.fromkeys(ids(mine), Effect.CANCELLED)
    assert await store.states(ids(kept)) == [JobState.PENDING] * 4
    assert {one.job_id for one in await Hand(store).take(10)} == set(ids(kept))


def real(payload: JobPayload) -> Any:
    return typed(payload.spec.type, *payload.scopes(), queue="low")


async def test_every_job_that_names_a_base_is_stopped_with_it_by_whatever_field_it_does(
    store: Broker, inspector: Inspector
) -> None:
    move = KnowledgeMove(
        tenant_id=7, task_id="m", knowledge_ids=("x",), source_kb_id="kb", target_kb_id="other"
    )
    clone = KnowledgeBaseClone(tenant_id=7, task_id="c", source_id="kb", target_id="other")
    into = [
        clone.model_copy(update={"source_id": "other", "target_id": "kb"}),
        move.model_copy(update={"source_kb_id": "other", "target_kb_id": "kb"}),
    ]
    mine = [
        clone,
        move,
        *into,
        FAQImport(tenant_id=7, task_id="f", kb_id="kb"),
        KnowledgeBaseProfile(tenant_id=7, knowledge_base_id="kb"),
        KnowledgeListReparse(tenant_id=7, knowledge_ids=("elsewhere", "doc")),
    ]
    kept = [
        KnowledgeBaseDelete(tenant_id=7, knowledge_base_id="kb"),
        IndexDelete(tenant_id=7, knowledge_base_id="kb", embedding_model_id="", chunk_ids=("c",)),
        KnowledgeListReparse(tenant_id=7, knowledge_ids=("elsewhere",)),
        clone.model_copy(update={"source_id": "third"}),
    ]
    stopped, spared = [[real(one) for one in jobs] for jobs in (mine, kept)]
    await store.enqueue([*stopped, *spared])
    done = await inspector.cancel_knowledge_base("kb", ["doc"])
    assert await inspector.effects(done) == dict.fromkeys(ids(stopped), Effect.CANCELLED)
    assert await store.states(ids(spared)) == [JobState.PENDING] * len(kept)


async def test_what_runs_is_told_to_stop_and_said_to_be_what_it_became(
    store: Broker, inspector: Inspector, hand: Hand
) -> None:
    waiting, stops, completes, fails, hangs = jobs = news(5, scopes=(TENANT,))
    await store.enqueue(jobs[1:])
    taken = {one.job_id: one for one in await hand.take(4)}
    await store.enqueue([waiting])
    done = await inspector.cancel_scope("tenant", "7")
    assert set(done.signalled) == set(ids(jobs[1:]))

    async def end() -> None:
        await hand.settle(taken[stops.job.id], Cancel("told to"))
        await hand.settle(taken[completes.job.id])
        await hand.settle(taken[fails.job.id], Retry(after=60))

    effects, _ = await asyncio.gather(inspector.effects(done, within=0.5), end())
    assert effects == {
        waiting.job.id: Effect.CANCELLED,
        stops.job.id: Effect.CANCELLED,
        completes.job.id: Effect.TOO_LATE,
        fails.job.id: Effect.CANCELLED,
        hangs.job.id: Effect.SIGNALLED,
    }


async def test_each_job_of_an_action_is_said_to_have_what_it_had(
    store: Broker, inspector: Inspector, hand: Hand
) -> None:
    dead, done, running, pending = jobs = news(4, retention_ms=60_000)
    await store.enqueue([dead])
    await hand.run(Skip("no"))
    await store.enqueue([done])
    await hand.run()
    await store.enqueue([running])
    await hand.take_one()
    later = new(delay_ms=60_000)
    await store.enqueue([pending, later])
    asked = [*ids(jobs), later.job.id, "nobody"]
    assert list((await inspector.act(Action.CANCEL, asked[:3])).values()) == [
        Effect.TOO_LATE, Effect.TOO_LATE, Effect.SIGNALLED,
    ]  # fmt: skip
    assert list((await inspector.act(Action.RUN_NOW, asked)).values()) == [
        Effect.RUN, Effect.NOT_ALLOWED, Effect.NOT_ALLOWED, Effect.NOT_ALLOWED, Effect.RUN, Effect.NOT_FOUND,
    ]  # fmt: skip
    assert list((await inspector.act(Action.DELETE, asked)).values()) == [
        Effect.NOT_ALLOWED, Effect.DELETED, Effect.NOT_ALLOWED, Effect.NOT_ALLOWED, Effect.NOT_ALLOWED, Effect.NOT_FOUND,
    ]  # fmt: skip


async def test_a_bulk_action_takes_all_that_match_and_nothing_else(
    store: Broker, inspector: Inspector
) -> None:
    mine = news(250, scopes=(KB,))
    others = news(50, scopes=(OTHER_KB,))
    await store.enqueue([*mine, *others])
    done = await inspector.bulk(Action.CANCEL, "default", JobState.PENDING, TaskFilter(scope=KB))
    assert done.effects == dict.fromkeys(ids(mine), Effect.CANCELLED)
    assert done.next_cursor is None
    assert await store.states(ids(others)) == [JobState.PENDING] * 50


async def test_a_bulk_action_on_very_many_goes_on_where_it_stopped(
    store: Broker, inspector: Inspector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.inspector.AT_ONCE", 100)
    jobs = news(230)
    await store.enqueue(jobs)
    effects: dict[str, Effect] = {}
    cursor, rounds = None, 0
    while cursor is not None or not rounds:
        done = await inspector.bulk(Action.CANCEL, "default", JobState.PENDING, cursor=cursor)
        effects, cursor, rounds = effects | done.effects, done.next_cursor, rounds + 1
    assert effects == dict.fromkeys(ids(jobs), Effect.CANCELLED)
    assert rounds == 3


async def test_dead_jobs_of_one_error_are_run_again_together(
    store: Broker, inspector: Inspector, hand: Hand
) -> None:
    jobs = news(4)
    await store.enqueue(jobs)
    for number, delivery in enumerate(await hand.take(4)):
        await hand.settle(delivery, Skip("quota" if number % 2 else "no such file"))
    match = TaskFilter(error="quota")
    assert await inspector.count("default", JobState.ARCHIVED, match) == Count(2)
    done = await inspector.bulk(Action.RUN_NOW, "default", JobState.ARCHIVED, match)
    assert set(done.effects.values()) == {Effect.RUN}
    assert sum([await state(store, one) is JobState.PENDING for one in ids(jobs)]) == 2


@pytest.mark.parametrize(
    ("match", "number"),
    [
        (TaskFilter(), 9),
        (TaskFilter(type="test:other"), 3),
        (TaskFilter(scope=KB), 5),
        (TaskFilter(type="test:other", scope=KB), 2),
        (TaskFilter(scope=Scope("tenant", "nobody")), 0),
        (TaskFilter(error="x"), 0),
    ],
    ids=["all", "of a type", "of a scope", "of both", "of nobody", "with an error"],
)
@pytest.mark.parametrize("of", [JobState.PENDING, JobState.ACTIVE, JobState.SCHEDULED, JobState.CANCELLED])
async def test_what_matches_is_counted(
    store: Broker, inspector: Inspector, hand: Hand, of: JobState, match: TaskFilter, number: int
) -> None:
    delay = 60_000 if of is JobState.SCHEDULED else 0
    kinds = [("test:work", KB)] * 3 + [("test:work", OTHER_KB)] * 3
    kinds += [("test:other", KB)] * 2 + [("test:other", OTHER_KB)]
    jobs = [typed(kind, scope, delay_ms=delay) for kind, scope in kinds]
    await store.enqueue([*jobs, new(queue="chat_attachment", scopes=(KB,))])
    if of is JobState.ACTIVE:
        await hand.take(9)
    if of is JobState.CANCELLED:
        await store.cancel(ids(jobs))
    assert await inspector.count("default", of, match) == Count(number)
    listed = await inspector.tasks("default", of, page_size=100, match=match)
    assert len(listed.records) == number


async def test_a_document_is_stalled_unless_a_job_of_its_own_types_is_under_way(
    store: Broker, inspector: Inspector
) -> None:
    await store.enqueue([
        typed("document:process", Scope("knowledge", "a")),
        typed("knowledge:auto_tag", Scope("knowledge", "b")),
        typed("chunk:extract", Scope("knowledge", "c"), delay_ms=60_000),
    ])  # fmt: skip
    assert await inspector.stall_state("knowledge", ["a", "b", "c", "d"]) == {
        "a": "queued", "b": "stalled", "c": "queued", "d": "stalled",
    }  # fmt: skip


async def test_the_store_is_asked_once_for_all_who_ask_within_a_minute_and_a_failure_is_not_kept(
    store: Broker, backend: Backend, faults: Faults, inspector: Inspector
) -> None:
    await store.enqueue([typed("document:process", Scope("knowledge", "a"))])
    faults.lose(Loss.REQUEST, "queued_ids")
    assert await inspector.stall_state("knowledge", ["a"]) == {}
    answers = await asyncio.gather(*(inspector.stall_state("knowledge", ["a"]) for _ in range(20)))
    assert answers == [{"a": "queued"}] * 20
    faults.lose(Loss.REQUEST, "queued_ids")
    assert await inspector.stall_state("knowledge", ["a", "b"]) == {"a": "queued", "b": "stalled"}
    assert await inspector.stall_state("knowledge_base", ["a"]) == {}  # the loss was still there to be had


async def test_a_pool_is_as_large_as_the_workers_that_run_it(store: Broker) -> None:
    inspector = Inspector(store, {"core": 4}.get)  # type: ignore[arg-type]
    core, shared = {"default": 1, "chat_attachment": 3}, {"default": 3}
    for number, how in enumerate(("running", "running", "stopping")):
        pools = (PoolBeat("core", 4 + number, 2 + number, core), PoolBeat("shared", 6, 0, shared))
        beat = WorkerBeat(f"host:{number}:a", "host", number, now_ms(), how, pools)
        await store.heartbeat(beat, 60_000)
    found = {pool.name: pool for pool in await inspector.pools()}
    assert list(found) == list(POOLS)
    assert list(found)[:6] == ["core", "postprocess", "enrichment", "maintenance", "shared", "wiki"]
    assert found["core"] == PoolStat("core", 4, 2, 2, 9, 5, 5 / 9)
    assert (found["shared"].queue_count, found["shared"].cluster_capacity) == (7, 12)
    assert (found["wiki"].instances, found["wiki"].utilization) == (0, 0.0)
