"""What is remembered of a person: added, read, changed, deleted, recalled. Nothing is ever shown of another one.

Whoever changes anything of a person's first locks their row (`hold`). What says the same as something known takes its
place and makes no second; what somebody deleted is not read again, only added.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from sqlalchemy import Select, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.embedding.embedder import Embedder, Vectors
from consumers.knowledge.language.words import terms
from consumers.knowledge.memory.remembering import Noted
from consumers.knowledge.memory.settings import settings_of
from consumers.knowledge.tables.knowledge import table_of
from consumers.knowledge.tables.memory import MemoryItem, MemorySubject, SessionMessage
from contracts.identity import new_id
from contracts.memory import ADDED
from pipeline.store import changed, insert_new, now_ms

CONSIDERED: Final = 200
"""Stored things that a new one is compared with, the newest."""
SHOWN: Final = 15
"""Things that an answer is given, and that the block of a person lists."""
TOPICS: Final = 12
SAME: Final = 0.93
"""Likeness from which on two sentences say the same whatever their words …"""
NEAR: Final = 0.8
SHARED: Final = 0.5
"""… and from which on they do if they share so much of their words."""


@dataclass(frozen=True, slots=True)
class Who:
    """A person of a tenant."""

    tenant_id: int
    subject_id: str

    def owns(self, row: type[MemorySubject] | type[MemoryItem] | type[SessionMessage]) -> tuple[Any, ...]:
        """Return the condition of their own rows."""
        return row.tenant_id == self.tenant_id, row.subject_id == self.subject_id


@dataclass(frozen=True, slots=True)
class Said:
    """Something to remember with its vector, and how and where it was learned."""

    noted: Noted
    vector: Vectors
    model: str
    method: str = ADDED
    session_id: str = ""


async def said_of(
    embedder: Embedder, noted: Sequence[Noted], *, method: str = ADDED, session_id: str = ""
) -> list[Said]:
    """Give vectors to what is to be remembered; done before a transaction, so that nobody waits for it."""
    vectors = await embedder.embed([one.text for one in noted]) if noted else ()
    return [
        Said(one, vector, embedder.model, method, session_id)
        for one, vector in zip(noted, vectors, strict=True)
    ]


async def hold(session: AsyncSession, who: Who, *, make: bool = True) -> MemorySubject | None:
    """Return the row of a person, made if there is none and `make` says so; it is the caller's until the transaction ends."""
    if make:
        now = now_ms()
        row = {
            "tenant_id": who.tenant_id,
            "subject_id": who.subject_id,
            "enabled": True,
            "block_text": "",
            "last_position": 0,
            "extract_cursor": 0,
            "pending_sessions": [],
            "extract_job": "",
            "extract_scheduled_at": None,
            "last_extracted_at": None,
            "created_at": now,
            "updated_at": now,
        }
        await insert_new(session, table_of(MemorySubject), [row])
    query = select(MemorySubject).where(*who.owns(MemorySubject)).with_for_update()
    found: MemorySubject | None = await session.scalar(query.execution_options(populate_existing=True))
    return found


async def change(session: AsyncSession, who: Who, **values: Any) -> None:
    """Change the row of a person that is held."""
    await changed(
        session,
        update(MemorySubject).where(*who.owns(MemorySubject)).values(updated_at=now_ms(), **values),
    )


async def remember(session: AsyncSession, who: Who, said: Sequence[Said], most: int) -> list[MemoryItem]:
    """Add what is not known yet and bring what is up to date; the person's row is held. Returns what was written. What was
    read does not take the place of what somebody added, nor bring back what somebody deleted.

    Of what was read, the oldest makes room; what somebody added stays, and nothing is added where only that is left.
    """
    written: list[str] = []
    for one in said:
        known = list(await session.scalars(_newest(who).limit(CONSIDERED)))
        match = _match(known, one)
        if match is not None and one.method != ADDED and _stays(match, one):
            continue
        values = {
            "kind": one.noted.kind,
            "topic": one.noted.topic[:64],
            "text": one.noted.text,
            "session_id": one.session_id,
            "message_id": one.noted.message_id,
            "method": one.method,
            "vector": _packed(one.vector),
            "model": one.model,
            "updated_at": now_ms(),
            "deleted_at": None,
        }
        if match is not None:
            ident = match.id
            await changed(session, update(MemoryItem).where(MemoryItem.id == ident).values(**values))
        else:
            if not await _make_room(session, who, most):
                continue
            ident = new_id()
            row = {"id": ident, "tenant_id": who.tenant_id, "subject_id": who.subject_id, **values}
            await insert_new(session, table_of(MemoryItem), [{**row, "created_at": row["updated_at"]}])
        written.append(ident)
    await rewrite_block(session, who)
    return await _by_id(session, who, written)


async def edit(session: AsyncSession, who: Who, item_id: str, said: Said) -> MemoryItem | None:
    """Write a thing anew; None where it is not there. The person's row is held."""
    values = {
        "kind": said.noted.kind,
        "topic": said.noted.topic[:64],
        "text": said.noted.text,
        "method": ADDED,
        "vector": _packed(said.vector),
        "model": said.model,
        "updated_at": now_ms(),
    }
    if not await changed(session, update(MemoryItem).where(*_live(who, item_id)).values(**values)):
        return None
    await rewrite_block(session, who)
    return next(iter(await _by_id(session, who, [item_id])), None)


async def delete_item(session: AsyncSession, who: Who, item_id: str) -> bool:
    """Delete a thing: no word of it stays, and it is not read again. The person's row is held."""
    values = {"text": "", "topic": "", "session_id": "", "message_id": "", "deleted_at": now_ms()}
    if not await changed(session, update(MemoryItem).where(*_live(who, item_id)).values(**values)):
        return False
    await rewrite_block(session, who)
    return True


async def forget(session: AsyncSession, who: Who) -> int:
    """Forget all that is remembered of a person, and read nothing of what they said until now. Returns how much it was."""
    subject = await hold(session, who, make=False)
    if subject is None:
        return 0
    count = await session.scalar(select(func.count()).select_from(MemoryItem).where(*_live(who)))
    await session.execute(delete(MemoryItem).where(*who.owns(MemoryItem)))
    await change(session, who, block_text="", extract_cursor=subject.last_position, pending_sessions=[])
    return count or 0


async def switch(session: AsyncSession, who: Who, *, on: bool) -> None:
    """Remember a person from now on, or neither read nor recall anything of theirs; what is remembered stays."""
    subject = await hold(session, who)
    if subject is not None and subject.enabled != on:
        await change(session, who, enabled=on, extract_cursor=subject.last_position, pending_sessions=[])


async def forget_tenant(session: AsyncSession, tenant_id: int) -> int:
    """Forget all people of a tenant, and what they said. Returns how many things were remembered."""
    held = select(MemorySubject.subject_id).where(MemorySubject.tenant_id == tenant_id)
    await session.execute(held.order_by(MemorySubject.subject_id).with_for_update())
    live = MemoryItem.tenant_id == tenant_id, MemoryItem.deleted_at.is_(None)
    count = await session.scalar(select(func.count()).select_from(MemoryItem).where(*live))
    for table in (MemoryItem, SessionMessage, MemorySubject):
        await session.execute(delete(table).where(table.tenant_id == tenant_id))
    return count or 0


async def subject_of(session: AsyncSession, who: Who) -> MemorySubject | None:
    """Return the row of a person."""
    found: MemorySubject | None = await session.scalar(select(MemorySubject).where(*who.owns(MemorySubject)))
    return found


async def subjects_of(
    session: AsyncSession, tenant_id: int, after: str, limit: int
) -> Sequence[tuple[MemorySubject, int]]:
    """Return people of a tenant behind one, by name, each with how much is remembered of them."""
    count = (
        select(func.count())
        .select_from(MemoryItem)
        .where(MemoryItem.tenant_id == tenant_id, MemoryItem.subject_id == MemorySubject.subject_id)
        .where(MemoryItem.deleted_at.is_(None))
        .scalar_subquery()
    )
    listed = select(MemorySubject, count).where(
        MemorySubject.tenant_id == tenant_id, MemorySubject.subject_id > after
    )
    rows = await session.execute(listed.order_by(MemorySubject.subject_id).limit(limit))
    return [(row[0], row[1] or 0) for row in rows]


async def item(session: AsyncSession, who: Who, item_id: str) -> MemoryItem | None:
    """Return one thing."""
    found: MemoryItem | None = await session.scalar(select(MemoryItem).where(*_live(who, item_id)))
    return found


async def items_of(
    session: AsyncSession, who: Who, after: str = "", limit: int | None = None, contains: str = ""
) -> Sequence[MemoryItem]:
    """Return what is remembered of a person, in the order in which it was learned, what comes behind one."""
    listed = select(MemoryItem).where(*_live(who), MemoryItem.id > after)
    if contains:
        listed = listed.where(MemoryItem.text.icontains(contains, autoescape=True))
    return (await session.scalars(listed.order_by(MemoryItem.id).limit(limit))).all()


async def counted(session: AsyncSession, who: Who) -> tuple[int, Mapping[str, int]]:
    """Return how much is remembered of a person, and of which topics most."""
    rows = (
        await session.execute(
            select(MemoryItem.topic, func.count()).where(*_live(who)).group_by(MemoryItem.topic)
        )
    ).all()
    most = sorted(rows, key=lambda row: (-row[1], row[0]))[:TOPICS]
    return sum(row[1] for row in rows), {row[0]: row[1] for row in most}


async def recall(
    session: AsyncSession, who: Who, asked: Vectors, model: str, limit: int = SHOWN
) -> list[tuple[MemoryItem, float]]:
    """Return what is remembered of a person that is nearest to something, with its likeness; nothing where memory, or that of
    the person, is switched off.
    """
    settings = await settings_of(session, who.tenant_id)
    subject = await subject_of(session, who)
    if not settings.enabled or subject is None or not subject.enabled:
        return []
    newest = select(MemoryItem).where(*_live(who), MemoryItem.model == model)
    found = (await session.scalars(newest.order_by(MemoryItem.updated_at.desc()).limit(settings.items))).all()
    if not found:
        return []
    near = np.stack([_unpacked(one.vector) for one in found]) @ asked
    best = np.argsort(-near, kind="stable")[:limit]
    return [(found[int(at)], float(near[at])) for at in best]


async def rewrite_block(session: AsyncSession, who: Who) -> None:
    """Write down in a few lines who a person is, for whoever answers them."""
    newest = select(MemoryItem).where(*_live(who)).order_by(MemoryItem.updated_at.desc(), MemoryItem.id)
    found = await session.scalars(newest.limit(SHOWN))
    lines = [f"- {one.text}" for one in sorted(found, key=lambda one: (one.kind, one.topic, one.id))]
    await change(session, who, block_text="\n".join(lines))


def _live(who: Who, item_id: str | None = None) -> tuple[Any, ...]:
    live = *who.owns(MemoryItem), MemoryItem.deleted_at.is_(None)
    return live if item_id is None else (*live, MemoryItem.id == item_id)


def _newest(who: Who) -> Select[MemoryItem]:
    """With those that were deleted: they tell what is not to be read again."""
    query = select(MemoryItem).where(*who.owns(MemoryItem)).execution_options(populate_existing=True)
    return query.order_by(MemoryItem.updated_at.desc(), MemoryItem.id.desc())


def _match(known: Collection[MemoryItem], said: Said) -> MemoryItem | None:
    """What is known that says the same, or that the new one takes the place of."""
    noted = said.noted
    live = [one for one in known if one.deleted_at is None]
    if noted.only:
        for one in live:
            if one.topic == noted.topic:
                return one
    words = set(terms(noted.text))
    for one in known:
        if one.model != said.model:
            if one.text.casefold() == noted.text.casefold():
                return one
            continue
        near = float(_unpacked(one.vector) @ said.vector)
        theirs = set(terms(one.text))
        shared = len(words & theirs) / len(words | theirs) if words | theirs else 0.0
        if near >= SAME or (near >= NEAR and shared >= SHARED):
            return one
    return None


def _stays(known: MemoryItem, read: Said) -> bool:
    """Whether something known is not to be written over by what was read and says the same: only of what is one at a time, newer
    is better.
    """
    return known.deleted_at is not None or (known.method == ADDED and not read.noted.only)


async def _make_room(session: AsyncSession, who: Who, most: int) -> bool:
    """Let one more thing be remembered; False where only what somebody added could go."""
    count = await session.scalar(select(func.count()).select_from(MemoryItem).where(*_live(who)))
    over = (count or 0) - most + 1
    if over <= 0:
        return True
    read = select(MemoryItem.id).where(*_live(who), MemoryItem.method != ADDED)
    oldest = list(await session.scalars(read.order_by(MemoryItem.updated_at, MemoryItem.id).limit(over)))
    await session.execute(delete(MemoryItem).where(MemoryItem.id.in_(oldest)))
    return len(oldest) == over


async def _by_id(session: AsyncSession, who: Who, ids: Sequence[str]) -> list[MemoryItem]:
    query = select(MemoryItem).where(*_live(who), MemoryItem.id.in_(ids)).order_by(MemoryItem.id)
    return list(await session.scalars(query.execution_options(populate_existing=True)))


def _packed(vector: Vectors) -> bytes:
    return np.asarray(vector, dtype="<f4").tobytes()


def _unpacked(data: bytes) -> Vectors:
    return np.frombuffer(data, dtype="<f4")
