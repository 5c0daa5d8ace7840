"""Fences: what a cancel of a scope keeps from being enqueued."""

from dataclasses import replace
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

    def admit(self, job: Job) -> Job | None:
        """Return `job` with its root, or None when it descends from something that was cancelled.

        A root was enqueued after every fence that exists, even within the same millisecond, so it is put after them.
        """
        cuts = [cut for scope in job.scopes for cut in self._of(scope)]
        if not job.root_at:
            after = max((cut for _, cut in cuts), default=-1) + 1
            return replace(
                job,
                enqueued_at=self._transaction.now,
                root_id=job.root_id or job.id,
                root_at=max(self._transaction.now, after),
            )
        if any(job.root_at <= cut and covers(row, job.type) for row, cut in cuts):
            return None
        return replace(job, enqueued_at=self._transaction.now)

    def covered(self, job_type: str, root_at: int, scopes: list[Scope]) -> bool:
        """Whether a fence keeps a stored job from starting."""
        cuts = [cut for scope in scopes for cut in self._of(scope)]
        return any(root_at <= cut and covers(row, job_type) for row, cut in cuts)

    def _of(self, scope: Scope) -> list[tuple[str, int]]:
        if scope not in self._seen:
            rows = self._transaction.run("select_fences", kind=scope.kind, id=scope.id)
            self._seen[scope] = [(row["covers"], row["cut"]) for row in rows]
        return self._seen[scope]
