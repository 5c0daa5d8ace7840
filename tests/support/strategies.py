"""Hypothesis strategies for what is said: names, scopes, envelopes, payloads of any type."""

import typing
from typing import Any, get_type_hints

from contracts.jobs import Job, JobPayload, Scope, Unique
from hypothesis import strategies as st

names = st.from_regex(r"[A-Za-z0-9._:-]{1,128}", fullmatch=True)
text = st.text(max_size=60)  # any Unicode but surrogates, which UTF-8 has no place for
counts = st.integers(0, 2**31)
times = st.integers(0, 2**53)
scopes = st.builds(Scope, names, names)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
uniques = st.builds(
    Unique,
    names,
    st.floats(0.001, 1e9),
    st.sampled_from(["done", "started", "ttl"]),
    st.sampled_from(["drop", "replace", "debounce"]),
)
jobs = st.builds(
    Job,
    id=names,
    type=names,
    queue=st.just("default"),
    data=st.text(max_size=200),
    max_retry=counts,
    timeout_ms=counts,
    deadline=st.none() | times,
    retention_ms=times,
    payload_version=counts,
    codec=st.just("json"),
    scopes=st.lists(scopes, max_size=4).map(tuple),
    unique=st.none() | uniques,
    root_id=names,
    root_at=times,
    parent_id=st.just("") | names,
    trace=text,
    enqueued_at=times,
    retried=counts,
    crashes=counts,
    crashed_at=times,
    unknown_since=times,
    away_since=times,
    died=counts,
    last_error=text,
    last_failed_at=times,
)


def payloads(kind: type[JobPayload]) -> st.SearchStrategy[JobPayload]:
    """Every legal payload of a type, with and without each of its optional fields."""
    hints = get_type_hints(kind)
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for name, field in kind.model_fields.items():
        (required if field.is_required() else optional)[name] = _of(hints[name])
    return st.fixed_dictionaries(required, optional=optional).map(kind.model_validate)


def _of(hint: Any) -> st.SearchStrategy[Any]:
    if hint is Any:
        return json_values
    arguments = typing.get_args(hint)
    if Any not in _leaves(hint):
        return st.from_type(hint)
    if typing.get_origin(hint) is dict:
        return st.dictionaries(_of(arguments[0]), _of(arguments[1]), max_size=3)
    if typing.get_origin(hint) is tuple:
        return st.lists(_of(arguments[0]), max_size=3).map(tuple)
    return st.one_of(*(_of(one) for one in arguments))


def _leaves(hint: Any) -> set[Any]:
    arguments = typing.get_args(hint)
    return {hint}.union(*(_leaves(one) for one in arguments)) if arguments else {hint}
