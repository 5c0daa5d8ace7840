"""Fences: what a cancel of a scope keeps from being enqueued."""

from typing import Final

from contracts.fences import Coverage
from contracts.jobs import Job, Scope
from pipeline.backends.lite.transaction import Transaction

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

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._seen: dict[Scope, list[tuple[str, int]]] = {}

    def root(self, job: Job) -> int | None:
        """Return when the root of `job` was enqueued, or None when it descends from something that was cancelled.

        A root is enqueued after every fence there is, even within the same millisecond, so it is put after them.
        """
        if job.root_at:
            return None if self.covers(job) else job.root_at
        after = (cut + 1 for scope in job.scopes for _, cut in self._of(scope))
        return max(self._transaction.now, *after, 0)

    def covers(self, job: Job) -> bool:
        """Whether a fence keeps `job` from starting."""
        return any(
            job.root_at <= cut and covers(row, job.type)
            for scope in job.scopes
            for row, cut in self._of(scope)
        )

    def _of(self, scope: Scope) -> list[tuple[str, int]]:
        if scope not in self._seen:
            rows = self._transaction.run("select_fences", kind=scope.kind, id=scope.id)
            self._seen[scope] = [(row["covers"], row["cut"]) for row in rows]
        return self._seen[scope]
