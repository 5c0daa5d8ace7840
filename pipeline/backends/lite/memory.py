"""What is remembered by name: written once, unless it is to be replaced."""

from pipeline.backends.lite.transaction import Snapshot, Transaction


def recall(snapshot: Snapshot, name: str) -> str | None:
    """Return what is there."""
    row = snapshot.run("recall", name=name).fetchone()
    return row["value"] if row else None


def remember(transaction: Transaction, name: str, value: str, *, anew: bool) -> str:
    """Write it; see `Broker.remember`."""
    return str(transaction.run("remember", name=name, value=value, anew=anew).fetchone()["value"])
