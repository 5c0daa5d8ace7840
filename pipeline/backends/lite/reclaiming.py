"""Active → somebody else's, where the worker is lost."""

import sqlite3
from dataclasses import replace

from contracts.states import ArchiveReason, JobState
from contracts.wire import PoisonError, UnknownVersionError, decode, encode_options
from pipeline.backends.lite.deliveries import queue_again
from pipeline.backends.lite.ending import End, end
from pipeline.backends.lite.transaction import Transaction
from pipeline.broker import Reclaimed, ReclaimPolicy


def reclaim(transaction: Transaction, policy: ReclaimPolicy) -> list[Reclaimed]:
    """Take what its worker has not said anything of for a lease; see `Broker.reclaim`.

    A lease from the future was renewed before the clock was set back: it has no end that can be waited for.
    """
    if _quiet(transaction, policy.lease_ms):
        return []
    now, lease = transaction.now, policy.lease_ms
    rows = transaction.run(
        "select_stale", before=now - lease, after=now + lease, limit=policy.limit
    ).fetchall()
    fates = [_fate(row, policy, now) for row in rows]
    ends = [fate for fate in fates if isinstance(fate, End)]
    ended = iter(end(transaction, ends))
    again = [(row, fate) for row, fate in zip(rows, fates, strict=True) if not isinstance(fate, End)]
    queue_again(transaction, again)
    return [
        Reclaimed(
            row["id"],
            row["queue"],
            row["consumer"],
            next(ended) if isinstance(fate, End) else JobState.PENDING,
        )
        for row, fate in zip(rows, fates, strict=True)
    ]


def quiet_until(now: int, *, last: int, quiet: int, lease_ms: int) -> int:
    """Return until when nothing is taken, if the last round was at `last` and quiet was agreed until `quiet`.

    After a gap (nobody was there, or everything was suspended, or the clock jumped) the healthy need a whole lease
    to say so.
    """
    if not last <= now <= last + lease_ms // 2 or quiet > now + lease_ms:
        return now + lease_ms
    return quiet


def _quiet(transaction: Transaction, lease_ms: int) -> bool:
    counters = {row["name"]: row["value"] for row in transaction.run("select_reclaims")}
    last, now = counters["reclaimed_at"], transaction.now
    until = quiet_until(now, last=last, quiet=counters["quiet_until"], lease_ms=lease_ms)
    if not last <= now <= last + lease_ms // 8:  # often enough for others to see, seldom enough to be idle
        transaction.run("note_reclaim", now=now, until=until)
    return now < until


def _fate(row: sqlite3.Row, policy: ReclaimPolicy, now: int) -> End | str | None:
    """Return how a lost job ends, or the options it goes on with (None: as they are)."""
    if row["cancel"]:
        return End(row, JobState.CANCELLED)
    try:
        job = decode({"id": row["id"], "type": row["type"], "data": "", "opts": row["opts"]}, row["queue"])
    except UnknownVersionError:
        return None
    except PoisonError as error:
        return End(row, JobState.ARCHIVED, None, ArchiveReason.POISON, str(error))
    before = job.crashes if now - job.crashed_at <= policy.crash_reset_ms else 0
    job = replace(job, crashes=before + 1, crashed_at=now)
    if job.crashes <= policy.max_crashes:
        return encode_options(job)
    lost = f"lost its worker {job.crashes} times"
    opts = encode_options(replace(job, last_error=lost, last_failed_at=now))
    return End(row, JobState.ARCHIVED, opts, ArchiveReason.WORKER_LOST, lost)
