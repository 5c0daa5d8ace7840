"""Payloads, their options, and the envelope that carries them.

A payload is a frozen pydantic model whose class *is* the job type:

    class Resize(JobPayload, type="image:resize", queue="default", max_retry=3, timeout=60):
        tenant_id: int
        image_id: str
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Final, Literal, Self, TypeAlias, TypedDict, Unpack, get_args

from pydantic import BaseModel, ConfigDict
from pydantic_core import from_json

from contracts.identity import check_name
from contracts.options import CHECKS, SHORTEST_S, check_choice, check_seconds

__all__ = [
    "Job",
    "JobPayload",
    "JobSpec",
    "Scope",
    "Unique",
    "payload_type",
    "payload_types",
    "types_of",
]

DEFAULT_MAX_RETRY: Final = 25
"""Attempts after the first one, unless the type says otherwise (asynq 0.26)."""

Until: TypeAlias = Literal["done", "started", "ttl"]
OnConflict: TypeAlias = Literal["drop", "replace", "debounce"]


@dataclass(frozen=True, slots=True)
class Scope:
    """What a job belongs to: tenant, knowledge_base, knowledge, data_source, session …"""

    kind: str
    id: str

    def __post_init__(self) -> None:
        check_name(self.kind, "scope kind")
        check_name(self.id, f"{self.kind} scope id")

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"


@dataclass(frozen=True, slots=True)
class Unique:
    """At most one job of a type per `key`.

    `until` says when the lock ends: with the job (`done`), when its first attempt starts (`started`),
    or after `ttl` seconds (`ttl`, the only mode that reads `ttl`). `on_conflict` says what happens to a
    newcomer: it is dropped, it replaces the waiting one, or it moves the waiting one's due time (debounce);
    while the older one runs, replace and debounce note one re-run.

    Raises TypeError, ValueError naming the option that cannot be.
    """

    key: str
    ttl: float = 0
    until: Until = "done"
    on_conflict: OnConflict = "drop"

    def __post_init__(self) -> None:
        check_name(self.key, "unique key")
        check_choice(self.until, "until", choices=get_args(Until))
        check_choice(self.on_conflict, "on_conflict", choices=get_args(OnConflict))
        check_seconds(self.ttl, "ttl", least=SHORTEST_S if self.until == "ttl" else 0)


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What a job type says of itself. Times in seconds; a timeout of None means the backend's default."""

    type: str
    queue: str
    max_retry: int = DEFAULT_MAX_RETRY
    timeout: float | None = None
    retention: float = 0
    version: int = 1


class JobOptions(TypedDict, total=False):
    """Class keywords of a payload."""

    type: str
    queue: str
    max_retry: int
    timeout: float | None
    retention: float
    version: int


_REGISTRY: dict[str, type["JobPayload"]] = {}

SCOPE_FIELDS: Final[Mapping[str, str]] = {
    "tenant_id": "tenant",
    "knowledge_base_id": "knowledge_base",
    "kb_id": "knowledge_base",
    "source_kb_id": "knowledge_base",
    "target_kb_id": "knowledge_base",
    "knowledge_id": "knowledge",
    "knowledge_ids": "knowledge",
    "data_source_id": "data_source",
    "data_source_ids": "data_source",
    "session_id": "session",
    "campaign_id": "campaign",
    "task_id": "task",
}
"""Payload fields that name a scope, whatever the type (facts 3.2)."""


class JobPayload(BaseModel):
    """What a job is about. The docstring of a subclass describes the job type to people and to AsyncAPI."""

    # Written as what no JSON has, so that it is noticed: by default it would silently become null.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    spec: ClassVar[JobSpec]
    scope_fields: ClassVar[Mapping[str, str]] = {}
    """Fields of this type alone that name a scope, beside `SCOPE_FIELDS`."""

    def __init_subclass__(cls, **options: Unpack[JobOptions]) -> None:
        super().__init_subclass__()
        unknown = sorted(set(options) - set(JobOptions.__annotations__))
        if unknown:
            near = difflib.get_close_matches(unknown[0], JobOptions.__annotations__, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"{cls.__name__}: unknown job option {unknown[0]!r}{hint}")
        if not options:
            return
        if "type" not in options or "queue" not in options:
            raise TypeError(f"{cls.__name__}: a job type needs type=… and queue=…")
        try:
            for option, value in options.items():
                if (option, value) != ("timeout", None):
                    CHECKS[option](value, option)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{cls.__name__}: {error}") from None
        name = options["type"]
        known = _REGISTRY.get(name)
        if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"job type {name!r} is already {known.__module__}.{known.__qualname__}")
        cls.spec = JobSpec(**options)
        _REGISTRY[name] = cls

    def scopes(self) -> tuple[Scope, ...]:
        """Return what this job belongs to, read from its fields; empty ids belong to nothing."""
        found: dict[Scope, None] = {}
        for field, kind in _scope_fields(type(self)):
            value = getattr(self, field)
            for one in value if isinstance(value, tuple | list) else (value,):
                if one is not None and one != "":
                    found[Scope(kind, str(one))] = None
        return tuple(found)

    def encode(self) -> str:
        """Return the payload as JSON, without what is unset.

        Raises ValueError: it holds what JSON has no place for, such as half a character, an infinite number or nan.
        """
        try:
            data = self.model_dump_json(exclude_unset=True)
            if ("Infinity" in data or "NaN" in data) and not _is_json(data):  # else they are words
                raise ValueError("it has no infinite number and no nan")
        except ValueError as error:
            raise ValueError(f"{type(self).__name__} cannot be written as JSON: {error}") from None
        return data

    @classmethod
    def decode(cls, data: str) -> Self:
        """Read a payload. Raises pydantic.ValidationError."""
        return cls.model_validate_json(data)


@cache
def _scope_fields(payload: type[JobPayload]) -> tuple[tuple[str, str], ...]:
    """Return those fields of a payload that name a scope: to ask a model for a field that it has not takes long."""
    known = {**SCOPE_FIELDS, **payload.scope_fields}
    return tuple((field, kind) for field, kind in known.items() if field in payload.model_fields)


def _is_json(data: str) -> bool:
    try:
        from_json(data, allow_inf_nan=False)
    except ValueError:
        return False
    return True


def payload_type(name: str) -> type[JobPayload] | None:
    """Return the class of a job type, or None if this process has never heard of it."""
    return _REGISTRY.get(name)


def payload_types() -> Mapping[str, type[JobPayload]]:
    """Return every registered job type by name."""
    return dict(_REGISTRY)


def types_of(queue: str) -> tuple[type[JobPayload], ...]:
    """Return the registered job types of a queue."""
    return tuple(payload for payload in _REGISTRY.values() if payload.spec.queue == queue)


@dataclass(frozen=True, kw_only=True)
class Job:
    """The envelope: one job as it is stored and sent. Times are milliseconds since the epoch, on the store's clock.

    `data` is the payload as JSON. `retried` counts failed attempts, `crashes` lost workers; since `away_since` no
    attempt has ended but because a store was away. `timeout_ms` 0 means
    no limit. `root_id` and `root_at` name the enqueue that the job descends from: a cancel fences everything
    rooted at or before its cut; an `enqueued_at` of 0 is the moment of `root_at`. `died` numbers the deaths
    (archivings) of the job.
    """

    id: str
    type: str
    queue: str
    data: str
    max_retry: int = DEFAULT_MAX_RETRY
    timeout_ms: int = 0
    deadline: int | None = None
    retention_ms: int = 0
    payload_version: int = 1
    codec: str = "json"
    scopes: tuple[Scope, ...] = ()
    unique: Unique | None = None
    root_id: str = ""
    root_at: int = 0
    parent_id: str = ""
    trace: str = ""
    enqueued_at: int = 0
    retried: int = 0
    crashes: int = 0
    crashed_at: int = 0
    unknown_since: int = 0
    away_since: int = 0
    died: int = 0
    last_error: str = ""
    last_failed_at: int = 0

    @classmethod
    def of(cls, **values: Any) -> "Job":
        """Return a job of these values; what is left out is at its default. Much faster than `Job(…)`, for nothing else is
        written.
        """
        job = object.__new__(cls)
        job.__dict__.update(values)
        return job

    @property
    def attempt(self) -> int:
        """The number of the coming attempt, from 1."""
        return self.retried + 1

    @property
    def final(self) -> bool:
        """Whether a failure of the coming attempt is the last one."""
        return self.retried >= self.max_retry
