"""The vectors of a base in memory, exact and always as new as the transaction that asks.

SQLite finds no neighbours, and twenty thousand vectors are compared in two milliseconds once they are in memory.
Other processes write meanwhile, so every look first reads the version of the index: `puts` moved on means rows
behind the last known `seq`, `drops` moved on means that some rows are gone.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, text

from consumers.knowledge.search.store import Vector

DEFAULT_BUDGET_BYTES = 256 * 1024 * 1024
PAGE_ROWS = 4096

_VERSION = text("SELECT puts, drops FROM search_versions WHERE kb_id = :kb_id AND generation = :generation")
_SPACE = "FROM search_vectors WHERE kb_id = :kb_id AND generation = :generation AND model = :model AND dimension = :dimension"
_COUNT = text(f"SELECT count(*) {_SPACE}")
_SEQS = text(f"SELECT seq {_SPACE}")
_PAGE = text(f"SELECT seq, sort, vector {_SPACE} AND seq > :after ORDER BY seq LIMIT :rows")


class Space(NamedTuple):
    """Vectors that may be compared: of one base and generation of its index, one model and one length."""

    kb_id: str
    model: str
    generation: int
    dimension: int


@dataclass(frozen=True, slots=True)
class Block:
    """Entries, by ascending `seq`: row i of the matrix is the unit vector of entry `seqs[i]`, of sort `sorts[i]`."""

    seqs: NDArray[np.int64]
    sorts: NDArray[np.int8]
    matrix: Vector


@dataclass(frozen=True, slots=True)
class Slab:
    """A whole space in memory, as of a version of its base."""

    puts: int
    drops: int
    block: Block


class VectorCache:
    """Slabs of the spaces last asked for, within a budget; a space that does not fit alone is read in pages."""

    def __init__(self, budget_bytes: int = DEFAULT_BUDGET_BYTES) -> None:
        self._budget = budget_bytes
        self._slabs: OrderedDict[Space, Slab] = OrderedDict()
        self._loading = threading.Lock()

    def nearest(
        self, connection: Connection, space: Space, wanted: Vector, depth: int
    ) -> list[tuple[float, int]]:
        """The cosine and `seq` of the closest entries, `depth` of each sort. `wanted` is a unit vector."""
        best: dict[int, list[tuple[float, int]]] = {}
        for block in self._blocks(connection, space):
            for sort, found in _closest(block, wanted, depth).items():
                best[sort] = sorted([*best.get(sort, ()), *found], key=closest_first)[:depth]
        return [one for found in best.values() for one in found]

    def _blocks(self, connection: Connection, space: Space) -> Iterator[Block]:
        version = connection.execute(_VERSION, space._asdict()).one_or_none()
        if version is None:
            return
        # One loads at a time; whoever waited finds it loaded.
        with self._loading:
            slab = self._slabs.get(space)
            # A slab may be ahead of this transaction: rows it has too many are not found later, which is no harm.
            if slab is None or slab.puts < version.puts or slab.drops < version.drops:
                slab = self._load(connection, space, slab, *version)
            else:
                self._slabs.move_to_end(space)
        if slab is not None:
            yield slab.block
        else:
            yield from _pages(connection, space, after=0)

    def _load(
        self, connection: Connection, space: Space, slab: Slab | None, puts: int, drops: int
    ) -> Slab | None:
        """Bring the slab of a space up to a version; None when it would not fit."""
        rows = connection.execute(_COUNT, space._asdict()).scalar_one()
        self._slabs.pop(space, None)
        if rows * space.dimension * 4 > self._budget:
            return None
        fresh = Slab(puts, drops, _caught_up(connection, space, slab, drops))
        held = fresh.block.matrix.nbytes + sum(one.block.matrix.nbytes for one in self._slabs.values())
        while self._slabs and held > self._budget:
            held -= self._slabs.popitem(last=False)[1].block.matrix.nbytes
        self._slabs[space] = fresh
        return fresh


def closest_first(found: tuple[float, int]) -> tuple[float, int]:
    """The order of what `nearest` finds; of equals, the older first."""
    cosine, seq = found
    return -cosine, seq


def _caught_up(connection: Connection, space: Space, slab: Slab | None, drops: int) -> Block:
    blocks, last = [], 0
    if slab is not None and len(slab.block.seqs):
        blocks, last = [slab.block], int(slab.block.seqs[-1])
        if slab.drops != drops:
            alive = np.array(connection.execute(_SEQS, space._asdict()).scalars().all(), np.int64)
            kept = np.isin(slab.block.seqs, alive)
            blocks = [Block(slab.block.seqs[kept], slab.block.sorts[kept], slab.block.matrix[kept])]
    blocks += _pages(connection, space, after=last)
    if len(blocks) == 1:
        return blocks[0]
    return Block(
        np.concatenate([np.empty(0, np.int64), *(block.seqs for block in blocks)]),
        np.concatenate([np.empty(0, np.int8), *(block.sorts for block in blocks)]),
        np.concatenate([np.empty((0, space.dimension), np.float32), *(block.matrix for block in blocks)]),
    )


def _pages(connection: Connection, space: Space, *, after: int) -> Iterator[Block]:
    while True:
        page = {**space._asdict(), "after": after, "rows": PAGE_ROWS}
        rows = (connection.execute(_PAGE, page)).all()
        if not rows:
            return
        seqs, sorts, blobs = zip(*rows, strict=True)
        matrix = np.frombuffer(b"".join(blobs), "<f4").reshape(len(rows), space.dimension)
        yield Block(np.array(seqs, np.int64), np.array(sorts, np.int8), matrix.astype(np.float32, copy=False))
        after = seqs[-1]


def _closest(block: Block, wanted: Vector, depth: int) -> dict[int, list[tuple[float, int]]]:
    cosines = block.matrix @ wanted
    best = {}
    for sort in np.unique(block.sorts).tolist():
        among = np.flatnonzero(block.sorts == sort)
        if len(among) > depth:
            among = among[np.argpartition(-cosines[among], depth)[:depth]]
        best[sort] = list(zip(cosines[among].tolist(), block.seqs[among].tolist(), strict=True))
    return best
