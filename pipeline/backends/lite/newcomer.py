"""A job that no fence and no older job keeps from being stored."""

import json
from dataclasses import dataclass
from typing import Any

from contracts.jobs import Job, Unique


@dataclass(slots=True)
class Newcomer:
    """A job with what the store says of it: its options with root and time, and when it is due."""

    job: Job
    opts: str
    root_at: int
    due: int
    named: bool

    @property
    def scopes(self) -> str | None:
        """The column that says which rows of the table `scopes` are the job's."""
        return " ".join([name for scope in self.job.scopes for name in (scope.kind, scope.id)]) or None

    def row(self, seq: int, now: int) -> tuple[Any, ...]:
        """Return the columns of ``insert_job``, plain values only: those are bound fastest."""
        job, waits = self.job, self.due > now
        return (
            seq,
            job.id,
            job.type,
            job.queue,
            "scheduled" if waits else "pending",
            job.data,
            self.opts,
            self.scopes,
            int(self.named),
            self.root_at,
            job.deadline,
            job.unique.key if job.unique else None,
            seq,
            None if waits else seq,
            now,
            self.due if waits else None,
        )

    def note(self, unique: Unique, now: int) -> str:
        """Return what an active job keeps of this enqueue until it ends."""
        fields = {
            "until": unique.until,
            "expires_at": lock_end(unique, now),
            "due": self.due,
            "root_at": self.root_at,
            "deadline": self.job.deadline,
            "data": self.job.data if unique.on_conflict == "replace" else None,
            "opts": self.opts,
            "scopes": self.scopes,
        }
        return json.dumps(fields)


def lock_end(unique: Unique, now: int) -> int | None:
    """Return when a lock taken now ends; None where it ends with its job."""
    return now + round(unique.ttl * 1000) if unique.until == "ttl" else None
