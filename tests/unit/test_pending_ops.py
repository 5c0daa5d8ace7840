"""Operations that wait for a batch: claimed by key, never by halves, settled by their holder alone."""

import asyncio
from collections import Counter

import pytest
from contracts.identity import new_id
from pipeline.clock import now_ms
from pipeline.store import Database, pending_ops
from pipeline.store.pending_ops import Lane

from tests.support.databases import BOTH, migrated

LANE = Lane("wiki:ingest", "knowledge_base", "kb")
OTHER = Lane("wiki:ingest", "knowledge_base", "other")
STALE_MS = 5_400_000


class Work:
    """The operations of one database; `past` lets claims of before be stale."""

    def __init__(self, database):
        self.database, self.past, self.now = database, STALE_MS, now_ms

    async def do(self, step, *args, **options):
        async with self.database.transaction() as session:
            return await step(session, *args, **options)

    async def add(self, *keys, lane=LANE, op="ingest"):
        for key in keys:
            await self.do(pending_ops.add, 7, lane, op, key, {"attempt": 1})

    async def claim(self, limit=100, owner="a", lane=LANE):
        stale = self.now() - self.past
        found = await self.do(pending_ops.claim_batch, lane, limit, owner=owner, stale_before=stale)
        return [(one.dedup_key, one.op) for one in found], [one.id for one in found]


@pytest.fixture(params=BOTH)
async def work(request, tmp_path):
    with migrated(request.param, tmp_path) as url:
        database = Database.open(url)
        yield Work(database)
        await database.close()


async def test_a_batch_is_so_many_keys_with_all_their_operations_oldest_first(work):
    await work.add("x", "y", "x", "z")
    assert (await work.claim(2))[0] == [("x", "ingest"), ("y", "ingest"), ("x", "ingest")]
    assert (await work.claim(2, "b"))[0] == [("z", "ingest")]
    assert (await work.claim(2, "c"))[0] == []


async def test_what_comes_for_a_key_meanwhile_waits_for_its_holder(work):
    await work.add("x")
    _, held = await work.claim()
    await work.add("x", op="retract")
    assert (await work.claim(owner="b"))[0] == []
    assert await work.do(pending_ops.delete_ops, held, owner="a") == 1
    assert (await work.claim(owner="b"))[0] == [("x", "retract")]


async def test_a_claim_that_is_stale_is_free_again_and_its_holder_settles_nothing_more(work):
    await work.add("x")
    _, held = await work.claim()
    work.past = -1
    assert (await work.claim(owner="b"))[1] == held
    assert await work.do(pending_ops.delete_ops, held, owner="a") == 0
    assert await work.do(pending_ops.fail, held, owner="a") == {}
    assert await work.do(pending_ops.release, held, owner="a") == 0
    assert await work.do(pending_ops.fail, held, owner="b") == {held[0]: 1}


async def test_what_was_given_back_may_be_claimed_at_once(work):
    await work.add("x", "y")
    _, held = await work.claim()
    assert await work.do(pending_ops.release, held, owner="a") == 2
    assert (await work.claim(owner="b"))[1] == held


async def test_what_failed_comes_last(work):
    await work.add("x", "y", "z")
    _, held = await work.claim(2)
    assert await work.do(pending_ops.fail, held[:1], owner="a") == {held[0]: 1}
    assert await work.do(pending_ops.release, held[1:], owner="a") == 1
    assert [key for key, _ in (await work.claim(2, "b"))[0]] == ["y", "z"]
    assert [key for key, _ in (await work.claim(2, "b"))[0]] == ["x"]


async def test_failures_are_counted_in_one_statement_and_what_is_gone_has_no_count(work):
    await work.add("x")
    _, held = await work.claim()
    assert await work.do(pending_ops.fail, [*held, 4711], owner="a") == {held[0]: 1}
    _, held = await work.claim()
    assert await work.do(pending_ops.fail, held, owner="a") == {held[0]: 2}


async def test_operations_without_a_key_belong_with_no_other(work):
    await work.add("", "", "")
    assert len((await work.claim(2))[1]) == 2
    assert len((await work.claim(2, "b"))[1]) == 1


async def test_lanes_are_apart(work):
    await work.add("x")
    await work.add("x", lane=OTHER)
    assert len((await work.claim())[1]) == 1
    assert len((await work.claim(owner="b", lane=OTHER))[1]) == 1
    assert await work.do(pending_ops.delete_lane, LANE) == 1
    assert await work.do(pending_ops.count, LANE) == 0
    assert await work.do(pending_ops.count, OTHER) == 1


async def test_a_limit_is_at_least_one_and_at_most_a_thousand(work):
    await work.add("x", "y")
    assert len((await work.claim(0))[1]) == 1
    assert len(await work.do(pending_ops.peek, LANE, 10**9)) == 2


async def test_looking_claims_nothing(work):
    await work.add("x")
    (seen,) = await work.do(pending_ops.peek, LANE, 5)
    assert (seen.claimed_at, seen.payload, seen.fail_count) == (None, {"attempt": 1}, 0)
    assert len((await work.claim())[1]) == 1


async def test_operations_are_removed_by_key_and_kind_and_tenant(work):
    await work.add("x", "y")
    await work.add("x", op="retract")
    assert await work.do(pending_ops.delete_key, LANE, "x", "ingest") == 1
    assert await work.do(pending_ops.waiting_keys, LANE.task_type, "retract", ["x", "y", ""]) == {"x"}
    (backlog,) = await work.do(pending_ops.backlogs, LANE.task_type)
    assert (backlog.lane, backlog.tenant_id, backlog.count) == (LANE, 7, 2)
    assert await work.do(pending_ops.delete_tenants, [8]) == 0
    assert await work.do(pending_ops.delete_tenants, [7]) == 2


@pytest.mark.parametrize("lane", [Lane("", "s", "i"), Lane("t", "", "i"), Lane("t", "s", "")])
async def test_a_name_with_a_missing_part_is_refused(work, lane):
    with pytest.raises(ValueError, match="needs"):
        await work.add("x", lane=lane)
    with pytest.raises(ValueError, match="needs"):
        await work.do(pending_ops.delete_lane, lane)


async def test_an_empty_key_removes_nothing(work):
    await work.add("")
    with pytest.raises(ValueError, match="empty"):
        await work.do(pending_ops.delete_key, LANE, "")


class Claimers:
    """Some who claim at once, of whose batches every third is given back and every fourth dies with its holder."""

    def __init__(self, work):
        self.work, self.holders, self.done, self.batches = work, dict[str, str](), Counter[int](), 0

    async def consume(self):
        """Claim until nothing is free."""
        owner = new_id()
        claimed, ids = await self.work.claim(5, owner)
        if not ids:
            return
        self.batches += 1
        keys = {key for key, _ in claimed}
        assert not keys & self.holders.keys(), "a key is held twice"
        self.holders |= dict.fromkeys(keys, owner)
        if self.batches % 4 == 0:
            return
        await self.work.do(pending_ops.peek, LANE, 1)  # the others go on meanwhile
        for key in keys:
            del self.holders[key]
        if self.batches % 3 == 0:
            assert await self.work.do(pending_ops.release, ids, owner=owner) == len(ids)
        else:
            assert await self.work.do(pending_ops.delete_ops, ids, owner=owner) == len(ids)
            self.done.update(ids)
        await self.consume()


@pytest.mark.parametrize("claimers", [2, 4])
async def test_no_key_is_ever_held_twice_and_every_operation_is_done_once(work, claimers, monkeypatch):
    clock = [now_ms()]
    monkeypatch.setattr(pending_ops, "now_ms", lambda: clock[0])
    work.now = lambda: clock[0]
    crowd = Claimers(work)
    for start in range(4):
        keys = [f"k{n}" for n in range(start, 40, 2)]
        await asyncio.gather(*(work.add(key) for key in keys), *(crowd.consume() for _ in range(claimers)))
    while await work.do(pending_ops.count, LANE):
        clock[0] += STALE_MS + 1  # those who died are found by the age of their claims
        crowd.holders.clear()
        await asyncio.gather(*(crowd.consume() for _ in range(claimers)))
    assert len(crowd.done) == 20 + 20 + 19 + 19
    assert set(crowd.done.values()) == {1}


async def test_how_much_is_free_and_how_many_hold_the_rest_is_told(work):
    await work.add("x", "y", "z", "x")
    await work.add("w", lane=OTHER)
    await work.claim(1, "a")
    told = await work.do(pending_ops.pressure, LANE, stale_before=0, most=10)
    assert told == (2, 1)
    assert (await work.do(pending_ops.pressure, LANE, stale_before=0, most=1)).free == 1
    assert (await work.do(pending_ops.pressure, LANE, stale_before=now_ms() + 1, most=10)) == (3, 0)


async def test_a_job_that_comes_again_gives_back_what_its_earlier_deliveries_hold_and_nothing_else(work):
    await work.add("x", "y", "z")
    await work.claim(1, "job:1")
    await work.claim(1, "job2:1")
    assert await work.do(pending_ops.release_all, LANE, owners="job:") == 1
    assert (await work.claim(5, "c"))[0] == [("x", "ingest"), ("z", "ingest")]


async def test_since_when_a_lane_waits_is_told(work):
    assert await work.do(pending_ops.waits_since, LANE) is None
    await work.add("x")
    assert await work.do(pending_ops.waits_since, LANE) <= now_ms()
