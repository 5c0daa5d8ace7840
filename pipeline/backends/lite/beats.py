"""The worker processes that live."""

import json
from dataclasses import asdict, replace

from pipeline.backends.lite.transaction import Snapshot, Transaction
from pipeline.records import WorkerBeat


def beat(transaction: Transaction, said: WorkerBeat, ttl_ms: int) -> None:
    """Note that a worker lives, for `ttl_ms`."""
    text = json.dumps(asdict(replace(said, seen_at=transaction.now)))
    transaction.run("note_beat", worker=said.worker, beat=text, expires_at=transaction.now + ttl_ms)


def forget(transaction: Transaction, worker: str) -> None:
    """Unregister a worker."""
    transaction.run("forget_worker", worker=worker)


def living(snapshot: Snapshot) -> list[WorkerBeat]:
    """Return the workers whose last word still counts."""
    return [WorkerBeat.read(row["beat"]) for row in snapshot.run("select_workers", now=snapshot.now)]
