"""A worker whose clock is ahead of the server's: what counts is the server's."""

from types import SimpleNamespace

import pytest
from pipeline import clock
from pipeline.backends.redis.broker import RedisBroker
from pipeline.clock import now_ms
from pipeline.handlers import Context

from tests.support.hand import Hand, envelope, new, reclaimed
from tests.support.redis_workers import done, working
from tests.support.work import Work

HOUR_MS = 3_600_000


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> int:
    """Set the clock of this process an hour ahead; return what the server's says now."""
    now = now_ms()
    monkeypatch.setattr(clock, "time", SimpleNamespace(time_ns=lambda: (now + HOUR_MS) * 1_000_000))
    return now


async def test_a_job_whose_deadline_is_not_over_there_is_tried_again(redis_url: str, ahead: int) -> None:
    attempts = list[int]()

    async def handle(_job: Work, ctx: Context) -> None:
        attempts.append(ctx.retried)
        if not ctx.retried:
            raise RuntimeError("no")

    async with working(redis_url, handle) as (pipeline, _):
        await done(pipeline, Work(), deadline=ahead + 60_000, retention=60)
    assert attempts == [0, 1]


async def test_a_worker_is_lost_when_the_server_says_so(store: RedisBroker, ahead: int) -> None:
    await store.enqueue([new()])
    await Hand(store).take_one()
    await reclaimed(store)
    crashed_at = envelope(await Hand(store).take_one()).crashed_at
    assert 0 <= crashed_at - ahead < 60_000
