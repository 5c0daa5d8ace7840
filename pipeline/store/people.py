"""Administrators: their passwords, their sessions, and how often a sign-in failed."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from contracts.identity import new_id
from pipeline.clock import now_ms
from pipeline.store.rows import changed, insert_one
from pipeline.store.tables_people import admin_sessions, admins, api_keys, sign_in_failures

SESSION_MS: Final = 12 * 3_600_000
WINDOW_MS: Final = 15 * 60_000
FEWEST_CHARACTERS: Final = 10
COST: Final = 2**15
"""32 MiB and some 80 ms a guess."""


@dataclass(frozen=True, slots=True)
class Session:
    """A signed-in administrator. `csrf` is what their changes have to carry."""

    admin_id: str
    name: str
    csrf: str
    expires_at: int


def hashed(password: str, salt: bytes | None = None) -> str:
    """Return what is kept of a password. Takes a tenth of a second: run it in a thread."""
    salt = salt or secrets.token_bytes(16)
    key = hashlib.scrypt(password.encode("utf-8", "surrogatepass"), salt=salt, n=COST, r=8, p=1, maxmem=2**27)
    return f"scrypt${COST}${base64.b64encode(salt).decode()}${base64.b64encode(key).decode()}"


def matches(password: str, kept: str) -> bool:
    """Whether `kept` was made of this password. As slow as `hashed`."""
    _, _, salt, _ = kept.split("$")
    return hmac.compare_digest(hashed(password, base64.b64decode(salt)), kept)


async def add(session: AsyncSession, name: str, kept: str) -> None:
    """Add an administrator, or give one a new password, which ends their sessions."""
    if await add_new(session, name, kept):
        return
    again = update(admins).where(admins.c.name == name).values(password=kept).returning(admins.c.id)
    ident = await session.scalar(again)
    await session.execute(delete(admin_sessions).where(admin_sessions.c.admin_id == ident))


async def add_new(session: AsyncSession, name: str, kept: str) -> bool:
    """Add an administrator; False, and nothing changed, where there is one of this name."""
    row = {"id": new_id(), "name": name, "password": kept, "created_at": now_ms()}
    return await insert_one(session, admins, row)


async def remove(session: AsyncSession, name: str) -> bool:
    """Remove an administrator and end their sessions; False if there was none."""
    return bool(await changed(session, delete(admins).where(admins.c.name == name)))


async def names(session: AsyncSession) -> list[str]:
    """Return the names of all administrators."""
    return list(await session.scalars(select(admins.c.name).order_by(admins.c.name)))


async def names_by_id(session: AsyncSession) -> dict[str, str]:
    """Return the names of administrators and keys by their ids."""
    query = select(admins.c.id, admins.c.name).union_all(select(api_keys.c.id, api_keys.c.name))
    return {row.id: row.name for row in await session.execute(query)}


async def password_of(session: AsyncSession, name: str) -> tuple[str, str] | None:
    """Return the id of an administrator and what is kept of the password."""
    row = (await session.execute(select(admins.c.id, admins.c.password).where(admins.c.name == name))).first()
    return (row.id, row.password) if row else None


async def begin_session(session: AsyncSession, admin_id: str) -> str:
    """Sign an administrator in; return what their cookie says. Forgets sessions that are over."""
    now, token = now_ms(), secrets.token_urlsafe(32)
    await session.execute(delete(admin_sessions).where(admin_sessions.c.expires_at <= now))
    row = {
        "digest": _digest(token),
        "admin_id": admin_id,
        "csrf": secrets.token_urlsafe(24),
        "created_at": now,
        "expires_at": now + SESSION_MS,
    }
    await session.execute(admin_sessions.insert().values(row))
    return token


async def session(session: AsyncSession, token: str) -> Session | None:
    """Return whom a cookie speaks for, unless their session is over."""
    query = (
        select(admins.c.id, admins.c.name, admin_sessions.c.csrf, admin_sessions.c.expires_at)
        .join(admins, admins.c.id == admin_sessions.c.admin_id)
        .where(admin_sessions.c.digest == _digest(token), admin_sessions.c.expires_at > now_ms())
    )
    row = (await session.execute(query)).one_or_none()
    return Session(*row) if row else None


async def end_session(session: AsyncSession, token: str) -> None:
    """Sign out."""
    await session.execute(delete(admin_sessions).where(admin_sessions.c.digest == _digest(token)))


async def note_failure(session: AsyncSession, *whose: str) -> Mapping[str, int]:
    """Count a sign-in that failed; return how many did by now of each. Forgets what is long ago."""
    now = now_ms()
    await session.execute(delete(sign_in_failures).where(sign_in_failures.c.since <= now - WINDOW_MS))
    counted, rows = {}, sign_in_failures.c
    for who in sorted(whose):
        counted[who] = 1
        if not await insert_one(session, sign_in_failures, {"who": who[:160], "failures": 1, "since": now}):
            more = update(sign_in_failures).where(rows.who == who[:160]).values(failures=rows.failures + 1)
            counted[who] = await session.scalar(more.returning(rows.failures)) or 1
    return counted


async def forgive(session: AsyncSession, *whose: str) -> None:
    """Take back a failure that was none."""
    named = sign_in_failures.c.who.in_([who[:160] for who in whose])
    await session.execute(
        update(sign_in_failures).where(named).values(failures=sign_in_failures.c.failures - 1)
    )


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
