"""Seeing and steering by names."""

from typing import Any

import pytest
from contracts.jobs import Scope
from contracts.payloads.documents import KnowledgePostProcess
from contracts.states import JobState
from contracts.topology import QUEUES, UnknownNameError
from pipeline.client import Enqueue
from pipeline.errors import ConfigurationError, JobNotFound
from pipeline.inspector import LONGEST_PAGE, PAGE
from pipeline.runtime import Pipeline

from tests.support.jobs import Work
from tests.support.work import Work as Scoped


async def test_every_queue_has_a_row_in_the_order_of_the_registry(pipeline: Pipeline) -> None:
    await pipeline.enqueue(Work())
    stats = await pipeline.inspector.queues()
    assert [stat.name for stat in stats] == list(QUEUES)
    assert {stat.name: stat.size for stat in stats if stat.size} == {"default": 1}


@pytest.mark.parametrize(
    ("asked", "given"), [(PAGE, PAGE), (1, 1), (1000, LONGEST_PAGE)], ids=lambda size: f"{size}"
)
async def test_a_page_has_at_most_a_hundred_jobs(pipeline: Pipeline, asked: int, given: int) -> None:
    await pipeline.enqueue_many([Work(n=n) for n in range(120)])
    page = await pipeline.inspector.tasks("default", JobState.PENDING, page_size=asked)
    assert len(page.records) == given
    assert page.next_cursor is not None


@pytest.mark.parametrize("size", [0, -5, 1.5, "20", None])
async def test_a_page_has_at_least_one_job(pipeline: Pipeline, size: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"page_size must be (1 or more|a whole number), got"):
        await pipeline.inspector.tasks("default", JobState.PENDING, page_size=size)


async def test_a_name_that_is_not_known_is_refused_naming_the_nearest(pipeline: Pipeline) -> None:
    inspector = pipeline.inspector
    for verb in (inspector.pause, inspector.resume, inspector.purge):
        with pytest.raises(UnknownNameError, match="did you mean 'default'"):
            await verb("defalt")
    with pytest.raises(UnknownNameError, match="did you mean 'default'"):
        await inspector.tasks("defalt", JobState.PENDING)
    with pytest.raises(ValueError, match="'pendng' is not a valid JobState"):
        await inspector.tasks("default", "pendng")  # type: ignore[arg-type]


async def test_a_job_that_is_not_there_is_said_to_be_so(pipeline: Pipeline) -> None:
    for verb in (pipeline.inspector.job, pipeline.inspector.run_now, pipeline.inspector.delete):
        with pytest.raises(JobNotFound, match="nothing"):
            await verb("nothing")
    assert str(await pipeline.inspector.cancel("nothing")) == "not_found"


async def test_a_scope_is_cancelled_by_its_kind_and_id(pipeline: Pipeline) -> None:
    receipt, other = await pipeline.enqueue_many(
        [Enqueue(Scoped(knowledge_id="k1"), id="one"), Enqueue(Scoped(knowledge_id="k2"), id="two")]
    )
    assert await pipeline.inspector.queued_ids("knowledge") == {"k1", "k2"}
    assert await pipeline.inspector.has_queued("knowledge", "k1")
    done = await pipeline.inspector.cancel_scope("knowledge", "k1", types=["test:work"])
    assert done.cancelled == ()  # what a cancel of a document covers is fixed, and this type is not among it
    tenant = await pipeline.inspector.cancel_scope("tenant", "7")
    assert tenant.cancelled == ()
    assert str(await pipeline.inspector.cancel(receipt.id)) == "cancelled"
    assert not await pipeline.inspector.has_queued("knowledge", "k1")
    assert (await pipeline.inspector.job(other.id)).state is JobState.PENDING


class Unsent:
    """What an outbox still holds: one job of document k2."""

    async def has_queued(self, scope: Scope, types: frozenset[str] | None = None) -> bool:
        return scope == Scope("knowledge", "k2")

    async def queued_ids(self, kind: str, types: frozenset[str] | None = None) -> set[str]:
        return {"k2"} if kind == "knowledge" else set()

    async def waiting(self) -> tuple[int, int]:
        return 1, 0


async def test_what_was_not_sent_yet_is_queued_and_not_stalled(pipeline: Pipeline) -> None:
    await pipeline.enqueue(KnowledgePostProcess(tenant_id=1, knowledge_base_id="b", knowledge_id="k1"))
    see = pipeline.inspector
    see.unsent = Unsent()
    assert [await see.has_queued("knowledge", one) for one in ("k1", "k2", "k3")] == [True, True, False]
    assert await see.queued_ids("knowledge") == {"k1", "k2"}
    said = await see.stall_state("knowledge", ["k1", "k2", "k3"])
    assert said == {"k1": "queued", "k2": "queued", "k3": "stalled"}
