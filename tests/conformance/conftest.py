"""Every promise runs on every backend, and where it matters with a lost request and with a lost reply."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import contracts.jobs
import pytest
from pipeline.broker import Broker
from pipeline.errors import StoreUnavailable
from pipeline.handlers import Handler
from pipeline.runtime import Pipeline

from tests.support.backends import BACKENDS, Backend
from tests.support.faults import Faults, Loss
from tests.support.hand import Hand
from tests.support.work import TYPES

T = TypeVar("T")
SHORT: Final = {"lease_s": 1.0, "grace_s": 0.5, "unknown_type_snooze_s": 0.1}
"""Settings under which what takes seconds takes less."""


@pytest.fixture(params=list(BACKENDS.values()), ids=list(BACKENDS))
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    found: Backend = request.param(tmp_path)
    try:
        yield found
    finally:
        await found.close()


@pytest.fixture
async def store(backend: Backend) -> Broker:
    return await backend.open()


@pytest.fixture
def faults(backend: Backend) -> Faults:
    return backend.faults


@pytest.fixture
def hand(store: Broker) -> Hand:
    return Hand(store)


class Insist(Protocol):
    """Call an operation of the port; where the test's loss hits it, call it again, as every caller must."""

    def __call__(self, operation: Callable[..., Awaitable[T]], *args: Any) -> Awaitable[T]: ...


@pytest.fixture(params=Loss)
def loss(request: pytest.FixtureRequest) -> Loss:
    """What the one operation that a test insists on loses at its first try."""
    found: Loss = request.param
    return found


@pytest.fixture
def insist(loss: Loss, faults: Faults) -> Insist:
    async def twice(operation: Callable[..., Awaitable[T]], *args: Any) -> T:
        if loss is Loss.NOTHING:
            return await operation(*args)
        faults.lose(loss, operation.__name__)
        with pytest.raises(StoreUnavailable):
            await operation(*args)
        return await operation(*args)

    return twice


@pytest.fixture
def known_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job types of `tests.support.work` are the only ones."""
    monkeypatch.setattr(contracts.jobs, "_REGISTRY", dict(TYPES))


class Open(Protocol):
    """Open a pipeline on the store, as a process of its own would, until the test ends."""

    def __call__(self, **settings: Any) -> Awaitable[Pipeline]: ...


@pytest.fixture
async def open_pipeline(backend: Backend, known_types: None) -> AsyncIterator[Open]:
    async with AsyncExitStack() as opened:

        async def one(**settings: Any) -> Pipeline:
            return await opened.enter_async_context(
                Pipeline.open(**{**backend.settings(), **SHORT, **settings})
            )

        yield one


class Start(Protocol):
    """Open a pipeline with workers that know these handlers only."""

    def __call__(
        self, *handlers: Handler, pools: Sequence[str] = ("core",), **settings: Any
    ) -> Awaitable[Pipeline]: ...


@pytest.fixture
async def start(open_pipeline: Open) -> AsyncIterator[Start]:
    async with AsyncExitStack() as working:

        async def one(*handlers: Handler, pools: Sequence[str] = ("core",), **settings: Any) -> Pipeline:
            pipeline = await open_pipeline(**settings)
            only = {handler.payload.spec.type for handler in handlers}
            crew = pipeline.workers(pools=pools, handlers=handlers, only=only)
            await working.enter_async_context(crew)
            return pipeline

        yield one
