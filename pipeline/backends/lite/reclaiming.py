"""Active → somebody else's, where the worker is lost."""

import sqlite3

from contracts.states import JobState
from contracts.wire import encode_options
from pipeline.backends.lite.deliveries import queue_again
from pipeline.backends.lite.ending import End, end
from pipeline.backends.lite.history import happened
from pipeline.backends.lite.transaction import Transaction
from pipeline.broker import Reclaimed, ReclaimPolicy
from pipeline.records import Happened
from pipeline.settle import lost


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
    happened(transaction, Happened.LOST, [(row["seq"], "", row["consumer"]) for row, _ in again])
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
        return End(row, JobState.CANCELLED, worker=row["consumer"])
    fate = lost({name: row[name] for name in ("id", "type", "opts")}, row["queue"], policy=policy, now=now)
    opts = encode_options(fate.job) if fate.job else None
    if fate.state is JobState.PENDING:
        return opts
    return End(row, fate.state, opts, fate.reason, fate.error, worker=row["consumer"])
