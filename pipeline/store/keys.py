"""API keys: a secret that is shown once and kept as a digest, and what it opens."""

import hashlib
import hmac
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from contracts.identity import new_id
from contracts.rights import Capability as Capability  # noqa: PLC0414 - part of what this module offers
from pipeline.clock import now_ms
from pipeline.store.rows import changed
from pipeline.store.tables_people import api_keys

MARK: Final = "slk"
"""What every key begins with, so that one that is found somewhere is known for what it is."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key without its secret. `tenant_id` None: the whole platform. Times are milliseconds, 0 for never."""

    id: str
    name: str
    prefix: str
    capabilities: tuple[str, ...]
    tenant_id: int | None
    created_at: int
    revoked_at: int = 0


async def create(
    session: AsyncSession, name: str, capabilities: Collection[Capability], tenant_id: int | None = None
) -> tuple[ApiKey, str]:
    """Make a key; return it and its text, which nobody can find out later."""
    prefix, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    key = ApiKey(new_id(), name, prefix, tuple(sorted(set(capabilities))), tenant_id, now_ms())
    row = {
        "id": key.id,
        "name": name,
        "prefix": prefix,
        "digest": _digest(secret),
        "capabilities": " ".join(key.capabilities),
        "tenant_id": tenant_id,
        "created_at": key.created_at,
        "revoked_at": 0,
    }
    await session.execute(api_keys.insert().values(row))
    return key, f"{MARK}_{prefix}_{secret}"


async def find(session: AsyncSession, text: str) -> ApiKey | None:
    """Return the key that has this text, unless it was revoked."""
    mark, _, rest = text.partition("_")
    prefix, _, secret = rest.partition("_")
    if mark != MARK or not secret:
        return None
    query = select(api_keys).where(api_keys.c.prefix == prefix, api_keys.c.revoked_at == 0)
    row = (await session.execute(query)).one_or_none()
    if row is None or not hmac.compare_digest(row.digest, _digest(secret)):
        return None
    return _key(row)


async def listed(session: AsyncSession) -> list[ApiKey]:
    """Return all keys, the newest first, revoked ones too."""
    return [_key(row) for row in await session.execute(select(api_keys).order_by(api_keys.c.id.desc()))]


async def revoke(session: AsyncSession, name: str) -> int:
    """Let the keys with this id, prefix or name open nothing any more; return how many did until now."""
    named = (api_keys.c.id == name) | (api_keys.c.prefix == name) | (api_keys.c.name == name)
    return await changed(
        session, update(api_keys).where(named, api_keys.c.revoked_at == 0).values(revoked_at=now_ms())
    )


def _digest(secret: str) -> str:
    """32 random bytes cannot be guessed, so a plain hash keeps them."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _key(row: Any) -> ApiKey:
    return ApiKey(
        row.id,
        row.name,
        row.prefix,
        tuple(row.capabilities.split()),
        row.tenant_id,
        row.created_at,
        row.revoked_at,
    )
