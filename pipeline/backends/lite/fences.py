"""Fences: what a cancel of a scope keeps from being enqueued, and from starting."""

import sqlite3
from collections.abc import Sequence
from typing import Final

from contracts.fences import Coverage
from contracts.jobs import Job
from contracts.states import JobState
from pipeline.backends.lite.ending import End, end, pairs
from pipeline.backends.lite.transaction import Snapshot, Transaction

ALL_BUT: Final = "*"


def encode(coverage: Coverage) -> list[str]:
    """Return the rows of a coverage: one a job type, or ``*`` and the types excluded."""
    if coverage.only is not None:
        return sorted(coverage.only)
    return [ALL_BUT + ",".join(sorted(coverage.excluding))]


def covers(row: str, job_type: str) -> bool:
    """Whether an encoded row covers `job_type`."""
    return job_type not in row[1:].split(",") if row.startswith(ALL_BUT) else row == job_type


class Fences:
    """The fences as one operation sees them: each scope is read once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._seen: dict[tuple[str, str], list[tuple[str, int]]] = {}

    def root(self, job: Job) -> int | None:
        """Return when the root of `job` was enqueued, or None when it descends from something that was cancelled.

        A root is enqueued after every fence there is, even within the same millisecond, so it is put after them.
        """
        scopes = [(scope.kind, scope.id) for scope in job.scopes]
        if job.root_at:
            return None if self.cover(job.type, job.root_at, scopes) else job.root_at
        return max(self._snapshot.now, *(cut + 1 for scope in scopes for _, cut in self._of(scope)), 0)

    def cover(self, job_type: str, root_at: int, scopes: Sequence[tuple[str, str]]) -> bool:
        """Whether a fence keeps a job from starting."""
        return any(
            root_at <= cut and covers(row, job_type) for scope in scopes for row, cut in self._of(scope)
        )

    def uncovered(self, transaction: Transaction, rows: Sequence[sqlite3.Row]) -> list[sqlite3.Row]:
        """Cancel those of these waiting jobs that a fence covers, and return the others.

        A cancel of many jobs sweeps them a part at a time; what it has not come to yet is met here.
        """
        (newest,) = self._snapshot.run("select_newest_cut").fetchone()
        if newest is None or all(row["root_at"] > newest for row in rows):
            return list(rows)
        covered: list[End] = []
        free: list[sqlite3.Row] = []
        for row in rows:
            if self.cover(row["type"], row["root_at"], pairs(row["scopes"])):
                covered.append(End(row, JobState.CANCELLED))
            else:
                free.append(row)
        end(transaction, covered)
        return free

    def _of(self, scope: tuple[str, str]) -> list[tuple[str, int]]:
        if scope not in self._seen:
            kind, ident = scope
            rows = self._snapshot.run("select_fences", kind=kind, id=ident)
            self._seen[scope] = [(row["covers"], row["cut"]) for row in rows]
        return self._seen[scope]
