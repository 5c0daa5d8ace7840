"""Sources over HTTP: made, seen, changed, run and removed; their credentials are taken and never given back."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.http.callers import PREFIX, Ident, Reader, base_of, services_of, writer
from consumers.http.source_answers import (
    Asked,
    Ended,
    Failed,
    FailedItems,
    Health,
    NewDataSource,
    Run,
    Runs,
    Source,
    SourceChange,
    Sources,
    Wanted,
)
from consumers.http.tasks import delivery_of
from consumers.knowledge.bases.knowledge_bases import keep_base
from consumers.knowledge.tables.sources import DataSource
from consumers.sources import items, registry, runs
from consumers.sources.kinds import check_change, kind_of
from consumers.sources.registry import NewSource, Plan
from consumers.sources.runs import Wish
from contracts.knowledge import DocumentEffect as Effect
from contracts.payloads.maintenance import Initiator
from contracts.sources import ItemState, SourceStatus, SyncMode, SyncState
from pipeline.http.admin import PageSize, page_of
from pipeline.http.audit import recorded
from pipeline.http.call import Call
from pipeline.http.errors import Problem, documented
from pipeline.http.principal import Principal
from pipeline.inspector import PAGE

router = APIRouter(prefix=PREFIX, tags=["sources"], responses=documented(401, 403, 404))

OF_BASE: Final = "/knowledge-bases/{id}/sources"
ONE: Final = "/sources/{source_id}"

SourceId = Annotated[str, Path(max_length=64)]
After = Annotated[str, Query(alias="cursor", max_length=64, description="from `next_cursor`")]


@router.post(OF_BASE, status_code=201, responses=documented(400, 409))
async def create(
    request: Request,
    who: Annotated[Principal, writer("knowledge.source_created")],
    id: Ident,  # noqa: A002 - the name in the path
    new: NewDataSource,
) -> Source:
    """Make a source of a base. It runs when it is due, or when it is asked to."""
    services = services_of(request)
    await base_of(services, who, id)
    kind_of(new.kind).checked(new.config, new.credentials, services.settings)
    plan = Plan(cron=new.cron, timezone=new.timezone, mode=new.mode)
    asked = NewSource(name=new.name, kind=new.kind, config=new.config, credentials=new.credentials, plan=plan)
    async with recorded(Call.of(request, who), "knowledge.source_created", ("knowledge_base", id)) as entry:
        async with services.database.transaction() as sql:
            kb = await keep_base(sql, id)
            if kb is None:
                raise Problem(404, f"no knowledge base {id} (any more)", "knowledge_base_not_found")
            made = await registry.create(sql, kb, asked)
            if made is None:
                raise _taken(new.name)
        entry.details["id"] = made.id
    return _shown(made)


@router.get(OF_BASE)
async def listed(
    request: Request,
    who: Reader,
    id: Ident,  # noqa: A002 - the name in the path
    cursor: After = "",
    page_size: PageSize = PAGE,
) -> Sources:
    """The sources of a base, the oldest first."""
    services, size = services_of(request), page_of(page_size)
    await base_of(services, who, id)
    async with services.database.read() as sql:
        found = await registry.sources_of(sql, id, size + 1, cursor)
    shown, more, after = _page(found, size)
    return Sources(sources=[_shown(one) for one in shown], page_size=size, has_more=more, next_cursor=after)


@router.get(ONE)
async def source(request: Request, who: Reader, source_id: SourceId) -> Source:
    """One source."""
    async with services_of(request).database.read() as sql:
        return _shown(await _found(sql, who, source_id))


@router.patch(ONE, responses=documented(400, 409))
async def change(
    request: Request,
    who: Annotated[Principal, writer("knowledge.source_changed")],
    source_id: SourceId,
    asked: SourceChange,
) -> Source:
    """Change a source. With another config everything is listed anew at the next run."""
    services = services_of(request)
    async with (
        recorded(Call.of(request, who), "knowledge.source_changed", ("data_source", source_id)),
        services.database.transaction() as sql,
    ):
        found = await _found(sql, who, source_id, keep=True)
        values = asked.model_dump(exclude_none=True)
        if asked.name and asked.name != found.name:
            other = await registry.named(sql, found.knowledge_base_id, asked.name)
            if other is not None:
                raise _taken(asked.name)
        check_change(found, values, services.settings)
        if values and not await registry.change(sql, found, **values):
            raise _under_way(found)
        return _shown(found)


@router.delete(ONE, responses=documented(409))
async def remove(
    request: Request,
    who: Annotated[Principal, writer("knowledge.source_deleted")],
    source_id: SourceId,
    with_documents: Annotated[
        bool, Query(description="its documents go with it; else they stay as ordinary ones")
    ] = False,
) -> Ended:
    """Remove a source."""
    services = services_of(request)
    async with recorded(
        Call.of(request, who), "knowledge.source_deleted", ("data_source", source_id)
    ) as entry:
        entry.details["with_documents"] = str(with_documents).lower()
        async with services.outbox.transaction() as sql:
            found = await _found(sql, who, source_id, keep=True)
            if not await registry.remove(sql, found, with_documents=with_documents):
                raise _under_way(found)
    return Ended(id=source_id, effect=Effect.DONE, delivery=delivery_of(sql))


@router.post(f"{ONE}/sync", status_code=202, responses=documented(400, 409))
async def sync(
    request: Request,
    who: Annotated[Principal, writer("knowledge.source_synced")],
    source_id: SourceId,
    wanted: Wanted,
) -> Asked:
    """Run a source now."""
    if (wanted.mode is SyncMode.PARTIAL_RESYNC) != bool(wanted.selection):
        raise Problem(
            400, f"a selection belongs to {SyncMode.PARTIAL_RESYNC}, which needs one", "invalid_request"
        )
    services = services_of(request)
    wish = Wish(
        mode=wanted.mode,
        selection=tuple(wanted.selection),
        force_full=wanted.force_full,
        max_items=wanted.max_items,
        initiator=Initiator(user_id=who.id, role=who.role),
    )
    async with recorded(
        Call.of(request, who), "knowledge.source_synced", ("data_source", source_id)
    ) as entry:
        entry.details["mode"] = wanted.mode.value
        async with services.outbox.transaction() as sql:
            found = await _found(sql, who, source_id, keep=True)
            if not runs.may_run(found, wanted.mode):
                raise Problem(
                    409, f"source {source_id} is {found.status}: resume it first", "source_not_active"
                )
            run_id = await runs.open_run(sql, found, wish)
            if run_id is None:
                raise _under_way(found)
        entry.details["log"] = run_id
    return Asked(log_id=run_id, delivery=delivery_of(sql))


@router.post(f"{ONE}/pause", responses=documented(409))
async def pause(
    request: Request, who: Annotated[Principal, writer("knowledge.source_paused")], source_id: SourceId
) -> Source:
    """Let nothing of a source run until it is resumed; a run under way ends by itself."""
    return await _steered(request, who, source_id, "knowledge.source_paused", SourceStatus.PAUSED)


@router.post(f"{ONE}/resume", responses=documented(409))
async def resume(
    request: Request, who: Annotated[Principal, writer("knowledge.source_resumed")], source_id: SourceId
) -> Source:
    """Let a source run again; what was due meanwhile is not made up for."""
    return await _steered(request, who, source_id, "knowledge.source_resumed", SourceStatus.ACTIVE)


@router.post(f"{ONE}/cancel", responses=documented(409))
async def cancel(
    request: Request, who: Annotated[Principal, writer("knowledge.source_canceled")], source_id: SourceId
) -> Ended:
    """Stop the run of a source that is under way; what it did until now stays."""
    outbox = services_of(request).outbox
    async with recorded(Call.of(request, who), "knowledge.source_canceled", ("data_source", source_id)):
        cut = await outbox.choose_cut()
        async with outbox.transaction() as sql:
            found = await _found(sql, who, source_id, keep=True)
            run = await runs.running(sql, source_id)
            if run is None or found.status is SourceStatus.DELETING:
                raise Problem(409, f"no run of source {source_id} is under way", "action_not_allowed")
            effect = await runs.cancel(sql, run, cut)
    return Ended(id=run.id, effect=effect, delivery=delivery_of(sql))


@router.get(f"{ONE}/logs")
async def logs(
    request: Request,
    who: Reader,
    source_id: SourceId,
    state: SyncState | None = None,
    cursor: After = "",
    page_size: PageSize = PAGE,
) -> Runs:
    """The runs of a source, the newest first."""
    size = page_of(page_size)
    async with services_of(request).database.read() as sql:
        await _found(sql, who, source_id)
        found = await runs.runs_of(sql, source_id, size + 1, cursor, state or "")
    shown, more, after = _page(found, size)
    told = [Run.model_validate(one) for one in shown]
    return Runs(logs=told, page_size=size, has_more=more, next_cursor=after)


@router.get(f"{ONE}/logs/{{log_id}}")
async def log(
    request: Request, who: Reader, source_id: SourceId, log_id: Annotated[str, Path(max_length=64)]
) -> Run:
    """One run of a source."""
    async with services_of(request).database.read() as sql:
        await _found(sql, who, source_id)
        found = await runs.find_run(sql, log_id)
    if found is None or found.data_source_id != source_id:
        raise Problem(404, f"no run {log_id} of this source", "log_not_found")
    return Run.model_validate(found)


@router.get(f"{ONE}/failed")
async def failed(
    request: Request, who: Reader, source_id: SourceId, cursor: After = "", page_size: PageSize = PAGE
) -> FailedItems:
    """What failed at its last try: `dlq-retry` tries it again."""
    size = page_of(page_size)
    async with services_of(request).database.read() as sql:
        await _found(sql, who, source_id)
        found = await items.page(sql, source_id, ItemState.FAILED, cursor, size + 1)
    told = [
        Failed(id=one.item.id, name=one.item.name, error=one.error, knowledge_id=one.knowledge_id)
        for _, one in found[:size]
    ]
    after = found[size - 1][0] if len(found) > size else None
    return FailedItems(items=told, page_size=size, has_more=after is not None, next_cursor=after)


@router.get(f"{ONE}/health")
async def health(request: Request, who: Reader, source_id: SourceId) -> Health:
    """How a source is, as its last run found it; a run with mode `health` looks anew."""
    async with services_of(request).database.read() as sql:
        found = await _found(sql, who, source_id)
        run = await runs.running(sql, source_id)
        counts = await items.counted(sql, source_id)
    return Health(
        status=found.status,
        health=found.health,
        last_success_at=found.last_success_at,
        next_run_at=found.next_run_at,
        items=counts,
        running=run.id if run else None,
    )


async def _steered(request: Request, who: Principal, source_id: str, deed: str, to: SourceStatus) -> Source:
    steer = registry.pause if to is SourceStatus.PAUSED else registry.resume
    async with (
        recorded(Call.of(request, who), deed, ("data_source", source_id)),
        services_of(request).database.transaction() as sql,
    ):
        found = await _found(sql, who, source_id, keep=True)
        if found.status is SourceStatus.DELETING:
            raise Problem(409, f"source {source_id} is being deleted", "action_not_allowed")
        await steer(sql, found)
        return _shown(found)


async def _found(sql: AsyncSession, who: Principal, source_id: str, *, keep: bool = False) -> DataSource:
    found = await registry.find(sql, who.tenant_id, source_id, keep=keep)
    if found is None:
        raise Problem(404, f"no source {source_id} (any more)", "source_not_found")
    return found


def _shown(source: DataSource) -> Source:
    secrets = {name: f"set ({len(str(value))} chars)" for name, value in sorted(source.credentials.items())}
    fields = {name: getattr(source, name) for name in Source.model_fields if name != "credentials"}
    return Source(**fields, credentials=secrets)


def _page(found: Sequence[Any], size: int) -> tuple[Sequence[Any], bool, str | None]:
    """Return the rows of a page out of one more than it has, whether there are more, and where they begin."""
    more = len(found) > size
    return found[:size], more, found[size - 1].id if more else None


def _taken(name: str) -> Problem:
    return Problem(409, f"there is a source {name!r} already", "name_taken")


def _under_way(source: DataSource) -> Problem:
    return Problem(
        409, f"a run of source {source.id} is under way: wait for it, or cancel it", "run_under_way"
    )
