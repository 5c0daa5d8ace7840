"""What people say, and when it is read: a run for each person at a time, however many turns come meanwhile.

A turn that an assistant closes is put down in the transaction that stores it; the first one also takes the person's
slot and asks for the run. All others only leave the name of their session, which the run finds at its beginning, or at
its end. The slot names the job that holds it, so a job that was given up on and comes late has nothing to do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.memory.reading import CONTEXT, LONGEST_LINE, WINDOW, Line, Segment
from consumers.knowledge.memory.settings import MemorySettings, settings_of
from consumers.knowledge.memory.storing import Said, Who, change, hold, remember
from consumers.knowledge.tables.knowledge import table_of
from consumers.knowledge.tables.memory import MemorySubject, SessionMessage
from contracts.identity import derive_id, new_id
from contracts.memory import TurnRole
from contracts.payloads.memory import MemoryExtract
from pipeline.store import Outbox, insert_one, now_ms

MOST_SESSIONS: Final = 32
"""Sessions that are noted as waiting; the newest stay. What is read does not depend on them."""
GRACE_MS: Final = 600_000
"""How long after its time a run that did not move may still hold the slot."""
FOLLOW_UP_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a session. `id` is its sender's, so that sending it again adds nothing; empty: one is made."""

    session_id: str
    role: TurnRole
    content: str
    id: str = ""
    language: str | None = None


class Then(StrEnum):
    """What a message that was added came to."""

    STORED = "stored"
    """It is kept; nothing is read of it (yet)."""
    NOTED = "noted"
    """A run that is asked for already will read it."""
    SCHEDULED = "scheduled"
    """It asked for a run."""
    THERE = "there"
    """It was there already."""


@dataclass(frozen=True, slots=True)
class Run:
    """One job that holds the slot of a person. `cursor` is what was read before it, `sessions` what waited for it."""

    who: Who
    job_id: str
    cursor: int
    sessions: tuple[str, ...]
    settings: MemorySettings


async def add_message(session: AsyncSession, who: Who, message: Message) -> tuple[str, Then]:
    """Keep a message; one of an assistant closes a turn, which asks for a run if memory is read. Returns its id, and what it
    came to. What is said while memory is not read, never is.
    """
    subject = await _held(session, who)
    ident, position = message.id or new_id(), subject.last_position + 1
    row = {
        "tenant_id": who.tenant_id,
        "session_id": message.session_id,
        "id": ident,
        "subject_id": who.subject_id,
        "role": message.role,
        "content": message.content,
        "position": position,
        "created_at": now_ms(),
    }
    if not await insert_one(session, table_of(SessionMessage), row):
        return ident, Then.THERE
    settings = await settings_of(session, who.tenant_id)
    if not (settings.reads and subject.enabled):
        await change(session, who, last_position=position, extract_cursor=position, pending_sessions=[])
        return ident, Then.STORED
    await change(session, who, last_position=position)
    if message.role is not TurnRole.ASSISTANT:
        return ident, Then.STORED
    job = MemoryExtract(
        tenant_id=who.tenant_id,
        subject_id=who.subject_id,
        session_id=message.session_id,
        message_id=ident,
        language=message.language,
    )
    return ident, await _schedule(session, who, subject, settings, job)


async def _schedule(
    session: AsyncSession, who: Who, subject: MemorySubject, settings: MemorySettings, job: MemoryExtract
) -> Then:
    now = now_ms()
    pending = _joined(subject.pending_sessions, [job.session_id])
    due = subject.extract_scheduled_at
    if due is not None and due >= now - GRACE_MS:
        await change(session, who, pending_sessions=pending)
        return Then.NOTED
    rests = (subject.last_extracted_at or 0) + settings.min_interval_s * 1000 - now
    wait = max(settings.delay_s * 1000, rests)
    job_id = new_id()
    await change(session, who, pending_sessions=pending, extract_job=job_id, extract_scheduled_at=now + wait)
    await Outbox.add(session, job_id, job, delay=wait / 1000)
    return Then.SCHEDULED


async def begin(session: AsyncSession, who: Who, job_id: str) -> Run | None:
    """Take the sessions that wait; None where the slot is another job's, or nothing is to be read."""
    subject = await hold(session, who, make=False)
    if subject is None or subject.extract_job not in {"", job_id}:
        return None
    settings = await settings_of(session, who.tenant_id)
    if not (settings.reads and subject.enabled):
        await change(session, who, extract_job="", extract_scheduled_at=None, pending_sessions=[])
        return None
    sessions = tuple(subject.pending_sessions)
    await change(session, who, extract_job=job_id, extract_scheduled_at=now_ms(), pending_sessions=[])
    return Run(who, job_id, subject.extract_cursor, sessions, settings)


async def unread(session: AsyncSession, run: Run) -> list[Line]:
    """Return what was said since the cursor, in its order, and one more than a run may read."""
    query = select(SessionMessage).where(*run.who.owns(SessionMessage), SessionMessage.position > run.cursor)
    return [
        _line(row) for row in await session.scalars(query.order_by(SessionMessage.position).limit(WINDOW + 1))
    ]


async def before(session: AsyncSession, who: Who, segment: Segment) -> tuple[Line, ...]:
    """Return the lines of the same person and session before a stretch."""
    query = select(SessionMessage).where(
        *who.owns(SessionMessage),
        SessionMessage.session_id == segment.session_id,
        SessionMessage.position < segment.lines[0].position,
    )
    rows = await session.scalars(query.order_by(SessionMessage.position.desc()).limit(CONTEXT))
    return tuple(_line(row) for row in reversed(rows.all()))


async def store_read(session: AsyncSession, run: Run, segment: Segment, said: Sequence[Said]) -> bool:
    """Remember what a stretch says and move the cursor behind it, both or neither. False where the slot was lost, or memory
    switched off meanwhile, which frees it: then nothing was stored, and there is nothing left to do.
    """
    subject = await _ours(session, run)
    if subject is None:
        return False
    settings = await settings_of(session, run.who.tenant_id)
    if not (settings.reads and subject.enabled):
        await change(session, run.who, extract_job="", extract_scheduled_at=None)
        return False
    if subject.extract_cursor < segment.cursor:
        await remember(session, run.who, said, settings.items)
    cursor = max(subject.extract_cursor, segment.cursor)
    await change(session, run.who, extract_cursor=cursor, extract_scheduled_at=now_ms())
    return True


async def finish(session: AsyncSession, run: Run, job: MemoryExtract, *, left: bool) -> bool:
    """Free the slot; where something is `left`, or came meanwhile, hand it to a run that follows. Says whether one does."""
    subject = await _ours(session, run)
    if subject is None:
        return False
    now = now_ms()
    values: dict[str, Any] = {"last_extracted_at": now, "extract_job": "", "extract_scheduled_at": None}
    follows = left or bool(subject.pending_sessions)
    if follows:
        job_id = derive_id("memory", run.job_id)
        values |= {"extract_job": job_id, "extract_scheduled_at": now + int(FOLLOW_UP_S * 1000)}
        await Outbox.add(session, job_id, job, delay=FOLLOW_UP_S)
    await change(session, run.who, **values)
    return follows


async def release(session: AsyncSession, who: Who, job_id: str, sessions: Sequence[str] = ()) -> None:
    """Free the slot of a run that failed: what it did not read waits for the next turn, or its own next attempt."""
    subject = await hold(session, who, make=False)
    if subject is not None and subject.extract_job == job_id:
        pending = _joined(sessions, subject.pending_sessions)
        await change(session, who, pending_sessions=pending, extract_job="", extract_scheduled_at=None)


async def messages_of(
    session: AsyncSession, tenant_id: int, session_id: str, after: str, limit: int
) -> Sequence[SessionMessage]:
    """Return messages of a session behind one, in the order in which they came."""
    query = select(SessionMessage).where(
        SessionMessage.tenant_id == tenant_id, SessionMessage.session_id == session_id
    )
    if after:
        last = await session.get(SessionMessage, (tenant_id, session_id, after))
        if last is None:
            return []
        place = tuple_(last.created_at, last.position, last.id, types=[column.type for column in _PLACE])
        query = query.where(place < tuple_(*_PLACE))
    return (await session.scalars(query.order_by(*_PLACE).limit(limit))).all()


_PLACE: Final = (SessionMessage.created_at, SessionMessage.position, SessionMessage.id)
"""By which the messages of a session are in their order: several people may speak in it."""


async def _held(session: AsyncSession, who: Who) -> MemorySubject:
    subject = await hold(session, who)
    assert subject is not None  # noqa: S101 - it was made
    return subject


async def _ours(session: AsyncSession, run: Run) -> MemorySubject | None:
    subject = await hold(session, run.who, make=False)
    return subject if subject is not None and subject.extract_job == run.job_id else None


def _joined(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Both, each once, where it came last; only the newest."""
    both = [*old, *new]
    return [one for at, one in enumerate(both) if one not in both[at + 1 :]][-MOST_SESSIONS:]


def _line(row: SessionMessage) -> Line:
    return Line(row.id, row.session_id, row.role, row.content[:LONGEST_LINE], row.position, row.created_at)
