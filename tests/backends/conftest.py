"""A queue file, opened as often as there would be processes, and the store's clock; and a Redis."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from pipeline.backends.lite import transaction
from pipeline.backends.lite.broker import LiteBroker
from pipeline.backends.redis.broker import RedisBroker
from pipeline.clock import now_ms
from pipeline.config import load

from tests.support.hand import Hand


class Open(Protocol):
    """Open the queue file, as another process would, until the test ends."""

    def __call__(self, **options: Any) -> LiteBroker: ...


class Clock:
    """The clock that the store reads, set by a test."""

    def __init__(self) -> None:
        self.shift = 0
        self.stopped_at = 0

    def __call__(self) -> int:
        return self.stopped_at or now_ms() + self.shift


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.db"


@pytest.fixture
async def opened(path: Path) -> AsyncIterator[Open]:
    brokers: list[LiteBroker] = []

    def again(**options: Any) -> LiteBroker:
        brokers.append(LiteBroker.open(path, **options))
        return brokers[-1]

    yield again
    for broker in brokers:
        await broker.close()


@pytest.fixture
def broker(opened: Open) -> LiteBroker:
    return opened()


@pytest.fixture
def hand(broker: LiteBroker) -> Hand:
    return Hand(broker)


@pytest.fixture
async def store(redis_url: str) -> AsyncIterator[RedisBroker]:
    """Redis, in the namespace that is the default."""
    opened = await RedisBroker.open(load(redis_url=redis_url))
    yield opened
    await opened.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    store_clock = Clock()
    monkeypatch.setattr(transaction, "now_ms", store_clock)
    return store_clock
