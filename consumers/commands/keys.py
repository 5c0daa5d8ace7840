"""`streamlane keys` and `streamlane admins`: who may use the API and the dashboard."""

import asyncio
import difflib
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict

import typer
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.commands.terminal import FAILED, OK, complain, emit, moment, out, table
from consumers.database import open_database
from consumers.operator import deed
from contracts.rights import Capability
from pipeline import Database, Settings
from pipeline.errors import ConfigurationError
from pipeline.http.audit import Entry, written_down
from pipeline.store import keys, people
from pipeline.store.audit import Deed, Outcome


async def create(name: str, capabilities: Sequence[str], tenant: int | None, as_json: bool) -> int:
    """Make a key and print it."""
    known = [_capability(capability) for capability in capabilities]
    about = {"capabilities": " ".join(known), "tenant": str(tenant or "")}
    doing = deed("keys create", "system.api_key_created", ("api_key", name), **about)
    async with _written(doing) as (database, entry), database.transaction() as sql:
        key, text = await keys.create(sql, name, known, tenant)
        entry.details["key_id"] = key.id
    if as_json:
        emit(asdict(key) | {"key": text})
    else:
        out.print(text, markup=False)
    return OK


async def list_keys(as_json: bool) -> int:
    """Print all keys, without their secrets."""
    async with _transaction() as sql:
        found = await keys.listed(sql)
    if as_json:
        emit({"keys": [asdict(key) for key in found]})
        return OK
    table(
        ("id", "name", "prefix", "capabilities", "tenant", "created", "revoked"),
        [
            (key.id, key.name, key.prefix, " ".join(key.capabilities), key.tenant_id,
             moment(key.created_at), moment(key.revoked_at))
            for key in found
        ],
    )  # fmt: skip
    return OK


async def revoke(name: str, as_json: bool) -> int:
    """Revoke the keys that are called so."""
    doing = deed("keys revoke", "system.api_key_revoked", ("api_key", name))
    async with _written(doing) as (database, entry):
        async with database.transaction() as sql:
            count = await keys.revoke(sql, name)
        _tell(entry, count, "no valid key has this id, prefix or name")
    if not count:
        complain("no valid key has this id, prefix or name", "not_found", as_json=as_json)
        return FAILED
    if as_json:
        emit({"revoked": count})
    else:
        out.print(f"revoked {count}")
    return OK


def ask_password() -> str:
    """Return the password that a person typed, twice the same."""
    password: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    if len(password) < people.FEWEST_CHARACTERS:
        raise typer.BadParameter(f"a password has at least {people.FEWEST_CHARACTERS} characters")
    return password


async def add_admin(name: str, password: str | None, as_json: bool) -> int:
    """Add a person, or give one a new password; without one, make and print it."""
    made = password or secrets.token_urlsafe(15)
    kept = await asyncio.to_thread(people.hashed, made)
    doing = deed("admins add", "system.admin_added", ("admin", name))
    async with _written(doing) as (database, _), database.transaction() as sql:
        await people.add(sql, name, kept)
    if as_json:
        emit({"name": name, "password": made})
    else:
        out.print("done")
    return OK


async def list_admins(as_json: bool) -> int:
    """Print who may sign in."""
    async with _transaction() as sql:
        found = await people.names(sql)
    if as_json:
        emit({"admins": found})
    else:
        table(("name",), [(name,) for name in found])
    return OK


async def remove_admin(name: str, as_json: bool) -> int:
    """Remove a person."""
    doing = deed("admins remove", "system.admin_removed", ("admin", name))
    async with _written(doing) as (database, entry):
        async with database.transaction() as sql:
            removed = await people.remove(sql, name)
        _tell(entry, removed, "no administrator has this name")
    if not removed:
        complain("no administrator has this name", "not_found", as_json=as_json)
        return FAILED
    if as_json:
        emit({"name": name, "removed": True})
    else:
        out.print("done")
    return OK


def _tell(entry: Entry, done: int, otherwise: str) -> None:
    if not done:
        entry.outcome = Outcome.DENIED
        entry.details["error"] = otherwise


def _capability(name: str) -> Capability:
    if name in set(Capability):
        return Capability(name)
    near = difflib.get_close_matches(name, list(Capability), n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(Capability)}"
    raise ConfigurationError(f"unknown capability {name!r}; {hint}")


@asynccontextmanager
async def _written(doing: Deed) -> AsyncIterator[tuple[Database, Entry]]:
    async with open_database(Settings.read()) as database, written_down(database, doing) as entry:
        yield database, entry


@asynccontextmanager
async def _transaction() -> AsyncIterator[AsyncSession]:
    async with open_database(Settings.read()) as database, database.transaction() as sql:
        yield sql
