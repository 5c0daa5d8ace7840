import contextlib
import json
from dataclasses import replace
from typing import Any

import pytest
from contracts.jobs import Job
from contracts.wire import MAX_ERROR_BYTES, PoisonError, UnknownVersionError, cut, decode, encode
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import jobs, json_values


@given(jobs)
def test_every_envelope_comes_back_as_it_went(job: Job) -> None:
    assert decode(encode(job), job.queue) == replace(job, enqueued_at=job.enqueued_at or job.root_at)


@given(jobs)
def test_an_envelope_is_a_flat_map_of_strings(job: Job) -> None:
    record = encode(job)
    assert set(record) == {"id", "type", "data", "opts"}
    assert all(isinstance(value, str) for value in record.values())


def test_what_is_as_usual_is_not_written_but_limits_always_are() -> None:
    assert json.loads(encode(Job(id="j", type="t", queue="default", data="{}"))["opts"]) == {
        "max_retry": 25,
        "timeout_ms": 0,
    }


def test_the_least_that_another_language_must_write_is_type_and_data() -> None:
    job = decode({"id": "j", "type": "t", "data": "{}"}, "default")
    assert job == Job(id="j", type="t", queue="default", data="{}")


def test_an_option_of_a_later_release_is_passed_over() -> None:
    assert decode({"id": "j", "type": "t", "data": "{}", "opts": '{"colour":"red"}'}, "default").id == "j"


@pytest.mark.parametrize("opts", [{"v": 2}, {"v": "1"}, {"codec": "zstd"}])
def test_an_unknown_version_is_refused_as_unknown_not_as_poison(opts: dict[str, object]) -> None:
    with pytest.raises(UnknownVersionError):
        decode({"id": "j", "type": "t", "data": "{}", "opts": json.dumps(opts)}, "default")


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({}, "'type' is missing"),
        ({"type": "t"}, "'data' is missing"),
        ({"type": "", "data": "{}"}, "'type' is empty"),
        ({"type": "t", "data": "{}", "opts": "{"}, "opts is not JSON"),
        ({"type": "t", "data": "{}", "opts": "[]"}, "not a JSON object"),
        ({"type": "t", "data": "{}", "opts": '{"retried":"two"}'}, "retried must be int"),
        ({"type": "t", "data": "{}", "opts": '{"retried":true}'}, "retried must be int"),
        ({"type": "t", "data": "{}", "opts": '{"scopes":[["knowledge"]]}'}, "cannot be read"),
        ({"type": "t", "data": "{}", "opts": '{"scopes":[["a b","c"]]}'}, "scope kind must be"),
        ({"type": "t", "data": "{}", "opts": '{"unique":["k",0,"ttl","drop"]}'}, "ttl must be"),
        ({"type": "t", "data": "{}", "opts": '{"unique":7}'}, "cannot be read"),
    ],
)
def test_what_can_never_be_understood_is_poison_and_says_why(record: dict[str, str], problem: str) -> None:
    with pytest.raises(PoisonError, match=problem):
        decode(record, "default")


@given(st.dictionaries(st.sampled_from(["id", "type", "data", "opts"]), st.text()))
def test_no_record_raises_anything_else(record: dict[str, str]) -> None:
    with contextlib.suppress(PoisonError, UnknownVersionError):
        assert isinstance(decode(record, "default"), Job)


KNOWN = [
    "v",
    "pv",
    "codec",
    "max_retry",
    "timeout_ms",
    "deadline",
    "scopes",
    "unique",
    "trace",
    "root_at",
    "died",
]


@given(st.dictionaries(st.sampled_from(KNOWN), json_values))
def test_no_options_raise_anything_else(opts: dict[str, Any]) -> None:
    try:
        job = decode({"id": "j", "type": "t", "data": "{}", "opts": json.dumps(opts)}, "default")
    except (PoisonError, UnknownVersionError):
        return
    assert decode(encode(job), "default") == job  # what was read can be written again


@given(st.text(), st.integers(20, 200))
def test_a_cut_text_fits_and_keeps_its_beginning(text: str, limit: int) -> None:
    short = cut(text, limit)
    assert len(short.encode()) <= limit
    if short != text.replace("\x00", "\N{REPLACEMENT CHARACTER}"):
        assert short.endswith("...(truncated)")
        assert text.startswith(short.removesuffix("...(truncated)").split("\N{REPLACEMENT CHARACTER}")[0])


@pytest.mark.parametrize("text", ["\x00", "\ud800", "a" * 10_000_000, "€" * 5000])
def test_an_error_text_of_any_kind_becomes_storable(text: str) -> None:
    assert len(cut(text).encode()) <= MAX_ERROR_BYTES
    assert "\x00" not in cut(text)
