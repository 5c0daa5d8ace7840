"""What runs for a job type, said in tables that are checked before anything starts."""

from typing import Any

import pytest
from contracts.jobs import JobPayload
from pipeline.errors import ConfigurationError
from pipeline.handlers import HandlerTable, on
from pipeline.testing import Scripted
from pipeline.worker.invoke import place

from tests.support.work import apart

with apart() as KNOWN:

    class Scale(JobPayload, type="picture:scale", queue="default"):
        """Known in the queues of core."""

    class Turn(JobPayload, type="picture:turn", queue="chat_attachment"):
        """Known in the queues of core."""


@pytest.fixture(autouse=True)
def only_these_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contracts.jobs._REGISTRY", KNOWN)


def test_a_model_that_is_no_job_type_is_refused() -> None:
    class Plain(JobPayload):
        """Without a type."""

    with pytest.raises(ConfigurationError, match="Plain is no job type: give a JobPayload class with type=…"):
        on(Plain, Scripted())


@pytest.mark.parametrize("offload", ["thread", "proces", True])
def test_a_place_that_is_none_is_refused_with_the_one_there_is(offload: Any) -> None:
    with pytest.raises(ConfigurationError, match=r'picture:scale: offload must be "process", or left out'):
        on(Scale, function, offload=offload)


@pytest.mark.parametrize(
    ("payload", "run", "message"),
    [
        ("picture:scale", Scripted(), "'picture:scale' is no job type: give a JobPayload class"),
        (dict, Scripted(), "dict is no job type"),
        (Scale, None, "picture:scale: None is no handler: give a function"),
    ],
)
def test_what_is_no_pair_of_type_and_function_is_refused(payload: Any, run: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        on(payload, run)


def test_a_function_without_its_type_is_no_handler() -> None:
    with pytest.raises(
        ConfigurationError, match=r"coroutine says no job type: give on\(Payload, coroutine\)"
    ):
        HandlerTable([coroutine])  # type: ignore[list-item]


def test_two_handlers_for_one_type_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="two handlers for job type 'picture:scale'"):
        HandlerTable([on(Scale, Scripted()), on(Scale, Scripted())])


def test_a_worker_must_handle_every_known_type_of_its_queues() -> None:
    table = HandlerTable([on(Scale, Scripted())])
    with pytest.raises(ConfigurationError, match=r"reads queue 'chat_attachment'.*'picture:turn'"):
        table.require(["core"])
    table.require(["core"], awaiting=frozenset({"picture:turn"}))
    table.require(["wiki"])
    HandlerTable([on(Scale, Scripted()), on(Turn, Scripted())]).require(["core"])


def test_the_shared_pool_borrows_the_duty_with_the_queue() -> None:
    with pytest.raises(ConfigurationError, match="pool 'shared'"):
        HandlerTable([]).require(["shared"])


def test_a_table_can_be_asked_by_type() -> None:
    scale = on(Scale, Scripted())
    table = HandlerTable([scale])
    assert table.get("picture:scale") is scale
    assert table.get("picture:turn") is None
    assert table.types() == {"picture:scale": scale}


async def coroutine(_job: Any, _ctx: Any) -> None: ...


def function(_job: Any, _ctx: Any) -> None: ...


def test_a_coroutine_runs_in_the_loop_and_a_function_in_a_thread_or_a_child_process() -> None:
    assert place(on(Scale, coroutine)) == "loop"
    assert place(on(Scale, Scripted())) == "loop"
    assert place(on(Scale, function)) == "thread"
    assert place(on(Scale, function, offload="process")) == "process"
    with pytest.raises(
        ConfigurationError, match="picture:scale: only a plain def can run in a child process"
    ):
        place(on(Scale, coroutine, offload="process"))
