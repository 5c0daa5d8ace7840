"""What a person may do to a job, from its state, its type and what it names."""

import json
from typing import Any

import contracts.payloads  # noqa: F401 - registers them
import pytest
from contracts.fences import COVERAGE
from contracts.jobs import Job, payload_types
from contracts.states import TRANSITIONS, JobState
from pipeline.actions import BY_SCOPE, DOCUMENT_TYPES, Action, allowed
from pipeline.records import JobRecord

CANCEL, RUN_NOW, DELETE = Action
FULL = {"tenant_id": 7, "knowledge_id": "doc"}


def record(state: JobState, job_type: str = "document:process", data: Any = FULL) -> JobRecord:
    text = data if isinstance(data, str) else json.dumps(data)
    return JobRecord(Job(id="1", type=job_type, queue="default", data=text), state)


@pytest.mark.parametrize(
    ("state", "actions"),
    [
        (JobState.PENDING, (CANCEL,)),
        (JobState.ACTIVE, (CANCEL,)),
        (JobState.SCHEDULED, (CANCEL, RUN_NOW)),
        (JobState.RETRY, (CANCEL, RUN_NOW)),
        (JobState.ARCHIVED, (RUN_NOW, DELETE)),
        (JobState.COMPLETED, (DELETE,)),
        (JobState.CANCELLED, (DELETE,)),
    ],
)
def test_a_job_of_a_document_may_be_treated_as_its_state_allows(
    state: JobState, actions: tuple[Action, ...]
) -> None:
    assert allowed(record(state)) == actions


@pytest.mark.parametrize("state", JobState)
@pytest.mark.parametrize("job_type", ["kb:delete", "index:delete", "knowledge:auto_tag", "wiki:ingest"])
def test_a_job_of_the_platform_for_which_no_document_waits_is_not_cancelled_by_itself(
    state: JobState, job_type: str
) -> None:
    assert set(allowed(record(state, job_type))) == set(allowed(record(state))) - {CANCEL}


@pytest.mark.parametrize("state", JobState)
@pytest.mark.parametrize("job_type", ["email:invite", "image:resize", ""])
def test_a_job_of_another_type_is_cancelled_as_its_state_allows(state: JobState, job_type: str) -> None:
    assert allowed(record(state, job_type, {})) == allowed(record(state))


def test_the_types_of_the_platform_are_those_that_it_names() -> None:
    assert len(BY_SCOPE | DOCUMENT_TYPES) == 22
    assert set(payload_types()) >= BY_SCOPE | DOCUMENT_TYPES


@pytest.mark.parametrize("job_type", sorted(COVERAGE["knowledge"].only or ()))
def test_all_types_of_a_document_may_be_cancelled(job_type: str) -> None:
    assert CANCEL in allowed(record(JobState.PENDING, job_type))


@pytest.mark.parametrize(
    "data",
    [{}, {"tenant_id": 7}, {"knowledge_id": "doc"}, FULL | {"tenant_id": 0}, FULL | {"tenant_id": "7"},
     FULL | {"tenant_id": True}, FULL | {"knowledge_id": ""}, FULL | {"knowledge_id": 7}, [FULL], "not JSON", ""],
    ids=repr,
)  # fmt: skip
def test_a_job_that_does_not_say_whose_document_it_is_about_cannot_be_cancelled(data: Any) -> None:
    assert allowed(record(JobState.PENDING, data=data)) == ()


@pytest.mark.parametrize("state", JobState)
def test_nothing_is_allowed_that_no_transition_makes(state: JobState) -> None:
    verbs = {one.by for one in TRANSITIONS if one.source is state}
    if state is JobState.ACTIVE:
        verbs.add("cancel")  # it is told to stop, and its settlement makes the transition
    assert {str(action) for action in allowed(record(state))} <= verbs
