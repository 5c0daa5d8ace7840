"""How a coverage is kept in rows, and how a fence holds while a cancel is under way."""

from functools import partial

import pytest
from contracts.fences import EVERYTHING, Coverage
from contracts.jobs import Scope
from contracts.states import JobState
from pipeline.backends.lite import cancelling
from pipeline.backends.lite.broker import LiteBroker
from pipeline.backends.lite.claiming import Turns, claim
from pipeline.backends.lite.fences import covers, encode
from pipeline.backends.lite.operations import Operation
from pipeline.backends.lite.writer import Writer

from tests.support.hand import Hand, ids, news

TYPES = ["document:process", "kb:delete", "index:delete", "x"]


@pytest.mark.parametrize(
    "coverage",
    [
        EVERYTHING,
        Coverage(only=frozenset({"x"})),
        Coverage(only=frozenset({"x", "kb:delete"})),
        Coverage(only=frozenset()),
        Coverage(excluding=frozenset({"kb:delete"})),
        Coverage(excluding=frozenset({"kb:delete", "index:delete"})),
    ],
    ids=["everything", "one", "two", "none", "all but one", "all but two"],
)
def test_rows_cover_what_the_coverage_covers(coverage: Coverage) -> None:
    rows = encode(coverage)
    assert [t for t in TYPES if any(covers(row, t) for row in rows)] == [
        t for t in TYPES if coverage.covers(t)
    ]


def test_equal_coverages_are_equal_rows_so_that_they_merge() -> None:
    assert encode(Coverage(excluding=frozenset({"b", "a"}))) == encode(
        Coverage(excluding=frozenset({"a", "b"}))
    )


async def test_a_cancel_of_very_many_jobs_stops_all_and_holds_from_its_first_part(
    broker: LiteBroker, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancelling, "AT_ONCE", 10)
    scope = Scope("tenant", "7")
    jobs = news(35, scopes=(scope,))
    await broker.enqueue(jobs)
    (running,) = await hand.take(1)
    parts = 0

    async def claims_between_parts(operation: Operation[object]) -> object:
        nonlocal parts
        parts += 1
        result = await Writer.submit(broker.writer, operation)
        assert (
            await Writer.submit(
                broker.writer, partial(claim, consumer="other", wants=[("default", 3)], turns=Turns())
            )
            == []
        )
        return result

    monkeypatch.setattr(broker.writer, "submit", claims_between_parts)
    done = await broker.cancel_scope(scope, EVERYTHING)
    assert parts > 1
    assert done.signalled == (running.job_id,)
    states = await broker.states(ids(jobs))
    assert states == [JobState.ACTIVE] + [JobState.CANCELLED] * 34


async def test_a_fence_that_the_sweep_has_not_come_to_yet_is_named(broker: LiteBroker) -> None:
    scope = Scope("knowledge_base", "kb")
    (job,) = news(1, scopes=(Scope("tenant", "7"), scope))
    await broker.enqueue([job])
    await broker.writer.submit(
        lambda transaction: transaction.run(
            "raise_fence", kind=scope.kind, id=scope.id, covers="*kb:delete", cut=2**60, now=transaction.now
        )
    )
    assert (await broker.obstacles("default", job.job.id)).fence == scope
