import pytest
from contracts.identity import NAME
from contracts.jobs import JobPayload, payload_types
from contracts.payloads import AWAITING_HANDLER
from contracts.topology import QUEUES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.support.strategies import payloads

PLATFORM = {n: t for n, t in payload_types().items() if t.__module__.startswith("contracts.payloads.")}

# type: queue, retries, timeout in seconds. The 22 of the platform we implement, then ours.
LIMITS = {
    "document:process": ("default", 3, 7200),
    "manual:process": ("default", 3, 1800),
    "temporary_document:process": ("chat_attachment", 2, 600),
    "knowledge:post_process": ("postprocess", 3, 1800),
    "knowledge:auto_tag": ("summary", 2, 120),
    "summary:generation": ("summary", 3, 1800),
    "datatable:summary": ("summary", 3, 1800),
    "kb:profile": ("summary", 2, 300),
    "image:multimodal": ("multimodal", 3, 1800),
    "chunk:extract": ("graph", 3, 1800),
    "question:generation": ("question", 3, 1800),
    "memory:extract": ("memory", 2, None),
    "datasource:sync": ("sync", 5, 7200),
    "faq:import": ("low", 5, 7200),
    "kb:clone": ("low", 3, 7200),
    "kb:delete": ("low", 3, 7200),
    "index:delete": ("low", 10, 3600),
    "knowledge:list_delete": ("low", 3, 7200),
    "knowledge:list_reparse": ("low", 3, 3600),
    "knowledge:move": ("low", 3, 7200),
    "wiki:ingest": ("wiki", 10, 3600),
    "wiki:finalize": ("wiki", 10, 1800),
}
OURS = {
    "email:invite": "email",
    "email:reset": "email",
    "email:campaign": "email_bulk",
    "email:campaign_batch": "email_bulk",
    "notify:email": "notify",
    "notify:webhook": "notify",
    "bot:slack": "bot_slack",
    "bot:telegram": "bot_telegram",
    "bot:mattermost": "bot_mattermost",
    "agent:run": "agent",
    "ks:reembed": "ks",
    "ks:restore": "ks",
    "ks:curate": "ks",
    "ks:backup": "ks",
}

each_type = pytest.mark.parametrize("kind", PLATFORM.values(), ids=PLATFORM.keys())


def test_the_job_types_are_the_22_of_the_platform_and_ours() -> None:
    assert set(PLATFORM) == set(LIMITS) | set(OURS)


@pytest.mark.parametrize("name", LIMITS)
def test_a_type_has_the_queue_and_the_limits_of_the_platform(name: str) -> None:
    spec = PLATFORM[name].spec
    assert (spec.queue, spec.max_retry, spec.timeout) == LIMITS[name]


@pytest.mark.parametrize("name", OURS)
def test_a_type_of_ours_has_its_queue_and_a_timeout(name: str) -> None:
    assert PLATFORM[name].spec.queue == OURS[name]
    assert PLATFORM[name].spec.timeout


@each_type
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_payload_comes_back_as_it_went(kind: type[JobPayload], data: st.DataObject) -> None:
    payload = data.draw(payloads(kind))
    assert kind.decode(payload.encode()) == payload


@each_type
def test_a_type_explains_itself_and_lives_in_a_known_queue(kind: type[JobPayload]) -> None:
    assert kind.__doc__
    assert kind.spec.queue in QUEUES
    assert NAME.fullmatch(kind.spec.type)


@each_type
def test_a_payload_with_a_field_nobody_knows_is_refused(kind: type[JobPayload]) -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        kind.decode('{"nobody_knows": 1}')


@each_type
def test_an_empty_payload_is_refused_where_something_is_required(kind: type[JobPayload]) -> None:
    assert any(field.is_required() for field in kind.model_fields.values())
    with pytest.raises(ValidationError, match="required"):
        kind.decode("{}")


def test_what_waits_for_a_handler_exists() -> None:
    assert set(PLATFORM) >= AWAITING_HANDLER


def test_a_sync_says_which_of_six_modes_and_what_is_selected() -> None:
    sync = PLATFORM["datasource:sync"]
    assert {"mode", "selection"} <= set(sync.model_fields)
    modes = ["full", "incremental", "partial-resync", "dlq-retry", "reconcile", "health"]
    made = [
        sync.model_validate({"data_source_id": "d", "tenant_id": 1, "sync_log_id": "s", "mode": mode})
        for mode in modes
    ]
    assert [one.model_dump(mode="json")["mode"] for one in made] == modes
