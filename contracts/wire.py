"""The envelope on the wire: a flat map of strings that any language can write and read.

    id    given, or made by the producer        type   the job type
    data  the payload as JSON                   opts   JSON of all that differs from the defaults of v1

Resolved limits (`max_retry`, `timeout_ms`) are always written: a changed default must not change a waiting job.
"""

from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any, Final

from pydantic_core import from_json, to_json

from contracts.jobs import Job, Scope, Unique

ENVELOPE_VERSION: Final = 1
MAX_ERROR_BYTES: Final = 8192

_ALWAYS: Final = ("max_retry", "timeout_ms")
_SHORT: Final = {"payload_version": "pv"}
_OPTIONS: Final = tuple(f for f in fields(Job) if f.name not in {"id", "type", "data", "queue"})
_WRITTEN: Final = {f.name: (_SHORT.get(f.name, f.name), f.default) for f in _OPTIONS if f.name not in _ALWAYS}
_KINDS: Final = {"scopes": list, "unique": list, "deadline": int}
_LONG: Final = {_SHORT.get(f.name, f.name): (f.name, _KINDS.get(f.name, type(f.default))) for f in _OPTIONS}


class PoisonError(ValueError):
    """An envelope that can never be understood."""


class UnknownVersionError(ValueError):
    """An envelope written by a newer Streamlane; a newer worker may know it."""


def encode(job: Job) -> dict[str, str]:
    """Return the fields of `job` as they are stored."""
    return {"id": job.id, "type": job.type, "data": job.data, "opts": encode_options(job)}


def encode_options(job: Job) -> str:
    """Return the `opts` field: all of `job` but id, type, data and queue, without defaults."""
    opts = {name: getattr(job, name) for name in _ALWAYS}
    for name, value in vars(job).items():
        if (written := _WRITTEN.get(name)) is not None and value != written[1]:
            opts[written[0]] = _plain(value)
    return to_json(opts).decode()


def decode(record: Mapping[str, str], queue: str) -> Job:
    """Read an envelope found in `queue`.

    Raises:
        PoisonError: a field is missing, is not JSON, or has the wrong shape.
        UnknownVersionError: the envelope or its codec is newer than this code.
    """
    try:
        job_type, data = record["type"], record["data"]
        opts = from_json(record.get("opts") or "{}", allow_inf_nan=False)
    except KeyError as missing:
        raise PoisonError(f"field {missing} is missing") from None
    except ValueError as error:
        raise PoisonError(f"opts is not JSON: {error}") from None
    if not isinstance(opts, dict):
        raise PoisonError("opts is not a JSON object")
    if not job_type:
        raise PoisonError("field 'type' is empty")
    version = opts.pop("v", ENVELOPE_VERSION)
    if version != ENVELOPE_VERSION or opts.get("codec", "json") != "json":
        raise UnknownVersionError(f"envelope version {version}, codec {opts.get('codec', 'json')}")
    try:
        values: dict[str, Any] = {}
        for key, value in opts.items():
            if (known := _LONG.get(key)) is not None:
                name, kind = known
                values[name] = value if type(value) is kind is not list else _typed(name, kind, value)
        values.setdefault("enqueued_at", values.get("root_at", 0))  # written where it is another moment
        return Job.of(id=record.get("id", ""), type=job_type, queue=queue, data=data, **values)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        raise PoisonError(f"opts cannot be read: {error}") from None


def options_schema() -> dict[str, Any]:
    """Return the JSON schema of the `opts` field, for those who write it in another language."""
    pair = {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}
    known: dict[str, Any] = {
        key: {"type": "string" if kind is str else "integer"} for key, (_, kind) in _LONG.items()
    }
    known["v"] = {"const": ENVELOPE_VERSION}
    known["codec"] = {"const": "json"}
    known["deadline"] = {"type": ["integer", "null"]}
    known["scopes"] = {"type": "array", "items": pair, "description": "pairs of kind and id"}
    known["unique"] = {"type": "array", "description": "key, ttl in seconds, until, on_conflict"}
    return {"type": "object", "properties": known}


def cut(text: str, limit: int = MAX_ERROR_BYTES) -> str:
    """Return `text` in at most `limit` bytes of UTF-8, marked where it was cut (facts 4.1)."""
    raw = text.encode("utf-8", "replace").replace(b"\x00", b"\xef\xbf\xbd")
    if len(raw) <= limit:
        return raw.decode()
    mark = "...(truncated)"
    return raw[: limit - len(mark)].decode("utf-8", "ignore") + mark


def _plain(value: Any) -> Any:
    if isinstance(value, Unique):
        return [value.key, value.ttl, value.until, value.on_conflict]
    if isinstance(value, tuple):
        return [[scope.kind, scope.id] for scope in value]
    return value


def _typed(name: str, kind: type, value: Any) -> Any:
    """Return an option that is not simply of its kind."""
    if name == "scopes":
        return tuple(_scope(scope_kind, ident) for scope_kind, ident in value)
    if name == "unique":
        return Unique(*value) if value else None
    if value is None and name == "deadline":
        return None
    raise PoisonError(f"option {name} must be {kind.__name__}, got {value!r}")


@lru_cache(maxsize=4096)
def _scope(kind: str, ident: str) -> Scope:
    """Return a scope; the same few come with every job, and checking their names takes time."""
    return Scope(kind, ident)
