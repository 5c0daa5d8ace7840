"""What a person does to a document: stop its parse, parse it again, delete it (facts 1.20, 11.1).

Each function is one guarded transition inside the caller's transaction, with the cancel of the jobs that it makes
pointless and the jobs that it asks for. It says what really happened, never touches a document of another tenant, and
never raises for a lost race. `cut` is that of `Outbox.choose_cut`, asked for before the transaction began.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge import ids
from consumers.knowledge.bases.profile_asking import ask_for_profile
from consumers.knowledge.bases.wiki_lane import retract
from consumers.knowledge.documents.documents import (
    SUMMARY_GIVEN_UP,
    Entry,
    ProcessOptions,
    Registered,
    abandon,
    process_job,
)
from consumers.knowledge.documents.documents import cancel as cancel_document
from consumers.knowledge.long_work.tasks import open_task
from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase
from contracts.fences import Coverage, coverage
from contracts.identity import new_id
from contracts.jobs import Scope
from contracts.knowledge import DocumentEffect as Effect
from contracts.knowledge import ParseStatus, SpanCode, SummaryStatus, sources
from contracts.payloads.maintenance import Initiator, KnowledgeListDelete
from contracts.wire import cut as shortened
from pipeline.store import Outbox, changed, now_ms

PARSE: Final = coverage("knowledge")
ALL_OF_IT: Final = Coverage(only=(PARSE.only or frozenset()) | {"knowledge:auto_tag", "datatable:summary"})
"""Every job that works on one document alone."""


DELETE_GIVEN_UP: Final = "delete task"
"""How the error of a document begins whose removal was given up."""


@dataclass(frozen=True, slots=True)
class Step:
    """What became of one document. `status` and `attempt` are those it had before."""

    knowledge_id: str
    effect: Effect
    status: ParseStatus | None = None
    attempt: int = 0

    @property
    def ok(self) -> bool:
        """Whether the document is as it was asked for."""
        return self.effect in {Effect.DONE, Effect.ALREADY}


async def cancel_parse(session: AsyncSession, tenant_id: int | None, knowledge_id: str, cut: int) -> Step:
    """Stop the parse of a document of a tenant, None: of whatever tenant; what was written of it stays."""
    row = await locked(session, tenant_id, knowledge_id)
    if row is None:
        return Step(knowledge_id, Effect.NOT_FOUND)
    status, attempt = row.parse_status, row.attempt
    if await cancel_document(session, knowledge_id):
        effect = Effect.DONE
    elif status is ParseStatus.CANCELLED:
        effect = Effect.ALREADY
    else:
        return Step(knowledge_id, Effect.REFUSED, status, attempt)
    await Outbox.cancel(session, Scope("knowledge", knowledge_id), PARSE, cut)
    return Step(knowledge_id, effect, status, attempt)


async def reparse(
    session: AsyncSession,
    tenant_id: int | None,
    knowledge_id: str,
    cut: int,
    timeout: float | None = None,
    *,
    options: ProcessOptions | None = None,
) -> Step:
    """Open a new attempt at a document, in whatever state but deleting. What older attempts read stays until the new one
    replaces it; their jobs are cancelled, and those that run learn that they are superseded. It gets what its base wants,
    unless `options` say otherwise.
    """
    row = await locked(session, tenant_id, knowledge_id)
    if row is None:
        return Step(knowledge_id, Effect.NOT_FOUND)
    status, attempt = row.parse_status, row.attempt
    kb = await session.get(KnowledgeBase, row.knowledge_base_id)
    alive = kb is not None and kb.deleted_at is None
    moved = alive and await changed(
        session,
        update(Knowledge)
        .where(Knowledge.id == knowledge_id, Knowledge.attempt == attempt)
        .where(Knowledge.parse_status.in_(sources("reparse")))
        .values(
            parse_status=ParseStatus.PENDING,
            summary_status=SummaryStatus.NONE,
            attempt=attempt + 1,
            error_message="",
            warnings=[],
            updated_at=now_ms(),
            processed_at=None,
        ),
    )
    if kb is None or not moved:
        return Step(knowledge_id, Effect.REFUSED, status, attempt)
    await abandon(session, kb.id, knowledge_id, attempt, SpanCode.TASK_SUPERSEDED)
    await Outbox.cancel(session, Scope("knowledge", knowledge_id), PARSE, cut)
    new = Registered(knowledge_id, attempt + 1, Entry.RETRIED)
    job = process_job(kb, new, row, options or ProcessOptions.of(kb, timeout))
    await Outbox.add(session, ids.process_job(knowledge_id, new.attempt), job, timeout=timeout)
    return Step(knowledge_id, Effect.DONE, status, attempt)


async def delete(
    session: AsyncSession,
    tenant_id: int | None,
    knowledge_ids: Sequence[str],
    cut: int,
    initiator: Initiator | None = None,
    *,
    task_id: str | None = None,
) -> list[Step]:
    """Let documents be removed, by one job a base. Asked again of one that is being removed, it starts another job:
    the first one may be lost. With `task_id`, all being of one base, the job is a task that is watched.
    """
    steps: list[Step] = []
    going: dict[tuple[int, str], list[str]] = {}  # a base that is deleted takes its jobs along, and no others
    for ident in dict.fromkeys(knowledge_ids):
        row = await locked(session, tenant_id, ident)
        if row is None:
            steps.append(Step(ident, Effect.NOT_FOUND))
            continue
        status = row.parse_status
        if status is not ParseStatus.DELETING:
            await _begin_delete(session, row, cut)
        going.setdefault((row.tenant_id, row.knowledge_base_id), []).append(ident)
        effect = Effect.ALREADY if status is ParseStatus.DELETING else Effect.DONE
        steps.append(Step(ident, effect, status, row.attempt))
    for (owner, kb_id), named in going.items():
        job = KnowledgeListDelete(tenant_id=owner, knowledge_ids=tuple(named), initiator=initiator)
        if task_id is None:
            await Outbox.add(session, new_id(), job)
        else:
            await open_task(session, task_id, job, tenant_id=owner, kb_id=kb_id, total=len(named))
    return steps


async def condemn(session: AsyncSession, tenant_id: int, knowledge_ids: Sequence[str], cut: int) -> None:
    """Let documents be removed by the caller, whose job does it at once: no other one is asked for."""
    for ident in sorted(knowledge_ids):
        row = await locked(session, tenant_id, ident)
        if row is not None and row.parse_status is not ParseStatus.DELETING:
            await _begin_delete(session, row, cut)


async def fail_delete(session: AsyncSession, knowledge_id: str, message: str) -> bool:
    """Deleting → failed: the removal was given up. `message` is one sentence for a person, cut to 8 KB."""
    return bool(
        await changed(
            session,
            update(Knowledge)
            .where(Knowledge.id == knowledge_id, Knowledge.parse_status.in_(sources("fail_delete")))
            .values(parse_status=ParseStatus.FAILED, error_message=shortened(message), updated_at=now_ms()),
        )
    )


async def _begin_delete(session: AsyncSession, row: Knowledge, cut: int) -> None:
    await session.execute(
        update(Knowledge)
        .where(Knowledge.id == row.id, Knowledge.parse_status.in_(sources("delete")))
        .values(
            parse_status=ParseStatus.DELETING,
            summary_status=SUMMARY_GIVEN_UP,
            error_message="",
            updated_at=now_ms(),
        ),
        execution_options={"synchronize_session": False},
    )
    await abandon(session, row.knowledge_base_id, row.id, row.attempt)
    await retract(session, row.tenant_id, row.knowledge_base_id, row.id)
    await Outbox.cancel(session, Scope("knowledge", row.id), ALL_OF_IT, cut)
    await ask_for_profile(session, row.knowledge_base_id)


async def locked(session: AsyncSession, tenant_id: int | None, knowledge_id: str) -> Knowledge | None:
    """Return a document as it stands, for this transaction to change; None for another tenant's. Its base is locked before it,
    as everybody does.
    """
    base = select(Knowledge.knowledge_base_id).where(Knowledge.id == knowledge_id).scalar_subquery()
    await session.execute(select(KnowledgeBase.id).where(KnowledgeBase.id == base).with_for_update(read=True))
    found = select(Knowledge).where(Knowledge.id == knowledge_id)
    if tenant_id is not None:
        found = found.where(Knowledge.tenant_id == tenant_id)
    return (await session.scalars(found.with_for_update())).one_or_none()
