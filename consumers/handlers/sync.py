"""Runs of sources (facts 1.14): one a source at a time, each going on where the last one was interrupted."""

from contextlib import AsyncExitStack
from typing import Final

from sqlalchemy import delete, select, update

from consumers.handlers.phrases import PHRASES
from consumers.knowledge.bases.knowledge_bases import keep_base
from consumers.knowledge.documents import lifecycle
from consumers.knowledge.tables.knowledge import Knowledge
from consumers.knowledge.tables.sources import DataSource
from consumers.outbound import OutboundError, StatusRefused
from consumers.scratch import scratch
from consumers.services import Services
from consumers.sources import items, runs
from consumers.sources.connector import PAGE, SourceError, Surroundings
from consumers.sources.kinds import kind_of
from consumers.sources.syncing import AllFailed, Emptied, Ready, Syncing
from consumers.sources.taking import Stopped
from contracts.knowledge import ParseStatus
from contracts.payloads.maintenance import DataSourceSync
from contracts.sources import SourceStatus, SyncMode, SyncState
from pipeline import Context, DeadLetter, Retry, Skip, Snooze, on
from pipeline.errors import ConfigurationError
from pipeline.store import changed, now_ms

LOCK_S: Final = 30.0
WAIT_S: Final = 5.0
EMPTIED: Final = "the source lists nothing, though it had items: nothing was removed; if all of it is gone, run it with force_full"


async def sync_source(job: DataSourceSync, ctx: Context[Services]) -> Snooze | None:
    """Work on one run. Killed anywhere and run again, it comes to the same."""
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(ctx.lock(f"source:{job.data_source_id}", LOCK_S))
        except Retry:  # a run that was stopped is about to end
            return Snooze(WAIT_S, "another run of this source ends")
        ready = await _begin(job, ctx.services)
        if ready is None:
            ctx.log.info("nothing to do", reason="the run has ended, or there is nothing to run any more")
        elif ready.source.status is SourceStatus.DELETING:
            await _clear(ready.source, ctx)
        else:
            await _work(ready, job, ctx)
    return None


async def _begin(job: DataSourceSync, services: Services) -> Ready | None:
    """Return what the run works on; None where it is over, or where nothing is left to run: then it is canceled."""
    async with services.outbox.transaction() as session:
        place = select(DataSource.knowledge_base_id).where(DataSource.id == job.data_source_id)
        kb = await keep_base(session, await session.scalar(place) or "")
        query = select(DataSource).where(DataSource.id == job.data_source_id).with_for_update()
        source = (await session.scalars(query)).one_or_none()
        run = await runs.find_run(session, job.sync_log_id)
        if source is None or run is None or run.state is not SyncState.RUNNING:
            return None
        vain = ""
        if kb is None:
            vain = "its knowledge base is gone"
        elif source.status is SourceStatus.PAUSED and run.mode is not SyncMode.HEALTH:
            vain = "its source is paused"
        if kb is None or vain:
            await runs.finish(session, run.id, SyncState.CANCELED, vain)
            return None
        again = run.began
        if not again:
            source.cursor = "" if run.mode is SyncMode.FULL else source.cursor
            await runs.begin(session, run, source.cursor)
            await session.flush()
    return Ready(source, kb, job.sync_log_id, run.mode, again)


async def _work(ready: Ready, job: DataSourceSync, ctx: Context[Services]) -> None:
    services, source = ctx.services, ready.source

    async def recall(external_id: str) -> str:
        async with services.database.read() as session:
            return await items.stamp_of(session, source.id, external_id)

    try:
        kind = kind_of(source.kind)
        config, credentials = kind.checked(source.config, source.credentials, services.settings)
        with scratch() as folder:
            around = Surroundings(services.settings, folder, now_ms, recall)
            async with kind.connect(config, credentials, around) as connector:
                state = await Syncing(ready, job, ctx, connector).run()
        ctx.log.info("synced", source=source.id, mode=ready.mode.value, state=state.value)
    except Stopped as ended:
        async with services.outbox.transaction() as session:  # by a person: then it is canceled already
            await runs.finish(session, ready.run_id, SyncState.CANCELED, str(ended))
    except Emptied:
        await _give_up(services, ready, EMPTIED)
    except ConfigurationError as error:
        await _give_up(services, ready, str(error))
    except AllFailed as error:
        await _is_ill(services, source, str(error))
        raise
    except OutboundError as error:
        if not error.passing or ready.mode is SyncMode.HEALTH:
            await _give_up(services, ready, str(error))
        await _is_ill(services, source, str(error))
        if isinstance(error, StatusRefused) and error.retry_after:
            raise Retry(error.retry_after, str(error)) from error
        raise
    except SourceError as error:
        if ready.mode is SyncMode.HEALTH:
            await _give_up(services, ready, str(error))
        await _is_ill(services, source, str(error))
        raise


async def _give_up(services: Services, ready: Ready, message: str) -> None:
    """End a run that no other attempt helps. Raises Skip."""
    await _is_ill(services, ready.source, message)
    async with services.outbox.transaction() as session:
        await runs.finish(session, ready.run_id, SyncState.FAILED, message)
    raise Skip(message)


async def _is_ill(services: Services, source: DataSource, message: str) -> None:
    health = {"ok": False, "message": message, "checked_at": now_ms()}
    async with services.database.transaction() as session:
        this = DataSource.id == source.id
        await changed(session, update(DataSource).where(this).values(health=health, updated_at=now_ms()))


async def _clear(source: DataSource, ctx: Context[Services]) -> None:
    """Remove a source with its documents: these first, so that whoever is killed finds what is left."""
    services, removed = ctx.services, 0
    theirs = Knowledge.data_source_id == source.id, Knowledge.parse_status != ParseStatus.DELETING
    while True:
        cut = await services.outbox.choose_cut()
        async with services.outbox.transaction() as session:
            some = (await session.scalars(select(Knowledge.id).where(*theirs).limit(PAGE))).all()
            await lifecycle.delete(session, source.tenant_id, sorted(some), cut)
            if not some:
                await session.execute(delete(DataSource).where(DataSource.id == source.id))
        removed += len(some)
        await ctx.progress(removed, removed, "removing its documents")
        if not some:
            ctx.log.info("removed a source", source=source.id, documents=removed)
            return


async def run_lost(job: DataSourceSync, letter: DeadLetter, services: Services) -> None:
    """The final-failure hook: the log of the run says that it was given up."""
    message = f"{PHRASES[letter.reason]}: {letter.error}"
    async with services.outbox.transaction() as session:
        await runs.finish(session, job.sync_log_id, SyncState.FAILED, message)


HANDLERS: Final = (on(DataSourceSync, sync_source, on_archived=run_lost),)
