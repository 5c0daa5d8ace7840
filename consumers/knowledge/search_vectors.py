"""The vectors of a base in memory, exact and always as new as the transaction that asks.

SQLite finds no neighbours, and twenty thousand vectors are compared in two milliseconds once they are in memory.
Other processes write meanwhile, so every look first reads the version of the base: `puts` moved on means rows
behind the last known `seq`, `drops` moved on means that some rows are gone.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.search import Vector

DEFAULT_BUDGET_BYTES = 256 * 1024 * 1024
PAGE_ROWS = 4096

_VERSION = text("SELECT puts, drops FROM search_versions WHERE kb_id = :kb_id")
_COUNT = text(
    "SELECT count(*) FROM search_entries WHERE kb_id = :kb_id AND model = :model AND dimension = :dimension"
)
_SEQS = text(
    "SELECT seq FROM search_entries WHERE kb_id = :kb_id AND model = :model AND dimension = :dimension"
)
_PAGE = text(
    "SELECT seq, vector FROM search_entries WHERE kb_id = :kb_id AND model = :model"
    " AND dimension = :dimension AND seq > :after ORDER BY seq LIMIT :rows"
)


class Space(NamedTuple):
    """Vectors that may be compared: of one base, one model and one length."""

    kb_id: str
    model: str
    dimension: int


@dataclass(frozen=True, slots=True)
class Slab:
    """The unit vectors of a space as one matrix; row i belongs to the entry `seqs[i]`, ascending."""

    puts: int
    drops: int
    seqs: NDArray[np.int64]
    matrix: Vector


class VectorCache:
    """Slabs of the spaces last asked for, within a budget; a space that does not fit alone is read in pages."""

    def __init__(self, budget_bytes: int = DEFAULT_BUDGET_BYTES) -> None:
        self._budget = budget_bytes
        self._slabs: OrderedDict[Space, Slab] = OrderedDict()
        self._loading = asyncio.Lock()

    async def nearest(
        self, session: AsyncSession, space: Space, wanted: Vector, depth: int
    ) -> list[tuple[float, int]]:
        """The cosine and `seq` of the closest entries, closest first. `wanted` is a unit vector."""
        best: list[tuple[float, int]] = []
        async for seqs, matrix in self._blocks(session, space):
            found = await asyncio.to_thread(_closest, seqs, matrix, wanted, depth)
            best = sorted([*best, *found], key=lambda one: (-one[0], one[1]))[:depth]
        return best

    async def _blocks(
        self, session: AsyncSession, space: Space
    ) -> AsyncIterator[tuple[NDArray[np.int64], Vector]]:
        rows = (await session.execute(_COUNT, space._asdict())).scalar_one()
        if rows * space.dimension * 4 > self._budget:
            self._slabs.pop(space, None)
            async for page in _pages(session, space, after=0):
                yield page
        elif rows:
            slab = await self._fresh(session, space)
            yield slab.seqs, slab.matrix

    async def _fresh(self, session: AsyncSession, space: Space) -> Slab:
        """The slab of a space as this transaction sees it. One loads at a time, the others find it loaded."""
        version = (await session.execute(_VERSION, {"kb_id": space.kb_id})).one_or_none()
        puts, drops = version or (0, 0)
        async with self._loading:
            slab = self._slabs.get(space) or Slab(-1, -1, np.empty(0, np.int64), _none(space))
            # A slab may be ahead of this transaction: its extra rows are not found later, which is no harm.
            if slab.puts < puts or slab.drops < drops:
                slab = await _caught_up(session, space, slab, puts, drops)
            self._slabs[space] = slab
            self._slabs.move_to_end(space)
            self._evict()
            return slab

    def _evict(self) -> None:
        held = sum(slab.matrix.nbytes for slab in self._slabs.values())
        while held > self._budget and len(self._slabs) > 1:
            _, oldest = self._slabs.popitem(last=False)
            held -= oldest.matrix.nbytes


async def _caught_up(session: AsyncSession, space: Space, slab: Slab, puts: int, drops: int) -> Slab:
    seqs, matrix = slab.seqs, slab.matrix
    if slab.drops != drops and len(seqs):
        alive = np.fromiter((await session.execute(_SEQS, space._asdict())).scalars(), np.int64)
        kept = np.isin(seqs, alive)
        seqs, matrix = seqs[kept], matrix[kept]
    pages = [page async for page in _pages(session, space, after=int(slab.seqs[-1]) if len(slab.seqs) else 0)]
    if pages:
        seqs = np.concatenate([seqs, *(page[0] for page in pages)])
        matrix = np.concatenate([matrix, *(page[1] for page in pages)])
    return Slab(puts, drops, seqs, matrix)


async def _pages(
    session: AsyncSession, space: Space, *, after: int
) -> AsyncIterator[tuple[NDArray[np.int64], Vector]]:
    while True:
        page = {**space._asdict(), "after": after, "rows": PAGE_ROWS}
        rows = (await session.execute(_PAGE, page)).all()
        if rows:
            blobs = b"".join(row.vector for row in rows)
            matrix = np.frombuffer(blobs, "<f4").reshape(len(rows), space.dimension)
            yield (
                np.fromiter((row.seq for row in rows), np.int64, len(rows)),
                matrix.astype(np.float32, copy=False),
            )
            after = rows[-1].seq
        if len(rows) < PAGE_ROWS:
            return


def _none(space: Space) -> Vector:
    return np.empty((0, space.dimension), np.float32)


def _closest(seqs: NDArray[np.int64], matrix: Vector, wanted: Vector, depth: int) -> list[tuple[float, int]]:
    scores = matrix @ wanted
    if len(scores) > depth:
        top = np.argpartition(-scores, depth)[:depth]
        scores, seqs = scores[top], seqs[top]
    return list(zip(scores.tolist(), seqs.tolist(), strict=True))
