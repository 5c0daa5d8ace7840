"""Operations that wait for the next batch of their lane; what is worked on together is claimed together (facts 4.4, 4.5).

Operations of one key are never split between two holders: a key is claimed with all its rows, and what is added to it
meanwhile waits until its holder has settled or its claim is stale. Whoever settles has to be the holder still.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Row, delete, exists, func, or_, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

from pipeline.clock import now_ms
from pipeline.store.rows import batches, changed
from pipeline.store.tables_pending import task_pending_ops

LONGEST: Final = 1000

_ops: Final = task_pending_ops.c


class Lane(NamedTuple):
    """The identity of a queue of operations."""

    task_type: str
    scope: str
    scope_id: str


@dataclass(frozen=True, slots=True)
class PendingOp:
    """One operation. `fail_count` is how often its batch failed it; times are milliseconds since the epoch."""

    id: int
    tenant_id: int
    lane: Lane
    op: str
    dedup_key: str
    payload: Mapping[str, Any]
    fail_count: int
    enqueued_at: int
    claimed_at: int | None
    claimed_by: str


@dataclass(frozen=True, slots=True)
class Backlog:
    """How much waits in a lane, and since when (ms)."""

    lane: Lane
    tenant_id: int
    count: int
    oldest: int


class Pressure(NamedTuple):
    """How many keys of a lane are free, and how many owners hold others."""

    free: int
    holders: int


async def add(
    session: AsyncSession,
    tenant_id: int,
    lane: Lane,
    op: str,
    dedup_key: str = "",
    payload: Mapping[str, Any] | None = None,
) -> None:
    """Put an operation at the end of its lane. Raises ValueError when a part of its name is missing."""
    if not (all(lane) and op):
        raise ValueError(f"an operation needs task_type, scope, scope_id and op: {lane}, {op!r}")
    row = {
        **lane._asdict(),
        "tenant_id": tenant_id,
        "op": op,
        "dedup_key": dedup_key,
        "payload": json.dumps(dict(payload or {})),
        "fail_count": 0,
        "enqueued_at": now_ms(),
        "claimed_by": "",
    }
    await session.execute(task_pending_ops.insert(), [row])


async def peek(session: AsyncSession, lane: Lane, limit: int, op: str | None = None) -> list[PendingOp]:
    """Return the next operations of a lane, or those of one kind, whether claimed or not, those that failed last."""
    order = (_ops.fail_count, _ops.id)
    found = select(task_pending_ops).where(*_of(lane)).order_by(*order).limit(_bounded(limit))
    found = found if op is None else found.where(_ops.op == op)
    return [_read(row) for row in await session.execute(found)]


async def claim_batch(
    session: AsyncSession, lane: Lane, limit: int, *, owner: str, stale_before: int
) -> list[PendingOp]:
    """Claim every free operation of at most `limit` keys for `owner`, a token of this batch alone; oldest first, those
    that failed last. A claim made before `stale_before` (ms) is free again.

    Claims of a lane take turns until their transactions end: do nothing else in this one.
    """
    await _take_turn(session, lane)
    free = or_(_ops.claimed_at.is_(None), _ops.claimed_at < stale_before)
    sibling = task_pending_ops.alias()
    akin = (sibling.c[name] == _ops[name] for name in ("task_type", "scope", "scope_id", "dedup_key"))
    held = sibling.c.claimed_at >= stale_before
    first = tuple_(sibling.c.fail_count, sibling.c.id) < tuple_(_ops.fail_count, _ops.id)
    anchors = (
        select(_ops.id, _ops.dedup_key)
        .where(*_of(lane), free)
        .where(or_(_ops.dedup_key == "", ~exists().where(*akin, or_(held, first))))
        .order_by(_ops.fail_count, _ops.id)
        .limit(_bounded(limit))
        .with_for_update(skip_locked=True)
    )
    chosen = (await session.execute(anchors)).all()
    alone = [row.id for row in chosen if not row.dedup_key]
    keys = [row.dedup_key for row in chosen if row.dedup_key]
    claim = update(task_pending_ops).where(*_of(lane), free).values(claimed_at=now_ms(), claimed_by=owner)
    found: list[PendingOp] = []
    for narrowed in (*map(_ops.id.in_, batches(alone)), *map(_ops.dedup_key.in_, batches(keys))):
        rows = await session.execute(claim.where(narrowed).returning(task_pending_ops))
        found += [_read(row) for row in rows]
    return sorted(found, key=lambda one: one.id)


async def release(session: AsyncSession, ids: Sequence[int], *, owner: str) -> int:
    """Give operations of `owner` back; return how many were its own still."""
    free = update(task_pending_ops).values(claimed_at=None, claimed_by="")
    return sum(
        [await changed(session, free.where(_ops.id.in_(some), *_held(owner))) for some in batches(ids)]
    )


async def release_all(session: AsyncSession, lane: Lane, *, owners: str) -> int:
    """Give back what owners whose token begins with `owners` hold of a lane; return how many operations that were.

    For a job that comes again: what its earlier deliveries claimed nobody else will give back.
    """
    free = update(task_pending_ops).values(claimed_at=None, claimed_by="")
    return await changed(session, free.where(*_of(lane), _ops.claimed_by.startswith(owners, autoescape=True)))


async def pressure(session: AsyncSession, lane: Lane, *, stale_before: int, most: int) -> Pressure:
    """Return how many keys of a lane are free, counted up to `most`, and how many hold others."""
    free = select(_ops.dedup_key).where(
        *_of(lane), or_(_ops.claimed_at.is_(None), _ops.claimed_at < stale_before)
    )
    keys = free.distinct().limit(most).subquery()
    held = select(func.count(_ops.claimed_by.distinct())).where(*_of(lane), _ops.claimed_at >= stale_before)
    waiting = (await session.execute(select(func.count()).select_from(keys))).scalar_one()
    return Pressure(waiting, (await session.execute(held)).scalar_one())


async def fail(session: AsyncSession, ids: Sequence[int], *, owner: str) -> dict[int, int]:
    """Count a failure of operations of `owner` and give them back; return the new counts of those that were its own."""
    counted = update(task_pending_ops).values(fail_count=_ops.fail_count + 1, claimed_at=None, claimed_by="")
    counts: dict[int, int] = {}
    for some in batches(ids):
        narrowed = counted.where(_ops.id.in_(some), *_held(owner)).returning(_ops.id, _ops.fail_count)
        counts.update((row.id, row.fail_count) for row in await session.execute(narrowed))
    return counts


async def fail_all(session: AsyncSession, lane: Lane, *, owners: str) -> int:
    """Count a failure of all that owners whose token begins with `owners` hold of a lane, and give it back; return how
    many operations that were.
    """
    counted = update(task_pending_ops).values(fail_count=_ops.fail_count + 1, claimed_at=None, claimed_by="")
    theirs = _ops.claimed_by.startswith(owners, autoescape=True)
    return await changed(session, counted.where(*_of(lane), theirs))


async def delete_ops(session: AsyncSession, ids: Sequence[int], *, owner: str = "") -> int:
    """Remove operations, with an `owner` only those it holds still; return how many."""
    return sum(
        [
            await changed(session, delete(task_pending_ops).where(_ops.id.in_(some), *_held(owner)))
            for some in batches(ids)
        ]
    )


async def delete_key(session: AsyncSession, lane: Lane, dedup_key: str, op: str | None = None) -> int:
    """Remove the operations of a key, or those of one kind; return how many. Raises ValueError for an empty key."""
    if not dedup_key:
        raise ValueError("an empty dedup_key names no operations")
    narrowed = delete(task_pending_ops).where(*_of(lane), _ops.dedup_key == dedup_key)
    return await changed(session, narrowed if op is None else narrowed.where(_ops.op == op))


async def delete_lane(session: AsyncSession, lane: Lane) -> int:
    """Remove all operations of a lane; return how many. Raises ValueError when a part of its name is missing."""
    if not all(lane):
        raise ValueError(f"a lane needs task_type, scope and scope_id: {lane}")
    return await changed(session, delete(task_pending_ops).where(*_of(lane)))


async def delete_scope(session: AsyncSession, scope: str, scope_id: str) -> int:
    """Remove the operations of all lanes of a scope; return how many. Raises ValueError when a part of its name is missing."""
    if not (scope and scope_id):
        raise ValueError(f"a scope needs a kind and an id: {scope!r}, {scope_id!r}")
    of_it = _ops.scope == scope, _ops.scope_id == scope_id
    return await changed(session, delete(task_pending_ops).where(*of_it))


async def delete_tenants(session: AsyncSession, tenant_ids: Collection[int]) -> int:
    """Remove all operations of tenants; return how many."""
    return sum(
        [
            await changed(session, delete(task_pending_ops).where(_ops.tenant_id.in_(some)))
            for some in batches(sorted(tenant_ids))
        ]
    )


async def count(session: AsyncSession, lane: Lane) -> int:
    """Return how many operations a lane has, claimed or not."""
    return (await session.execute(select(func.count()).where(*_of(lane)))).scalar_one()


async def waits_since(session: AsyncSession, lane: Lane) -> int | None:
    """Return since when the oldest operation of a lane has waited (ms); None for an empty lane."""
    first = select(_ops.enqueued_at).where(*_of(lane)).order_by(_ops.enqueued_at).limit(1)
    since: int | None = await session.scalar(first)
    return since


async def backlogs(session: AsyncSession, task_type: str) -> list[Backlog]:
    """Return every lane of a type that has operations, the one that has waited longest first."""
    named = (_ops.task_type, _ops.scope, _ops.scope_id, _ops.tenant_id)
    oldest = func.min(_ops.enqueued_at)
    found = (
        select(*named, func.count(), oldest)
        .where(_ops.task_type == task_type)
        .group_by(*named)
        .order_by(oldest)
    )
    return [Backlog(Lane(*row[:3]), row.tenant_id, row[4], row[5]) for row in await session.execute(found)]


async def waiting_keys(session: AsyncSession, task_type: str, op: str, dedup_keys: Iterable[str]) -> set[str]:
    """Return those of these keys that have such an operation in any lane."""
    found: set[str] = set()
    for some in batches([key for key in dedup_keys if key]):
        narrowed = select(_ops.dedup_key).where(_ops.task_type == task_type, _ops.op == op)
        found |= set(await session.scalars(narrowed.where(_ops.dedup_key.in_(some))))
    return found


async def _take_turn(session: AsyncSession, lane: Lane) -> None:
    """Two claimers of a lane could each see rows of one key that the other does not see yet. SQLite has one writer."""
    if session.get_bind().dialect.name == "postgresql":
        number = blake2b("|".join(lane).encode(), digest_size=8).digest()
        await session.execute(select(func.pg_advisory_xact_lock(int.from_bytes(number, signed=True))))


def _of(lane: Lane) -> list[ColumnElement[bool]]:
    return [_ops[name] == value for name, value in lane._asdict().items()]


def _held(owner: str) -> list[ColumnElement[bool]]:
    return [_ops.claimed_by == owner] if owner else []


def _bounded(limit: int) -> int:
    return min(max(limit, 1), LONGEST)


def _read(row: Row[Any]) -> PendingOp:
    lane = Lane(row.task_type, row.scope, row.scope_id)
    return PendingOp(
        id=row.id,
        tenant_id=row.tenant_id,
        lane=lane,
        op=row.op,
        dedup_key=row.dedup_key,
        payload=json.loads(row.payload),
        fail_count=row.fail_count,
        enqueued_at=row.enqueued_at,
        claimed_at=row.claimed_at,
        claimed_by=row.claimed_by,
    )
