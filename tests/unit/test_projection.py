"""What others may see of a job."""

import json
from typing import Any

import pytest
from contracts.jobs import Job, payload_types
from contracts.states import ArchiveReason, JobState
from hypothesis import given
from hypothesis import strategies as st
from pipeline.projection import task_info
from pipeline.reasons import Reason, Why
from pipeline.records import JobRecord

MAY_BE_SEEN = {
    "id", "queue", "type", "state", "allowed_actions", "last_error", "last_failed_at", "next_process_at", "started_at",
    "completed_at", "deadline", "enqueued_at", "retried", "max_retry", "is_orphaned", "worker", "tenant_id",
    "knowledge_base_id", "knowledge_id", "task_id", "source_id", "target_id", "source_kb_id", "target_kb_id",
    "data_source_id", "sync_log_id", "knowledge_count", "reason", "why",
}  # fmt: skip


def record(state: JobState = JobState.PENDING, data: Any = "", **fields: Any) -> JobRecord:
    job = {"id": "1", "type": "document:process", "queue": "default", "max_retry": 3, "enqueued_at": 5}
    mine = {name: fields.pop(name) for name in list(fields) if name in Job.__dataclass_fields__}
    text = data if isinstance(data, str) else json.dumps(data)
    return JobRecord(Job(**{**job, "data": text, **mine}), state, **fields)


def test_a_waiting_job_is_told_in_few_words() -> None:
    data = {"tenant_id": 7, "knowledge_id": "doc", "kb_id": "kb", "content": "secret", "api_key": "secret"}
    assert task_info(record(data=data), [Reason(Why.PAUSED, {"queue": "default"})]) == {
        "id": "1",
        "queue": "default",
        "type": "document:process",
        "state": "pending",
        "allowed_actions": ["cancel"],
        "retried": 0,
        "max_retry": 3,
        "enqueued_at": 5,
        "tenant_id": 7,
        "knowledge_id": "doc",
        "knowledge_base_id": "kb",
        "why": ["paused"],
    }


def test_each_time_is_told_in_the_state_that_it_belongs_to() -> None:
    times = {"due_at": 10, "claimed_at": 20, "ended_at": 30}
    assert task_info(record(JobState.RETRY, **times))["next_process_at"] == 10
    done = task_info(record(JobState.COMPLETED, **times))
    assert (done["started_at"], done["completed_at"]) == (20, 30)
    assert "next_process_at" not in done
    dead = record(JobState.ARCHIVED, reason=ArchiveReason.SKIP, last_error="no", last_failed_at=30, **times)
    told = task_info(dead)
    assert (told["reason"], told["last_error"], told["last_failed_at"]) == ("skip", "no", 30)
    assert "completed_at" not in told


def test_a_worker_is_named_by_host_and_process_and_its_job_orphaned_when_it_is_gone() -> None:
    running = record(JobState.ACTIVE, consumer="box:12:ab/core")
    assert task_info(running)["worker"] == "box:12"
    assert "is_orphaned" not in task_info(running)
    assert "is_orphaned" not in task_info(running, living=["box:12:ab"])
    assert task_info(running, living=["box:12:cd"])["is_orphaned"] is True


def test_of_many_documents_only_their_number_is_told() -> None:
    told = task_info(record(data={"knowledge_ids": ["a", "b", "c"]}))
    assert told["knowledge_count"] == 3
    assert "knowledge_ids" not in told


@pytest.mark.parametrize("data", ["", "not JSON", "[1]", "null", '"x"', "{"])
def test_a_payload_that_cannot_be_read_tells_nothing(data: str) -> None:
    assert set(task_info(record(data=data))) <= MAY_BE_SEEN - {"tenant_id", "knowledge_id"}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=200),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)
FIELDS = sorted({name for payload in payload_types().values() for name in payload.model_fields} | MAY_BE_SEEN)


@given(
    st.dictionaries(st.sampled_from([*FIELDS, "secret"]), ANYTHING, max_size=12), st.sampled_from(JobState)
)
def test_nothing_but_short_names_of_the_list_ever_leaves_a_payload(
    data: dict[str, Any], state: JobState
) -> None:
    told = task_info(record(state, data=data))
    assert set(told) <= MAY_BE_SEEN
    for name, value in told.items():
        assert not isinstance(value, dict)
        assert name == "allowed_actions" or not isinstance(value, list)
        assert not isinstance(value, str) or len(value) <= 128
    assert json.loads(json.dumps(told)) == told
