"""`streamlane kb`: which bases there are, and what each wants."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.commands.ask import base_named
from consumers.commands.session import Session, session
from consumers.commands.terminal import OK, emit, moment, out, shown, table
from consumers.knowledge.bases import knowledge_bases
from consumers.knowledge.bases.settings import KnowledgeBaseSettings, checked
from consumers.knowledge.bases.tags import set_tags, tags_of
from consumers.knowledge.tables.knowledge import KnowledgeBase
from consumers.knowledge.upkeep import switching
from consumers.operator import deed
from pipeline.errors import ConfigurationError
from pipeline.http.audit import written_down


async def create(
    name: str, settings: Sequence[str], tags: Sequence[str] | None, tenant: int, as_json: bool
) -> int:
    """Make a base; return the exit code."""
    wanted = checked(assigned(settings))
    async with session(tenant=tenant) as opened:
        database = opened.services.database
        doing = deed("kb create", "knowledge.base_created", ("knowledge_base", name))
        async with written_down(database, doing) as entry:
            async with database.transaction() as sql:
                kb = await knowledge_bases.create_base(sql, tenant, name, wanted)
                if kb is None:
                    raise _taken(name)
                await _tag(sql, kb, tags)
            entry.details["id"] = kb.id
        return await _tell(opened, name, as_json)


async def list_all(tenant: int, as_json: bool) -> int:
    """Print the bases of a tenant."""
    async with session(tenant=tenant) as opened, opened.services.database.read() as sql:
        found = await knowledge_bases.list_bases(sql, tenant)
        counts = {kb.id: await knowledge_bases.counted(sql, kb.id) for kb in found}
    if as_json:
        emit({"knowledge_bases": [_facts(kb) | {"documents": dict(counts[kb.id])} for kb in found]})
        return OK
    table(
        ("name", "documents", "model", "created", "id"),
        [
            (kb.name, sum(counts[kb.id].values()), kb.embedding_model, moment(kb.created_at), kb.id)
            for kb in found
        ],
    )
    return OK


async def show(name: str, tenant: int, as_json: bool) -> int:
    """Print a base with its settings."""
    async with session(tenant=tenant) as opened:
        return await _tell(opened, name, as_json)


async def change(
    name: str, settings: Sequence[str], tags: Sequence[str] | None, rename: str, tenant: int, *, as_json: bool
) -> int:
    """Change a base; return the exit code."""
    asked = assigned(settings)
    async with session(tenant=tenant) as opened:
        services = opened.services
        kb = await base_named(opened, name)
        doing = deed("kb set", "knowledge.base_changed", ("knowledge_base", kb.id))
        async with written_down(services.database, doing):
            async with services.outbox.transaction() as sql:
                locked = await knowledge_bases.keep_base(sql, kb.id, alone=True)
                if locked is None:
                    raise ConfigurationError(f"no knowledge base {name!r} any more")
                if rename and not await knowledge_bases.rename(sql, locked, rename):
                    raise _taken(rename)
                stages = await switching.change(sql, locked, checked(asked, locked.settings)) if asked else []
                await _tag(sql, locked, tags)
            await switching.release(services.outbox, kb.id, stages)
        return await _tell(opened, rename or name, as_json)


def assigned(settings: Sequence[str]) -> dict[str, Any]:
    """Return what KEY=VALUE arguments say; a key may name a part, as in profile.enabled. Raises ConfigurationError."""
    said: dict[str, Any] = {}
    for one in settings:
        key, mark, value = one.partition("=")
        if not mark:
            raise ConfigurationError(f"{one!r} is no setting: write KEY=VALUE")
        *above, last = key.strip().replace("-", "_").split(".")
        place = said
        for name in above:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                raise ConfigurationError(f"{key!r} is set in two ways")
        place[last] = _value(value)
    return said


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {"on": True, "yes": True, "off": False, "no": False}.get(text.lower(), text)


async def _tag(sql: AsyncSession, kb: KnowledgeBase, tags: Sequence[str] | None) -> None:
    if tags is not None:
        named = {name.strip(): when.strip() for name, _, when in (tag.partition("=") for tag in tags)}
        if not all(named):
            raise ConfigurationError("a tag has no name: write --tag NAME=WHEN")
        await set_tags(sql, kb.id, named)


async def _tell(opened: Session, name: str, as_json: bool) -> int:
    kb = await base_named(opened, name)
    async with opened.services.database.read() as sql:
        tags = {tag.name: tag.description for tag in await tags_of(sql, kb.id)}
        documents = {str(status): n for status, n in (await knowledge_bases.counted(sql, kb.id)).items()}
    facts = _facts(kb)
    if as_json:
        emit(facts | {"documents": documents, "tags": tags})
        return OK
    told = ", ".join(f"{n} {status}" for status, n in documents.items()) or "none"
    for key, value in (facts | {"documents": told}).items():
        if key != "settings" and value is not None:
            out.print(f"[bold]{key}[/bold]  {escape(shown(str(value)))}")
    for key, value in _flat(facts["settings"]):
        out.print(f"  {key}={escape(json.dumps(value, ensure_ascii=False))}")
    for tag, when in tags.items():
        out.print(f"  tag {escape(shown(tag))}" + (f": {escape(shown(when, 100))}" if when else ""))
    return OK


def _flat(settings: Mapping[str, Any], above: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in settings.items():
        found += _flat(value, f"{above}{name}.") if isinstance(value, dict) else [(f"{above}{name}", value)]
    return found


def _facts(kb: KnowledgeBase) -> dict[str, Any]:
    return {
        "id": kb.id,
        "name": kb.name,
        "tenant_id": kb.tenant_id,
        "embedding_model": kb.embedding_model,
        "created_at": moment(kb.created_at),
        "settings": KnowledgeBaseSettings.model_validate(kb.settings).model_dump(mode="json"),
    }


def _taken(name: str) -> ConfigurationError:
    return ConfigurationError(f"there is a knowledge base {name!r} already: choose another name")
