"""Pending → active."""

import sqlite3
from collections.abc import Sequence

from pipeline.backends.lite.deliveries import delivery
from pipeline.backends.lite.expiry import weed
from pipeline.backends.lite.transaction import Transaction, array
from pipeline.broker import Delivery


class Turns:
    """Whose turn it is in each queue: that of jobs that were started before, or that of fresh ones."""

    def __init__(self) -> None:
        self._fresh: set[str] = set()

    def merge(
        self, queue: str, again: Sequence[sqlite3.Row], fresh: Sequence[sqlite3.Row], limit: int
    ) -> list[sqlite3.Row]:
        """Return at most `limit` of both, alternately, going on where this queue stopped last time."""
        waiting = (iter(again), iter(fresh))
        taken: list[sqlite3.Row] = []
        while len(taken) < limit:
            turn = queue in self._fresh
            row = next(waiting[turn], None)
            if row is None and (row := next(waiting[not turn], None)) is None:
                break
            self._fresh ^= {queue}
            taken.append(row)
        return taken


def claim(
    transaction: Transaction, consumer: str, wants: Sequence[tuple[str, int]], turns: Turns
) -> list[Delivery]:
    """Claim at most n of each (queue, n).

    No fence is looked up here: enqueue, cancel_scope, release and run_now leave no covered job pending.
    """
    now = transaction.now
    paused = {row["queue"] for row in transaction.run("select_paused")}
    rows = [
        row
        for queue, limit in wants
        if limit > 0 and queue not in paused
        for row in _ready(transaction, queue, limit, turns)
    ]
    transaction.run("claim_jobs", consumer=consumer, now=now, seqs=array(row["seq"] for row in rows))
    unique = [(row["type"], row["unique_key"], row["id"]) for row in rows if row["unique_key"]]
    transaction.run_many("unlock_started", unique)
    return [delivery(row, consumer, now) for row in rows]


def _ready(transaction: Transaction, queue: str, limit: int, turns: Turns) -> list[sqlite3.Row]:
    while True:
        found = [
            transaction.run("select_pending", queue=queue, again=kind, limit=limit).fetchall()
            for kind in (True, False)
        ]
        again, fresh = (weed(transaction, rows) for rows in found)
        # What had expired made room for others: look again.
        if len(again) + len(fresh) == sum(map(len, found)):
            return turns.merge(queue, again, fresh, limit)
