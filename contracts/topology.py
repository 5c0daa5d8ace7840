"""Lanes, pools and queues: the only registry of what runs where.

A payload class names its queue; the map from types to queues is derived from the registered classes.
A queue's `home` is its hash tag and consumer group for ever: moving a queue to another pool changes only
who reads it, so nothing has to be drained.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

T = TypeVar("T")


class Lane(StrEnum):
    """What is deployed: one process running several pools."""

    INTERACTIVE = "interactive"
    BACKGROUND = "background"
    AGENTS = "agents"


@dataclass(frozen=True, slots=True)
class Pool:
    """A set of queues with its own hard concurrency (`slots` jobs at once in a process)."""

    name: str
    lane: Lane
    slots: int


@dataclass(frozen=True, slots=True)
class Queue:
    """One stream of jobs. `weight` is its share inside its pool, `shared_weight` its share of the shared pool.

    `home` is where its jobs lie for ever; unset, the pool. A queue that moves to another pool must name its first one.
    """

    name: str
    pool: str
    weight: int = 1
    shared_weight: int = 0
    home: str = ""
    about: str = ""


class UnknownNameError(ValueError):
    """A queue, pool or lane that does not exist; the message names the nearest one that does, or those there are."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        known = list(dict.fromkeys(known))
        if name in QUEUES and what != "queue":
            hint = f"queue {name!r} is in pool {QUEUES[name].pool!r}"
        elif near := difflib.get_close_matches(name, known, n=1, cutoff=0.7):
            hint = f"did you mean {near[0]!r}?"
        else:
            hint = f"known: {', '.join(known)}"
        super().__init__(f"unknown {what} {name!r}; {hint}")


SHARED: Final = "shared"

POOLS: Final[Mapping[str, Pool]] = {
    pool.name: pool
    for pool in (
        Pool("core", Lane.BACKGROUND, 8),
        Pool("postprocess", Lane.BACKGROUND, 2),
        Pool("enrichment", Lane.BACKGROUND, 12),
        Pool("maintenance", Lane.BACKGROUND, 4),
        Pool(SHARED, Lane.BACKGROUND, 6),
        Pool("wiki", Lane.BACKGROUND, 8),
        Pool("bulk", Lane.BACKGROUND, 2),
        Pool("ks", Lane.BACKGROUND, 2),
        Pool("interactive", Lane.INTERACTIVE, 8),
        Pool("agents", Lane.AGENTS, 8),
    )
}

QUEUES: Final[Mapping[str, Queue]] = {
    queue.name: queue
    for queue in (
        Queue("default", "core", 1, 3, about="document parsing, manual knowledge"),
        Queue("chat_attachment", "core", 3, 3, about="parsing of chat uploads"),
        Queue("postprocess", "postprocess", about="finalisation and fan-out"),
        Queue("summary", "enrichment", 2, 2, about="summaries, profiles and tags"),
        Queue("multimodal", "enrichment", 1, 1, about="text and captions of pictures"),
        Queue("graph", "enrichment", 1, 1, about="entities and relations"),
        Queue("question", "enrichment", 1, 1, about="questions a passage answers"),
        Queue("memory", "enrichment", 1, 1, about="personal memory"),
        Queue("sync", "maintenance", 2, about="synchronisation of sources"),
        Queue("low", "maintenance", 1, about="imports, batches, clean-up"),
        Queue("wiki", "wiki", about="wiki pages and their index"),
        Queue("email_bulk", "bulk", about="mail campaigns"),
        Queue("ks", "ks", about="re-embedding, curation, backup"),
        Queue("email", "interactive", 3, about="transactional mail"),
        Queue("notify", "interactive", 2, about="notifications and webhooks"),
        Queue("bot_slack", "interactive", 2, about="incoming Slack messages"),
        Queue("bot_telegram", "interactive", 2, about="incoming Telegram messages"),
        Queue("bot_mattermost", "interactive", 2, about="incoming Mattermost messages"),
        Queue("agent", "agents", about="agent runs"),
    )
}


def queue(name: str) -> Queue:
    """Return a queue by name. Raises UnknownNameError."""
    if name not in QUEUES:
        raise UnknownNameError("queue", name, QUEUES)
    return QUEUES[name]


def pool(name: str) -> Pool:
    """Return a pool by name. Raises UnknownNameError."""
    if name not in POOLS:
        raise UnknownNameError("pool", name, POOLS)
    return POOLS[name]


def home(name: str) -> str:
    """Return the hash tag and group of a queue: its first pool, whoever reads it today. Raises UnknownNameError."""
    found = queue(name)
    return found.home or found.pool


def by_home(items: Iterable[T], queue_of: Callable[[T], str]) -> dict[str, list[T]]:
    """Return the items of each home, in their order. Raises UnknownNameError."""
    found: dict[str, list[T]] = {}
    for item in items:
        found.setdefault(home(queue_of(item)), []).append(item)
    return found


def weights(pool_name: str) -> Mapping[str, int]:
    """Return the queues a pool reads and their weights; the shared pool borrows. Raises UnknownNameError."""
    if pool(pool_name).name == SHARED:
        return {q.name: q.shared_weight for q in QUEUES.values() if q.shared_weight}
    return {q.name: q.weight for q in QUEUES.values() if q.pool == pool_name}


def pools_of(lane: Lane) -> tuple[str, ...]:
    """Return the pools that a lane runs."""
    return tuple(p.name for p in POOLS.values() if p.lane is lane)
