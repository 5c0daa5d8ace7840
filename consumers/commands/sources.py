"""`streamlane sources`: places that documents are harvested from."""

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_origin

from sqlalchemy.ext.asyncio import AsyncSession

from consumers.commands.ask import base_named
from consumers.commands.session import Session, session
from consumers.commands.terminal import (
    FAILED,
    OK,
    UNCHANGED,
    agreed,
    emit,
    err,
    moment,
    out,
    say,
    shown,
    table,
)
from consumers.desk import by_hand
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.tables.sources import DataSource, SyncLog
from consumers.sources import items, registry, runs
from consumers.sources.connector import Kind
from consumers.sources.kinds import check_change, kind_of, kinds
from consumers.sources.registry import NewSource, Plan
from consumers.sources.runs import COUNTS, Wish
from contracts.knowledge import DocumentEffect as Effect
from contracts.payloads.maintenance import Initiator
from contracts.sources import ItemState, SourceStatus, SyncMode, SyncState
from pipeline.errors import ConfigurationError, NotAllowed
from pipeline.http.audit import recorded

LOOK_S: Final = 0.2
Said = tuple[Sequence[str], Sequence[str]]
"""What was given with --set, and with --secret."""
When = tuple[str | None, str | None, SyncMode | None]
"""A schedule, its time zone, and the mode of its runs; None for what was not said."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a run is to do."""

    mode: SyncMode
    selection: tuple[str, ...]
    force_full: bool
    max_items: int | None


async def list_kinds(as_json: bool) -> int:
    """Print the kinds of sources, and what each asks for."""
    found = [
        (kind.name, kind.about, sorted(kind.config.model_fields), sorted(kind.credentials.model_fields))
        for kind in kinds().values()
    ]
    if as_json:
        names = ("kind", "about", "config", "credentials")
        emit({"kinds": [dict(zip(names, one, strict=True)) for one in found]})
        return OK
    rows = [(name, about, " ".join(config), " ".join(secret)) for name, about, config, secret in found]
    table(("kind", "about", "--set", "--secret"), rows)
    return OK


async def add(
    kb_name: str, name: str, kind_name: str, said: Said, when: When, *, tenant: int, as_json: bool
) -> int:
    """Make a source."""
    kind, (cron, timezone, mode) = kind_of(kind_name), when
    config, credentials = _config(kind, said[0]), _credentials(said[1])
    async with session(tenant=tenant) as opened, by_hand("sources add") as call:
        kind.checked(config, credentials, opened.services.settings)
        plan = Plan(cron=cron or "", timezone=timezone or "UTC", mode=mode or SyncMode.INCREMENTAL)
        new = NewSource(name=name, kind=kind_name, config=config, credentials=credentials, plan=plan)
        async with recorded(call, "knowledge.source_created", ("knowledge_base", kb_name)) as entry:
            async with opened.services.database.transaction() as sql:
                made = await registry.create(sql, await ensure_base(sql, tenant, kb_name), new)
            if made is None:
                raise NotAllowed(f"there is a source {name!r} in {kb_name!r} already")
            entry.details["id"] = made.id
    return _tell_source(made, as_json)


async def list_sources(kb_name: str, as_json: bool, *, tenant: int) -> int:
    """Print the sources of a base."""
    async with session(tenant=tenant) as opened:
        kb = await base_named(opened, kb_name)
        async with opened.services.database.read() as sql:
            found = await registry.sources_of(sql, kb.id, 10_000)
    if as_json:
        emit({"kb": kb_name, "sources": [_facts(one) for one in found]})
        return OK
    table(
        ("name", "kind", "status", "schedule", "next run", "last success", "how it is"),
        [
            (one.name, one.kind, one.status, f"{one.cron} {one.timezone}" if one.cron else "",
             moment(one.next_run_at or 0), moment(one.last_success_at or 0), shown(one.health.get("message", ""), 80))
            for one in found
        ],
    )  # fmt: skip
    return OK


async def show(kb_name: str, name: str, as_json: bool, *, tenant: int) -> int:
    """Print a source, and what its last run came to."""
    async with session(tenant=tenant) as opened:
        source = await _named(opened, kb_name, name)
        async with opened.services.database.read() as sql:
            counts = await items.counted(sql, source.id)
            last = await runs.runs_of(sql, source.id, 1)
    facts = _facts(source) | {"items": {state.value: number for state, number in counts.items()}}
    facts["last_run"] = _run_facts(last[0]) if last else None
    if as_json:
        emit(facts)
    else:
        table(("field", "value"), [(key, _flat(_dated(key, value))) for key, value in facts.items() if value])
    return OK


async def sync(kb_name: str, name: str, asked: Run, *, tenant: int, limit: float, as_json: bool) -> int:
    """Run a source; work until it has ended, at most `limit` seconds. Return the exit code."""
    if (asked.mode is SyncMode.PARTIAL_RESYNC) != bool(asked.selection):
        raise ConfigurationError("--select belongs to --mode partial-resync, which needs it")
    async with session(work=limit > 0, tenant=tenant) as opened, by_hand("sources sync") as call:
        source = await _named(opened, kb_name, name)
        wish = Wish(
            mode=asked.mode,
            selection=asked.selection,
            force_full=asked.force_full,
            max_items=asked.max_items,
            initiator=Initiator(user_id=call.who.id, role=call.who.role),
        )
        async with recorded(call, "knowledge.source_synced", ("data_source", source.id)) as entry:
            entry.details["mode"] = asked.mode.value
            async with opened.services.outbox.transaction() as sql:
                source = await _kept(sql, source)
                if not runs.may_run(source, asked.mode):
                    why = f"source {name!r} is {source.status}: `streamlane sources resume {name}` first"
                    raise NotAllowed(why)
                run_id = await runs.open_run(sql, source, wish)
            if run_id is None:
                raise NotAllowed(
                    f"a run of {name!r} is under way: wait, or `streamlane sources cancel {name}`"
                )
        run = await _ended(opened, run_id, limit)
    return _tell_run(run, limit, as_json)


async def change(kb_name: str, name: str, said: Said, when: When, *, tenant: int, as_json: bool) -> int:
    """Change a source."""
    async with session(tenant=tenant) as opened, by_hand("sources set") as call:
        source = await _named(opened, kb_name, name)
        kind = kind_of(source.kind)
        schedule = zip(("cron", "timezone", "mode"), when, strict=True)
        values: dict[str, Any] = {key: value for key, value in schedule if value is not None}
        config, credentials = _config(kind, said[0]), _credentials(said[1])
        if not (values or config or credentials):
            raise ConfigurationError("say what is to change: --set, --secret, --cron, --timezone or --mode")
        async with (
            recorded(call, "knowledge.source_changed", ("data_source", source.id)),
            opened.services.database.transaction() as sql,
        ):
            kept = await _kept(sql, source)
            values |= {"config": {**kept.config, **config}} if config else {}
            values |= {"credentials": {**kept.credentials, **credentials}} if credentials else {}
            check_change(kept, values, opened.services.settings)
            if not await registry.change(sql, kept, **values):
                raise NotAllowed(f"a run of {name!r} is under way: wait, or cancel it")
    return _tell_source(kept, as_json)


async def steer(kb_name: str, name: str, verb: str, *, tenant: int, as_json: bool) -> int:
    """Pause or resume a source, or stop its run."""
    deed = {"pause": "paused", "resume": "resumed", "cancel": "canceled"}[verb]
    async with session(tenant=tenant) as opened, by_hand(f"sources {verb}") as call:
        source = await _named(opened, kb_name, name)
        outbox = opened.services.outbox
        async with recorded(call, f"knowledge.source_{deed}", ("data_source", source.id)):
            cut = await outbox.choose_cut()
            async with outbox.transaction() as sql:
                kept = await _kept(sql, source)
                if kept.status is SourceStatus.DELETING:
                    raise NotAllowed(f"source {name!r} is being deleted")
                if verb == "cancel":
                    run = await runs.running(sql, source.id)
                    if run is None or await runs.cancel(sql, run, cut) is not Effect.DONE:
                        raise NotAllowed(f"no run of {name!r} is under way")
                else:
                    await (registry.pause if verb == "pause" else registry.resume)(sql, kept)
    return _tell_source(kept, as_json)


async def delete(
    kb_name: str, name: str, *, tenant: int, with_documents: bool, yes: bool, as_json: bool
) -> int:
    """Remove a source."""
    what = "with its documents" if with_documents else "and keep its documents"
    if not await agreed(f"Remove the source {name!r} {what}?", yes=yes):
        out.print(UNCHANGED)
        return FAILED
    async with session(tenant=tenant) as opened, by_hand("sources delete") as call:
        source = await _named(opened, kb_name, name)
        async with recorded(call, "knowledge.source_deleted", ("data_source", source.id)) as entry:
            entry.details["with_documents"] = str(with_documents).lower()
            async with opened.services.outbox.transaction() as sql:
                kept = await _kept(sql, source)
                if not await registry.remove(sql, kept, with_documents=with_documents):
                    raise NotAllowed(f"a run of {name!r} is under way: wait, or cancel it")
    if as_json:
        emit({"source": name, "deleted": True, "with_documents": with_documents})
    else:
        out.print("a worker removes it with its documents" if with_documents else "removed")
    return OK


async def logs(kb_name: str, name: str, limit: int, as_json: bool, *, tenant: int) -> int:
    """Print the runs of a source."""
    async with session(tenant=tenant) as opened:
        source = await _named(opened, kb_name, name)
        async with opened.services.database.read() as sql:
            found = await runs.runs_of(sql, source.id, limit)
    if as_json:
        emit({"source": name, "logs": [_run_facts(one) for one in found]})
        return OK
    rows = [
        [moment(one.started_at), one.trigger, one.mode, one.state]
        + [getattr(one, key) for key in COUNTS]
        + [shown(one.message, 80)]
        for one in found
    ]
    table(("started", "trigger", "mode", "state", *COUNTS, "message"), rows)
    return OK


async def failed(kb_name: str, name: str, limit: int, as_json: bool, *, tenant: int) -> int:
    """Print what failed in a source at its last try."""
    async with session(tenant=tenant) as opened:
        source = await _named(opened, kb_name, name)
        async with opened.services.database.read() as sql:
            found = [one for _, one in await items.page(sql, source.id, ItemState.FAILED, "", limit)]
    if as_json:
        emit({"source": name, "items": [{"id": one.item.id, "error": one.error} for one in found]})
    else:
        table(("id", "error"), [(shown(one.item.id, 120), shown(one.error, 200)) for one in found])
    return OK


async def _named(opened: Session, kb_name: str, name: str) -> DataSource:
    """Return a source. Raises ConfigurationError naming those there are."""
    kb = await base_named(opened, kb_name)
    async with opened.services.database.read() as sql:
        if found := await registry.named(sql, kb.id, name):
            return found
        known = ", ".join(one.name for one in await registry.sources_of(sql, kb.id, 20))
    hint = f"there are: {known}" if known else f"`streamlane sources add NAME KIND --kb {kb_name}` makes one"
    raise ConfigurationError(f"no source {name!r} in {kb_name!r}; {hint}")


async def _kept(sql: AsyncSession, source: DataSource) -> DataSource:
    """Return a source as it is now; nobody changes it until this transaction ends. Raises NotAllowed."""
    kept = await registry.find(sql, source.tenant_id, source.id, keep=True)
    if kept is None:
        raise NotAllowed(f"the source {source.name!r} is gone")
    return kept


async def _ended(opened: Session, run_id: str, limit: float) -> SyncLog | None:
    """Return a run as it is once it has ended, or after `limit` seconds."""
    loop, told = asyncio.get_running_loop(), -1
    end = loop.time() + limit
    while True:
        async with opened.services.database.read() as sql:
            run = await runs.find_run(sql, run_id)
        if run is None or run.state is not SyncState.RUNNING or loop.time() >= end:
            return run
        done = sum(getattr(run, name) for name in COUNTS)
        if done != told and done and err.is_terminal:
            err.print(f"{done} items", markup=False)
        told = done
        await asyncio.sleep(LOOK_S)


def _tell_run(run: SyncLog | None, limit: float, as_json: bool) -> int:
    if run is None:
        raise NotAllowed("its source is gone")
    over = run.state is not SyncState.RUNNING
    if as_json:
        emit(_run_facts(run))
    elif over:
        counts = ", ".join(f"{getattr(run, name)} {name}" for name in COUNTS if getattr(run, name))
        out.print(f"{run.state}: {run.message or counts or 'nothing was new'}", markup=False)
        for one in run.errors[:10]:
            out.print(f"  {shown(one['item'], 120)}: {shown(one['error'], 200)}", markup=False)
    else:
        out.print(
            f"run {run.id} was asked for; a worker does it (`streamlane worker maintenance`)", markup=False
        )
    if limit and not over:
        say("it has not ended yet; any worker goes on with it")
    return OK if run.state is SyncState.SUCCESS or not limit else FAILED


def _tell_source(source: DataSource, as_json: bool) -> int:
    if as_json:
        emit(_facts(source))
    else:
        due = moment(source.next_run_at or 0)
        out.print(f"source {source.name} is {source.status}" + (f", due {due}" if due else ""), markup=False)
    return OK


def _config(kind: Kind[Any], sets: Sequence[str]) -> dict[str, Any]:
    """Return what was said with KEY=VALUE. Raises ConfigurationError."""
    found: dict[str, Any] = {}
    for said in sets:
        key, equals, value = said.partition("=")
        if not equals:
            raise ConfigurationError(f"--set {said!r}: write KEY=VALUE")
        field = kind.config.model_fields.get(key)
        if field is not None and get_origin(field.annotation) is tuple:
            found.setdefault(key, []).append(value)
        else:
            found[key] = value
    return found


def _credentials(secrets: Sequence[str]) -> dict[str, str]:
    """Return what the named variables of the environment hold. Raises ConfigurationError."""
    found = {}
    for said in secrets:
        key, _, variable = said.partition("=")
        if not variable or variable not in os.environ:
            raise ConfigurationError(
                f"--secret {key}=…: write KEY=VARIABLE, the name of a variable that is set"
            )
        found[key] = os.environ[variable]
    return found


def _facts(source: DataSource) -> dict[str, Any]:
    names = ("id", "name", "kind", "config", "cron", "timezone", "mode", "status", "next_run_at")
    facts = {name: getattr(source, name) for name in (*names, "last_success_at", "health")}
    return facts | {
        "credentials": {key: f"set ({len(str(value))} chars)" for key, value in source.credentials.items()}
    }


def _run_facts(run: SyncLog) -> dict[str, Any]:
    names = (
        "id",
        "trigger",
        "mode",
        "state",
        *COUNTS,
        "errors",
        "message",
        "detail",
        "started_at",
        "finished_at",
    )
    return {name: getattr(run, name) for name in names}


def _dated(key: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {inner: _dated(inner, one) for inner, one in value.items()}
    return moment(value or 0) if key.endswith("_at") else value


def _flat(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, Mapping | list) else str(value)
