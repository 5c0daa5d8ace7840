"""`streamlane tenants`: which there are, and to put one away or take it back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict

from consumers.commands.terminal import FAILED, OK, agreed, complain, emit, moment, out, table
from consumers.database import open_database, outbox_of, refuse_another
from consumers.knowledge.bases import tenancy
from consumers.operator import deed, operator
from contracts.payloads.maintenance import Initiator
from pipeline import Outbox, Pipeline
from pipeline.errors import ConfigurationError
from pipeline.http.audit import Entry, written_down
from pipeline.http.principal import COMMAND_LINE


async def create(name: str, ident: int | None, as_json: bool) -> int:
    """Make a tenant; return the exit code."""
    async with _doing("create", "system.tenant_created", ident, name=name) as (outbox, entry):
        async with outbox.transaction() as sql:
            made = await tenancy.create(sql, name, ident)
        if made is None:
            raise ConfigurationError(
                f"there is a tenant {ident} already: `streamlane tenants list` names all"
            )
        entry.details["id"] = str(made.id)
    if as_json:
        emit({"id": made.id, "name": made.name})
    else:
        out.print(f"tenant {made.id}: give it keys with `streamlane keys create --tenant {made.id}`")
    return OK


async def list_all(as_json: bool) -> int:
    """Print all tenants."""
    async with _outbox() as outbox, outbox.database.read() as sql:
        found = await tenancy.listed(sql)
    if as_json:
        emit({"tenants": [asdict(one) for one in found]})
        return OK
    table(
        ("id", "name", "bases", "created", "deleted"),
        [
            (one.id, one.name, one.knowledge_bases, moment(one.created_at), moment(one.deleted_at or 0))
            for one in found
        ],
    )
    return OK


async def delete(tenant: int, *, yes: bool, as_json: bool) -> int:
    """Put a tenant away; return the exit code."""
    question = f"Nothing more is done for tenant {tenant}, and its keys open nothing. Go on?"
    if not await agreed(question, yes=yes):
        return FAILED
    async with _doing("delete", "system.tenant_deleted", tenant) as (outbox, _):
        cut = await outbox.choose_cut()
        async with outbox.transaction() as sql:
            moved = await tenancy.delete(sql, tenant, cut)
        if moved is None:
            complain(f"no tenant {tenant}", "not_found", as_json=as_json)
            return FAILED
    if as_json:
        emit({"id": tenant, "already": not moved})
    else:
        out.print(
            f"put away; `streamlane tenants restore {tenant}` takes it back" if moved else "it was so before"
        )
    return OK


async def restore(tenant: int, as_json: bool) -> int:
    """Take a tenant back; return the exit code."""
    who = Initiator(user_id=operator(), role=COMMAND_LINE)
    async with _doing("restore", "system.tenant_restored", tenant) as (outbox, _):
        async with outbox.transaction() as sql:
            again = await tenancy.restore(sql, tenant, who)
        if again is None:
            complain(f"tenant {tenant} is not deleted", "not_deleted", as_json=as_json)
            return FAILED
    if as_json:
        emit({"id": tenant, "reparsed": again})
    else:
        out.print(f"it is back; {again} documents that were under way are parsed again")
    return OK


@asynccontextmanager
async def _outbox() -> AsyncIterator[Outbox]:
    async with Pipeline.open() as pipeline, open_database(pipeline.settings) as database:
        await refuse_another(pipeline, database)
        yield outbox_of(pipeline, database)


@asynccontextmanager
async def _doing(
    verb: str, action: str, tenant: int | None, **details: str
) -> AsyncIterator[tuple[Outbox, Entry]]:
    doing = deed(f"tenants {verb}", action, ("tenant", str(tenant or "")), **details)
    async with _outbox() as outbox, written_down(outbox.database, doing) as entry:
        yield outbox, entry
