"""How free slots are shared among queues: smooth weighted round-robin. Pure.

A pool that takes all it can from the first queue lets the others starve, so slots are dealt one by one. What a queue
could not use is dealt again, among those that used all they got.
"""

from collections.abc import Collection, Mapping


class Shares:
    """Deals slots to queues in proportion to their weights, and remembers who is owed what."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        if not weights or min(weights.values()) < 1:
            raise ValueError("every queue needs a weight of at least 1")
        self._weights = dict(weights)
        self._owed = dict.fromkeys(weights, 0)

    def deal(self, slots: int, among: Collection[str] | None = None) -> dict[str, int]:
        """Return how many of `slots` each queue gets; queues that get none are left out."""
        queues = [queue for queue in self._weights if among is None or queue in among]
        if len(queues) == 1:
            return {queues[0]: slots} if slots > 0 else {}
        total = sum(self._weights[queue] for queue in queues)
        rounds, rest = divmod(
            slots if queues else 0, max(total, 1)
        )  # after a whole round all are owed what they were
        dealt = {queue: rounds * self._weights[queue] for queue in queues if rounds}
        for _ in range(rest):
            for queue in queues:
                self._owed[queue] += self._weights[queue]
            chosen = max(queues, key=self._owed.__getitem__)
            self._owed[chosen] -= total
            dealt[chosen] = dealt.get(chosen, 0) + 1
        return dealt
