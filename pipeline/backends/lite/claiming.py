"""Pending → active."""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from contracts.topology import home
from pipeline.backends.lite.deliveries import delivery
from pipeline.backends.lite.expiry import weed
from pipeline.backends.lite.fences import Fences
from pipeline.backends.lite.transaction import Transaction, array
from pipeline.broker import Delivery

ROUNDS: Final = 10
"""How often a claim looks for other jobs when it finds expired or cancelled ones; the next claim goes on."""
LOOKED_AT: Final = 200
"""Jobs of one such look: it doubles from one to the next, lest a few free slots see a few of many at a time."""


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
    """Claim n of each (queue, n); what one cannot give, others of its home give instead."""
    paused = {row["queue"] for row in transaction.run("select_paused")}
    fences = Fences(transaction)

    def take(asked: Iterable[tuple[str, int]]) -> list[sqlite3.Row]:
        rows = [
            row
            for queue, limit in asked
            if limit > 0 and queue not in paused
            for row in _ready(transaction, queue, limit, turns, fences)
        ]
        transaction.run(
            "claim_jobs", consumer=consumer, now=transaction.now, seqs=array(row["seq"] for row in rows)
        )
        unique = [(row["type"], row["unique_key"], row["id"]) for row in rows if row["unique_key"]]
        transaction.run_many("unlock_started", unique)
        return rows

    rows = take(wants)
    got = Counter(row["queue"] for row in rows)
    for _, some in groupby(sorted(wants, key=_home), _home):
        asked = list(some)
        left = sum(limit - got[queue] for queue, limit in asked)
        rich = [queue for queue, limit in asked if got[queue] == limit > 0]
        for among, queue in zip(range(len(rich), 0, -1), rich, strict=True):
            more = take([(queue, -(-left // among))]) if left else []
            rows, left = rows + more, left - len(more)
    return [delivery(row, consumer, transaction.now) for row in rows]


def _home(want: tuple[str, int]) -> str:
    return home(want[0])


def _ready(
    transaction: Transaction, queue: str, limit: int, turns: Turns, fences: Fences
) -> list[sqlite3.Row]:
    again: list[sqlite3.Row] = []
    fresh: list[sqlite3.Row] = []
    for turn in range(ROUNDS):
        most = max(limit, min(limit << turn, LOOKED_AT))
        found = [
            transaction.run("select_pending", queue=queue, again=kind, limit=most).fetchall()
            for kind in (True, False)
        ]
        again, fresh = (fences.uncovered(transaction, weed(transaction, rows)) for rows in found)
        if len(again) + len(fresh) == sum(map(len, found)):
            break  # else what had expired or was cancelled made room for others
    return turns.merge(queue, again, fresh, limit)
