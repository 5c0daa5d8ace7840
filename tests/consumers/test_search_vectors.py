"""The vectors in memory: exact, as new as the transaction that asks, and within their budget."""

import asyncio
import random
import sys

import numpy as np
import pytest
from consumers.knowledge.search.sqlite import SqliteSearch
from consumers.knowledge.search.store import EntryKind, Vector
from consumers.knowledge.search.vectors import PAGE_ROWS, Space

from tests.support.databases import sqlite_file
from tests.support.indexes import MODEL, direction, entry, open_index
from tests.support.waiting import wait_until

DIMENSION = 4
ANY_WORD = "zzz"  # matches nothing, so that only vectors decide


def turned(degrees: float) -> Vector:
    return direction(degrees, DIMENSION)


def bytes_held(store: SqliteSearch) -> int:
    return sum(slab.block.matrix.nbytes for slab in store._vectors._slabs.values())


@pytest.fixture
async def index(tmp_path):
    async with open_index(sqlite_file(tmp_path)) as opened:
        yield opened


async def test_what_was_put_since_the_last_search_is_found(index):
    await index.put(entry("a/1", "", turned(50)))
    assert await index.found(ANY_WORD, turned(0)) == ["a/1"]
    await index.put(entry("b/1", "", turned(10)))
    assert await index.found(ANY_WORD, turned(0)) == ["b/1", "a/1"]


async def test_what_was_dropped_since_the_last_search_is_not(index):
    await index.put(*(entry(f"d{n}/1", "", turned(n)) for n in range(5)))
    await index.search(ANY_WORD, turned(0))
    await index.drop("d4")
    await index.drop("d0")
    await index.put(entry("d9/1", "", turned(0.5)))
    assert await index.found(ANY_WORD, turned(0)) == ["d9/1", "d1/1", "d2/1", "d3/1"]


async def test_the_newest_entry_dropped_and_another_put_are_told_apart(index):
    await index.put(entry("a/1", "", turned(10)), entry("b/1", "", turned(20)))
    await index.search(ANY_WORD, turned(0))
    await index.drop("b")
    await index.put(entry("c/1", "", turned(30)))
    assert await index.found(ANY_WORD, turned(0)) == ["a/1", "c/1"]


async def test_a_base_emptied_and_filled_again_is_followed(index):
    for round_ in range(3):
        await index.put(entry(f"a/{round_}", "", turned(0)))
        assert await index.found(ANY_WORD, turned(0)) == [f"a/{round_}"]
        await index.drop("a")
        assert await index.found(ANY_WORD, turned(0)) == []


async def test_only_what_is_new_is_loaded(index):
    await index.put(*(entry(f"d{n}/1", "", turned(n)) for n in range(20)))
    await index.search(ANY_WORD, turned(0))
    [before] = index.store._vectors._slabs.values()
    await index.search(ANY_WORD, turned(0))
    assert list(index.store._vectors._slabs.values()) == [before], "nothing changed, nothing is loaded"
    # A vector changed behind the index's back shows what is read again: nothing that was known.
    async with index.database.transaction() as session:
        connection = await session.connection()
        await connection.exec_driver_sql("UPDATE search_vectors SET vector = zeroblob(16)")
    await index.put(entry("new/1", "", turned(5.5)))
    assert (await index.found(ANY_WORD, turned(5)))[:2] == ["d5/1", "new/1"]


async def test_another_process_puts_and_drops_while_we_search(index):
    script = f"""
import asyncio, sys
from tests.support.indexes import direction, entry, open_index
async def main():
    async with open_index({str(index.database.url)!r}) as index:
        for n in range(40):
            sys.stdin.readline()
            await index.put(entry(f"d{{n}}/1", "", direction(n, {DIMENSION})))
            if n % 2:
                await index.drop(f"d{{n - 1}}")
asyncio.run(main())
"""
    writer = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdin=asyncio.subprocess.PIPE)
    pace = writer.stdin
    assert pace
    seen: set[str | None] = set()

    async def done() -> bool:
        pace.write(b"another\n")
        seen.update(await index.found(ANY_WORD, turned(0), limit=100))
        return writer.returncode is not None

    try:
        await wait_until(done, describe="the writer has ended", timeout=60)
    finally:
        if writer.returncode is None:
            writer.kill()
        assert await writer.wait() == 0
    assert await index.found(ANY_WORD, turned(0), limit=100) == [f"d{n}/1" for n in range(1, 40, 2)]
    assert len(seen) > 20, "it was searched while it was written"


async def test_any_mix_of_writes_is_found_exactly_by_every_searcher(index):
    """A plain list is the model; two searchers with caches of their own look at different moments."""
    chance = random.Random(7)
    other = SqliteSearch(index.database.url)
    model: dict[str, Vector] = {}
    for step in range(120):
        document = f"d{chance.randrange(12)}"
        if chance.random() < 0.6:
            added = {f"{document}/{chance.randrange(4)}": turned(chance.uniform(0, 180)) for _ in range(3)}
            await index.put(*(entry(chunk, "", at) for chunk, at in added.items()))
            model |= added
        else:
            await index.drop(document)
            model = {chunk: at for chunk, at in model.items() if not chunk.startswith(f"{document}/")}
        for store in (index.store, other) if step % 3 == 0 else (index.store,):
            wanted = turned(chance.uniform(0, 180))
            hits = await store.search(["kb"], ANY_WORD, wanted, model=MODEL, limit=100)
            closest = max(model.items(), key=lambda item: float(item[1] @ wanted), default=None)
            assert (hits[0].chunk_id if hits else None) == (closest and closest[0])
            slab = store._vectors._slabs.get(Space("kb", MODEL, 0, DIMENSION))
            assert slab is None or len(slab.block.seqs) == len(model)
    await other.close()


async def test_many_searches_at_once_while_somebody_writes(index):
    await index.put(*(entry(f"d{n}/1", "", turned(n)) for n in range(30)))

    async def write() -> None:
        for n in range(30, 60):
            await index.put(entry(f"d{n}/1", "", turned(n)))
            await index.drop(f"d{n - 30}")

    searches = [index.found(ANY_WORD, turned(59), limit=100) for _ in range(40)]
    _, *found = await asyncio.gather(write(), *searches)
    assert all(found)
    assert await index.found(ANY_WORD, turned(0), limit=100) == [f"d{n}/1" for n in range(30, 60)]


async def test_a_base_over_the_budget_is_searched_in_pages_and_not_kept(tmp_path):
    count, url = PAGE_ROWS * 2 + 10, sqlite_file(tmp_path)
    store = SqliteSearch(url, budget_bytes=count * DIMENSION * 4 - 1)
    async with open_index(url, store) as index:
        await index.put(*(entry(f"d{n}/1", "", turned(n * 180 / count)) for n in range(count)))
        for wanted in (0, PAGE_ROWS, count - 1):
            assert (await index.found(ANY_WORD, turned(wanted * 180 / count)))[0] == f"d{wanted}/1"
        assert bytes_held(store) == 0
        await index.drop("d0")
        await index.search(ANY_WORD, turned(0))
        assert bytes_held(store) == (count - 1) * DIMENSION * 4, "one fewer fits"


async def test_bases_take_turns_within_the_budget(tmp_path):
    url = sqlite_file(tmp_path)
    store = SqliteSearch(url, budget_bytes=25 * DIMENSION * 4)
    async with open_index(url, store) as index:
        for base in "abc":
            await index.put(*(entry(f"{base}{n}/1", "", turned(n), kb_id=base) for n in range(10)))
        for base in "abcacb":
            assert (await index.found(ANY_WORD, turned(3), kb=base))[0] == f"{base}3/1"
            assert bytes_held(store) <= 25 * DIMENSION * 4
        assert [space.kb_id for space in store._vectors._slabs] == ["c", "b"]


async def test_a_crowd_of_questions_hides_no_passage(index):
    asked = [
        entry(f"q{n}", "", turned(1), knowledge_id="q", chunk_id=f"q/{n}", kind=EntryKind.QUESTION)
        for n in range(300)
    ]
    await index.put(*asked, entry("a/1", "the answer", turned(40)))
    assert await index.found(ANY_WORD, turned(0)) == ["a/1"]


async def test_length_does_not_count(index):
    await index.put(
        entry("a/1", "", turned(10) * np.float32(1e-6)), entry("b/1", "", turned(20) * np.float32(1e6))
    )
    assert await index.found(ANY_WORD, turned(0) * np.float32(1e5)) == ["a/1", "b/1"]


async def test_a_base_that_was_removed_and_is_there_again_is_not_what_it_was(index):
    await index.put(*(entry(f"d{n}/1", "", turned(n)) for n in range(5)))
    for n in range(5):
        await index.put(entry(f"d{n}/1", "", turned(n)))
    await index.search(ANY_WORD, turned(0))
    while True:
        async with index.database.transaction() as session:
            if not await index.store.drop_base(session, "kb", limit=2):
                break
    await index.put(entry("new/1", "", turned(5)))
    assert await index.found(ANY_WORD, turned(0)) == ["new/1"]
