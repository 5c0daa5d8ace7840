"""`streamlane memory`: what is remembered of people, seen and changed."""

import difflib
from typing import Any, Final

from pydantic import ValidationError
from rich.markup import escape

from consumers.commands.session import session
from consumers.commands.terminal import (
    FAILED,
    OK,
    UNCHANGED,
    agreed,
    complain,
    emit,
    moment,
    out,
    shown,
    table,
)
from consumers.knowledge.memory import storing
from consumers.knowledge.memory.remembering import Noted
from consumers.knowledge.memory.settings import MemorySettings, change_settings, settings_of
from consumers.knowledge.memory.storing import Who
from consumers.knowledge.tables.memory import MemoryItem
from contracts.memory import MemoryKind
from pipeline.errors import ConfigurationError

MOST: Final = 10_000
"""People that are listed."""


async def list_people(as_json: bool, *, tenant: int) -> int:
    """Print the people of whom anything is known; return the exit code."""
    async with session(tenant=tenant) as opened, opened.services.database.read() as sql:
        found = await storing.subjects_of(sql, tenant, "", MOST)
    rows = [(row.subject_id, count, row.enabled, moment(row.last_extracted_at or 0)) for row, count in found]
    if as_json:
        keys = ("subject_id", "items", "enabled", "last_extracted_at")
        emit({"subjects": [dict(zip(keys, row, strict=True)) for row in rows]})
    elif rows:
        table(("person", "remembered", "on", "last read"), rows)
    else:
        out.print("nothing is known of anybody")
    return OK


async def list_items(person: str, as_json: bool, *, tenant: int) -> int:
    """Print what is remembered of a person; return the exit code."""
    async with session(tenant=tenant) as opened, opened.services.database.read() as sql:
        found = await storing.items_of(sql, Who(tenant, person))
    if as_json:
        emit({"subject_id": person, "items": [_described(one) for one in found]})
    elif found:
        table(("id", "kind", "topic", "text"), [(one.id, one.kind, one.topic, one.text) for one in found])
    else:
        out.print(f"nothing is remembered of {person}", markup=False)
    return OK


async def show(person: str, as_json: bool, *, tenant: int) -> int:
    """Print who a person is; return the exit code."""
    async with session(tenant=tenant) as opened, opened.services.database.read() as sql:
        row = await storing.subject_of(sql, Who(tenant, person))
        count, topics = await storing.counted(sql, Who(tenant, person))
    if row is None:
        return _nobody(person, as_json)
    if as_json:
        emit(
            {
                "subject_id": person,
                "enabled": row.enabled,
                "items": count,
                "topics": dict(topics),
                "block": row.block_text,
                "last_extracted_at": moment(row.last_extracted_at or 0),
            }
        )
        return OK
    state = "on" if row.enabled else "off"
    out.print(f"{person}: {count} things are remembered; memory is {state}", markup=False)
    if row.block_text:
        out.print(escape(row.block_text))
    return OK


async def add(person: str, text: str, kind: MemoryKind, topic: str, as_json: bool, *, tenant: int) -> int:
    """Remember something; return the exit code."""
    noted = Noted(kind, shown(topic, 64), _sentence(text))
    async with session(tenant=tenant) as opened:
        said = await storing.said_of(opened.services.embedder, [noted])
        async with opened.services.database.transaction() as sql:
            most = (await settings_of(sql, tenant)).items
            await storing.hold(sql, Who(tenant, person))
            made = await storing.remember(sql, Who(tenant, person), said, most)
    if not made:
        complain(
            f"{most} things are remembered of {person}, which is the limit", "memory_full", as_json=as_json
        )
        return FAILED
    return _told(made[0], as_json)


async def edit(person: str, item_id: str, text: str, as_json: bool, *, tenant: int) -> int:
    """Write a remembered thing anew; return the exit code."""
    who, sentence = Who(tenant, person), _sentence(text)
    async with session(tenant=tenant) as opened:
        async with opened.services.database.read() as sql:
            known = await storing.item(sql, who, item_id)
        if known is None:
            return _nothing(person, item_id, as_json)
        noted = Noted(known.kind, known.topic, sentence)
        (said,) = await storing.said_of(opened.services.embedder, [noted])
        async with opened.services.database.transaction() as sql:
            await storing.hold(sql, who)
            done = await storing.edit(sql, who, item_id, said)
    return _nothing(person, item_id, as_json) if done is None else _told(done, as_json)


async def delete(person: str, item_id: str, as_json: bool, *, tenant: int) -> int:
    """Delete a remembered thing; return the exit code."""
    async with session(tenant=tenant) as opened, opened.services.database.transaction() as sql:
        await storing.hold(sql, Who(tenant, person), make=False)
        gone = await storing.delete_item(sql, Who(tenant, person), item_id)
    if not gone:
        return _nothing(person, item_id, as_json)
    if as_json:
        emit({"subject_id": person, "id": item_id, "deleted": True})
    else:
        out.print(f"{item_id} is deleted, and not read again", markup=False)
    return OK


async def forget(person: str, as_json: bool, *, yes: bool, tenant: int) -> int:
    """Forget a person; return the exit code."""
    if not await agreed(f"Forget all that is remembered of {person}?", yes=yes):
        complain(UNCHANGED, "declined", as_json=as_json)
        return FAILED
    async with session(tenant=tenant) as opened, opened.services.database.transaction() as sql:
        count = await storing.forget(sql, Who(tenant, person))
    if as_json:
        emit({"subject_id": person, "forgotten": count})
    else:
        out.print(f"{count} things are forgotten")
    return OK


async def switch(person: str | None, as_json: bool, *, on: bool, tenant: int) -> int:
    """Switch memory on or off, for all or for one person; return the exit code."""
    async with session(tenant=tenant) as opened, opened.services.database.transaction() as sql:
        if person is None:
            await change_settings(sql, tenant, {"enabled": on})
        else:
            await storing.switch(sql, Who(tenant, person), on=on)
    state = "on" if on else "off"
    if as_json:
        emit({"subject_id": person, "enabled": on})
    else:
        out.print(f"memory of {person} is {state}" if person else f"memory is {state}", markup=False)
    return OK


async def set_wish(name: str | None, value: str | None, as_json: bool, *, tenant: int) -> int:
    """Show or change how memory is written; return the exit code. Raises ConfigurationError."""
    if name is not None:
        _known(name)
        if value is None:
            raise ConfigurationError(f"say what {name} is to be")
    async with session(tenant=tenant) as opened, opened.services.database.transaction() as sql:
        try:
            settings = (
                await change_settings(sql, tenant, {name: value}) if name else await settings_of(sql, tenant)
            )
        except ValidationError as error:
            said = "; ".join(f"{one['msg']}" for one in error.errors())
            raise ConfigurationError(f"{name} cannot be {value}: {said}") from None
    told = settings.model_dump(mode="json")
    if as_json:
        emit(told)
    else:
        table(("setting", "value"), list(told.items()))
    return OK


def _known(name: str) -> None:
    if name not in MemorySettings.model_fields:
        near = difflib.get_close_matches(name, MemorySettings.model_fields, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(MemorySettings.model_fields)}"
        raise ConfigurationError(f"unknown setting {name[:100]!r}; {hint}")


def _sentence(text: str) -> str:
    if not (said := shown(text)):
        raise ConfigurationError("write what is to be remembered")
    return said


def _told(item: MemoryItem, as_json: bool) -> int:
    if as_json:
        emit(_described(item))
    else:
        out.print(f"{item.id}  {item.text}", markup=False)
    return OK


def _nothing(person: str, item_id: str, as_json: bool) -> int:
    said = f"nothing {item_id} is remembered of {person}; `streamlane memory list {person}` shows what is"
    complain(said, "not_found", as_json=as_json)
    return FAILED


def _nobody(person: str, as_json: bool) -> int:
    complain(
        f"nothing is known of {person}; `streamlane memory list` names people", "not_found", as_json=as_json
    )
    return FAILED


def _described(item: MemoryItem) -> dict[str, Any]:
    names = "id", "kind", "topic", "text", "method"
    return {name: getattr(item, name) for name in names} | {"updated_at": moment(item.updated_at)}
