"""Told to stop: by id, or by scope with a fence."""

from collections.abc import Sequence
from typing import Final

from contracts.fences import Coverage
from contracts.jobs import Scope
from contracts.states import JobState
from pipeline.backends.redis.keys import Keys, homes
from pipeline.backends.redis.records import merged
from pipeline.backends.redis.scripts import script
from pipeline.backends.redis.server import Server, joined
from pipeline.broker import CancelOutcome, Retention, ScopeCancel

AT_ONCE: Final = 96
FENCE_MS: Final = Retention().fence_ms


async def cancel(server: Server, keys: Keys, job_ids: Sequence[str]) -> list[CancelOutcome]:
    """Cancel what waits, tell what runs; every home is asked, for an id does not say where its job is."""
    before: dict[str, JobState] = {}
    for first in range(0, len(job_ids), AT_ONCE):
        some = job_ids[first : first + AT_ONCE]
        said = await joined(
            server.run(script("cancel_jobs"), keys.prefix(name), keys.control, *some) for name in homes()
        )
        before |= merged(some, said)
    return [CancelOutcome.of(before.get(job_id)) for job_id in job_ids]


async def choose_cut(server: Server, keys: Keys) -> int:
    """Return the cut of a cancel that happens now: the latest that any home names."""
    cuts = await joined(server.run(script("choose_cut"), keys.prefix(name)) for name in homes())
    return max(map(int, cuts))


async def cancel_scope(
    server: Server, keys: Keys, scope: Scope, coverage: Coverage, cut: int | None
) -> ScopeCancel:
    """Write the same cut in every home, then stop what it covers there."""
    if cut is None:
        cut = await choose_cut(server, keys)
    swept = await joined(_sweep(server, keys, name, scope, coverage, cut) for name in homes())
    return ScopeCancel(
        cut,
        tuple(job_id for cancelled, _ in swept for job_id in cancelled),
        tuple(job_id for _, told in swept for job_id in told),
    )


async def _sweep(
    server: Server, keys: Keys, name: str, scope: Scope, coverage: Coverage, cut: int
) -> tuple[list[str], list[str]]:
    cancelled: list[str] = []
    told: list[str] = []
    after = ""
    while True:
        stopped, signalled, after = await server.run(
            script("fence_scope"), keys.prefix(name), keys.control, f"{scope.kind}|{scope.id}", cut,
            AT_ONCE, after, FENCE_MS, *_rows(coverage),
        )  # fmt: skip
        cancelled += stopped
        told += signalled
        if not after:
            return cancelled, told


def _rows(coverage: Coverage) -> list[str]:
    """Return what is covered: job types, or * and the types excluded."""
    if coverage.only is not None:
        return sorted(coverage.only)
    return ["*" + ",".join(sorted(coverage.excluding))]
