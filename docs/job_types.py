"""List the types of jobs that Streamlane itself has, from what their payloads say of themselves."""

import inspect
from collections.abc import Iterable

from contracts.jobs import JobPayload
from contracts.topology import QUEUES


def render(payloads: Iterable[type[JobPayload]]) -> str:
    """A table with one row a type, by name."""
    rows = [_row(payload) for payload in sorted(payloads, key=lambda one: one.spec.type)]
    head = ["| type | what its job does | queue, pool | tries | limit of one |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows, ""])


def _row(payload: type[JobPayload]) -> str:
    spec = payload.spec
    does = " ".join((inspect.getdoc(payload) or "").split())
    limit = f"{spec.timeout / 60:g} min" if spec.timeout else "`STREAMLANE_DEFAULT_TIMEOUT_S`"
    place = f"`{spec.queue}`, `{QUEUES[spec.queue].pool}`"
    return f"| `{spec.type}` | {does} | {place} | {spec.max_retry + 1} | {limit} |"
