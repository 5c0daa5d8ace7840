from collections import Counter

import contracts.payloads  # noqa: F401 - registers every job type
import pytest
from contracts import topology
from contracts.jobs import payload_types, types_of
from contracts.topology import POOLS, QUEUES, SHARED, Lane, UnknownNameError

from tests.support.moving import moved

# Written a second time on purpose: the table of the design, against which the registry is read.
TABLE = {
    "interactive": {"email": 3, "notify": 2, "bot_slack": 2, "bot_telegram": 2, "bot_mattermost": 2},
    "core": {"default": 1, "chat_attachment": 3},
    "postprocess": {"postprocess": 1},
    "enrichment": {"summary": 2, "multimodal": 1, "graph": 1, "question": 1, "memory": 1},
    "maintenance": {"sync": 2, "low": 1},
    "shared": {
        "default": 3,
        "chat_attachment": 3,
        "summary": 2,
        "multimodal": 1,
        "graph": 1,
        "question": 1,
        "memory": 1,
    },
    "wiki": {"wiki": 1},
    "bulk": {"email_bulk": 1},
    "ks": {"ks": 1},
    "agents": {"agent": 1},
}
HOMES = {
    "interactive": ["email", "notify", "bot_slack", "bot_telegram", "bot_mattermost"],
    "core": ["default", "chat_attachment"],
    "postprocess": ["postprocess"],
    "enrichment": ["summary", "multimodal", "graph", "question", "memory"],
    "maintenance": ["sync", "low"],
    "wiki": ["wiki"],
    "bulk": ["email_bulk"],
    "ks": ["ks"],
    "agents": ["agent"],
}
"""Where the jobs of each queue lie for ever: a line may be added and never changed, whoever reads the queue today."""
SLOTS = {
    "interactive": 8,
    "core": 8,
    "postprocess": 2,
    "enrichment": 12,
    "maintenance": 4,
    "shared": 6,
    "wiki": 8,
    "bulk": 2,
    "ks": 2,
    "agents": 8,
}


@pytest.mark.parametrize("pool", TABLE)
def test_a_pool_reads_its_queues_by_weight(pool: str) -> None:
    assert topology.weights(pool) == TABLE[pool]


def test_the_pools_and_their_slots_are_those_of_the_design() -> None:
    assert {p.name: p.slots for p in POOLS.values()} == SLOTS


def test_every_pool_is_in_one_lane_and_no_lane_is_empty() -> None:
    by_lane = {lane: topology.pools_of(lane) for lane in Lane}
    assert sorted(p for pools in by_lane.values() for p in pools) == sorted(POOLS)
    assert by_lane[Lane.INTERACTIVE] == ("interactive",)
    assert by_lane[Lane.AGENTS] == ("agents",)


def test_every_queue_is_in_exactly_one_pool_and_the_shared_pool_owns_none() -> None:
    owned = Counter(q for pool in POOLS if pool != SHARED for q in topology.weights(pool))
    assert owned == dict.fromkeys(QUEUES, 1)
    assert all(q.pool != SHARED for q in QUEUES.values())


def test_the_shared_pool_borrows_from_core_and_enrichment_only() -> None:
    assert {QUEUES[q].pool for q in topology.weights(SHARED)} == {"core", "enrichment"}


def test_every_type_is_in_exactly_one_queue() -> None:
    placed = Counter(t.spec.type for q in QUEUES for t in types_of(q))
    platform = [n for n, t in payload_types().items() if t.__module__.startswith("contracts.payloads.")]
    assert {name: placed[name] for name in platform} == dict.fromkeys(platform, 1)


def test_no_queue_is_without_a_type() -> None:
    assert all(types_of(q) for q in QUEUES)


def test_no_queue_leaves_its_home() -> None:
    """What waits there would be lost from sight. A queue that is moved keeps its home by name."""
    at_home = {name: home for home, names in HOMES.items() for name in names}
    assert {name: topology.home(name) for name in QUEUES} == at_home


def test_what_belongs_together_lies_in_one_home_in_its_order() -> None:
    found = topology.by_home([3, 1, 2], {1: "wiki", 2: "default", 3: "chat_attachment"}.__getitem__)
    assert found == {"core": [3, 2], "wiki": [1]}


def test_a_queue_that_moves_is_read_by_the_other_pool_and_stays_at_home() -> None:
    with moved({"default": "wiki"}):
        assert topology.weights("core") == {"chat_attachment": 3}
        assert topology.weights("wiki") == {"default": 1, "wiki": 1}
        assert topology.weights(SHARED) == TABLE[SHARED]
        assert topology.home("default") == "core"


@pytest.mark.parametrize(
    ("lookup", "name", "hint"),
    [
        (topology.queue, "defualt", "did you mean 'default'"),
        (topology.pool, "enrichments", "did you mean 'enrichment'"),
        (topology.weights, "cores", "did you mean 'core'"),
        (topology.home, "zzz", "known: default,"),
        (topology.home, "images", "known: default,"),
        (topology.pool, "default", "queue 'default' is in pool 'core'"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(lookup, name: str, hint: str) -> None:
    with pytest.raises(UnknownNameError, match=hint):
        lookup(name)
