"""Reading conversations for what people say of themselves (facts 1.13)."""

from dataclasses import replace
from typing import Final

from consumers.knowledge.memory import turns
from consumers.knowledge.memory.reading import Segment, segments
from consumers.knowledge.memory.remembering import ExtractiveReader, MemoryReader
from consumers.knowledge.memory.storing import Who, items_of, said_of
from consumers.knowledge.memory.turns import Run
from consumers.lasting import detached
from consumers.services import Services
from contracts.payloads.memory import MemoryExtract
from pipeline import Context, DeadLetter, on

READER: Final[MemoryReader] = ExtractiveReader()


async def extract_memory(job: MemoryExtract, ctx: Context[Services]) -> None:
    """Read what a person said since the last run. Each stretch is stored with the cursor behind it; one that fails leaves the
    cursor before it, for this job's next attempt or the run of the next turn.
    """
    services, who = ctx.services, Who(job.tenant_id, job.subject_id)
    async with services.outbox.transaction(ctx.job) as session:
        run = await turns.begin(session, who, ctx.id)
    if run is None:
        ctx.log.info("nothing to do")
        return
    try:
        async with services.database.read() as session:
            lines = await turns.unread(session, run)
        stretches, left = segments(lines, run.cursor)
        for done, stretch in enumerate(stretches):
            await ctx.progress(done, len(stretches), "stretches")
            if not await _read(ctx, run, stretch):
                ctx.log.info("given up", reason="the slot was lost, or memory switched off")
                return
        async with services.outbox.transaction(ctx.job) as session:
            follows = await turns.finish(session, run, job, left=left)
    except BaseException:  # a cancel, too: nobody else would free the slot for ten minutes
        await detached(_release(ctx, run))
        raise
    ctx.log.info("read", lines=len(lines), stretches=len(stretches), follows=follows)


async def _release(ctx: Context[Services], run: Run) -> None:
    async with ctx.services.outbox.transaction(ctx.job) as session:
        await turns.release(session, run.who, ctx.id, run.sessions)


async def _read(ctx: Context[Services], run: Run, stretch: Segment) -> bool:
    services = ctx.services
    async with services.database.read() as session:
        context = await turns.before(session, run.who, stretch)
        known = [one.text for one in await items_of(session, run.who, limit=run.settings.items)]
    noted = await READER.read(replace(stretch, context=context), known)
    said = await said_of(services.embedder, noted, method=READER.method, session_id=stretch.session_id)
    async with services.outbox.transaction(ctx.job) as session:
        return await turns.store_read(session, run, stretch, said)


async def memory_lost(job: MemoryExtract, letter: DeadLetter, services: Services) -> None:
    """The final-failure hook: the next turn asks for another run."""
    async with services.outbox.transaction() as session:
        await turns.release(session, Who(job.tenant_id, job.subject_id), letter.job_id, [job.session_id])


HANDLERS: Final = (on(MemoryExtract, extract_memory, on_archived=memory_lost),)
