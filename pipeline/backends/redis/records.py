"""Jobs as people and tools see them. An id does not say where its job is, so every home is asked."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from contracts.jobs import Job
from contracts.states import TERMINAL, ArchiveReason, JobState
from contracts.wire import PoisonError, UnknownVersionError, decode
from pipeline.backends.redis.keys import Keys, homes
from pipeline.backends.redis.scripts import script
from pipeline.backends.redis.server import Server, joined
from pipeline.records import JobRecord, Progress, explained, happenings

AT_ONCE: Final = 300


async def find(server: Server, keys: Keys, job_id: str) -> JobRecord | None:
    """Return one job, or None."""
    said = await joined(server.run(script("find_jobs"), keys.prefix(name), job_id) for name in homes())
    found = [job_record(fields(flat)) for (flat,) in said if flat]
    # An id that was used again in another home lives there.
    return min(found, key=lambda one: one.state in TERMINAL, default=None)


async def standing(server: Server, keys: Keys, ids: Sequence[str]) -> dict[str, JobState]:
    """Return where the jobs that were ever heard of stand; a tombstone counts."""
    known: dict[str, JobState] = {}
    for first in range(0, len(ids), AT_ONCE):
        some = ids[first : first + AT_ONCE]
        said = await joined(server.run(script("read_states"), keys.prefix(name), *some) for name in homes())
        known |= merged(some, said)
    return known


def merged(ids: Sequence[str], said: Sequence[Sequence[str]]) -> dict[str, JobState]:
    """Return the states of the ids that are known in some home; where one lives counts more than where it ended."""
    known: dict[str, JobState] = {}
    for states in said:
        for job_id, state in zip(ids, states, strict=True):
            if state and known.get(job_id, JobState.COMPLETED) in TERMINAL:
                known[job_id] = JobState(state)
    return known


def job_record(found: Mapping[str, str]) -> JobRecord:
    """Return what a script says of a job as a record."""
    reason = found.get("reason")
    return JobRecord(
        job=explained(envelope(found), found.get("error", "")),
        state=JobState(found["state"]),
        due_at=int(found.get("due_at", 0)),
        claimed_at=int(found.get("claimed_at", 0)),
        ended_at=int(found.get("ended_at", 0)),
        consumer=found.get("consumer", ""),
        reason=ArchiveReason(reason) if reason else None,
        cancel_requested="cancel" in found,
        progress=_progress(found.get("progress")),
        history=happenings(found.get("history")),
    )


def envelope(found: Mapping[str, str]) -> Job:
    """Return the envelope of a job; of one that cannot be read, what can be."""
    record = {name: found[name] for name in ("id", "type", "data", "opts")}
    try:
        return decode(record, found["queue"])
    except (PoisonError, UnknownVersionError):
        return Job(id=found["id"], type=found["type"], queue=found["queue"], data=found["data"])


def fields(flat: Sequence[str]) -> dict[str, str]:
    """Return names and values that a script gave one after the other."""
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _progress(text: str | None) -> Progress | None:
    if text is None:
        return None
    values: list[Any] = json.loads(text)
    return Progress(*values)
