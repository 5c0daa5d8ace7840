"""Locks with a width and a fencing number."""

from pipeline.backends.lite.transaction import Transaction


def lock(transaction: Transaction, name: str, owner: str, ttl_ms: int, width: int) -> int | None:
    """Take or renew a place; see `Broker.lock`."""
    places = {
        row["owner"]: row["number"]
        for row in transaction.run("select_places", name=name, now=transaction.now)
    }
    number: int | None = places.get(owner)
    if number is None:
        if len(places) >= width:
            return None
        (number,) = transaction.run("take_fencing_number").fetchone()
    expires = transaction.now + ttl_ms
    transaction.run("take_place", name=name, owner=owner, number=number, expires_at=expires)
    return number


def unlock(transaction: Transaction, name: str, owner: str) -> bool:
    """Give a place back; False when it was not ours (any more)."""
    return transaction.run("free_place", name=name, owner=owner, now=transaction.now).rowcount > 0
