"""What goes from one base to another: who may begin it, and what a copy has to do."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.bases.knowledge_bases import fix_embedding
from consumers.knowledge.long_work import tasks
from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase
from consumers.knowledge.tables.tasks import Task
from consumers.knowledge.upkeep.several import StrangeDocuments
from contracts.identity import derive_id, new_id
from contracts.knowledge import ParseStatus
from contracts.payloads.maintenance import Initiator, KnowledgeBaseClone, KnowledgeMove
from contracts.tasks import TASK_OPEN, TaskStatus
from pipeline.store import audit, batches

KINDS: Final = frozenset({KnowledgeBaseClone.spec.type, KnowledgeMove.spec.type})
"""Kinds of tasks of which two at once would undo each other's work."""


class NoKnowledgeBase(LookupError):  # noqa: N818 - named by what happened
    """A base is not there, or another tenant's. Its argument is the id."""


class Conflict(Exception):  # noqa: N818 - named by what happened
    """Two bases, as they are, do not let this; its text is one sentence for a person."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What a base lacks and what it has too much to be equal to another: ids of documents of the one, and of the other.
    `left_out` counts the documents of the first that are not complete, and so cannot be copied.
    """

    missing: Sequence[str]
    extra: Sequence[str]
    left_out: int

    @property
    def count(self) -> int:
        """How much there is to do."""
        return len(self.missing) + len(self.extra)


async def begin_clone(
    session: AsyncSession, tenant_id: int, source_id: str, target_id: str, initiator: Initiator
) -> str:
    """Let a base be made equal to another; return the id of the task. Raises NoKnowledgeBase, Conflict."""
    source, target = await _both(session, tenant_id, source_id, target_id)
    _comparable(source, target)
    task_id = f"kb_clone_{new_id()}"
    job = KnowledgeBaseClone(
        tenant_id=tenant_id, task_id=task_id, source_id=source_id, target_id=target_id, initiator=initiator
    )
    await _open(session, job, source_id, target_id)
    return task_id


async def end_clone(
    session: AsyncSession, job: KnowledgeBaseClone, status: TaskStatus, *, message: str = "", error: str = ""
) -> None:
    """End the task of a copy, and write down how, unless it has ended."""
    if not await tasks.finish(session, job.task_id, status, message=message, error=error):
        return
    done, who = status is TaskStatus.COMPLETED, job.initiator or Initiator()
    details = {"task_id": job.task_id, "source_id": job.source_id}
    deed = audit.Deed(
        action=f"kb.clone_{'completed' if done else 'failed'}",
        actor_user_id=who.user_id,
        actor_role=who.role,
        tenant_id=job.tenant_id,
        target_type="knowledge_base",
        target_id=job.target_id,
        outcome=audit.Outcome.SUCCESS if done else audit.Outcome.FAILED,
        details=details if done else {**details, "error": error[:500]},
    )
    await audit.write(session, deed)


async def begin_move(session: AsyncSession, tenant_id: int, wanted: KnowledgeMove) -> str:
    """Let documents be moved as `wanted`, but for its task id; return that. Raises NoKnowledgeBase, StrangeDocuments, Conflict."""
    source, target = await _both(session, tenant_id, wanted.source_kb_id, wanted.target_kb_id)
    _comparable(source, target)
    found: dict[str, ParseStatus] = {}
    for some in batches(sorted(wanted.knowledge_ids)):
        columns = select(Knowledge.id, Knowledge.parse_status)
        rows = await session.execute(
            columns.where(Knowledge.id.in_(some), Knowledge.knowledge_base_id == source.id)
        )
        found.update((row.id, row.parse_status) for row in rows)
    if strange := [ident for ident in wanted.knowledge_ids if ident not in found]:
        raise StrangeDocuments(strange)
    if moving := [ident for ident in wanted.knowledge_ids if found[ident] is not ParseStatus.COMPLETED]:
        raise Conflict(
            f"only complete documents are moved: {moving[0]} is {found[moving[0]]}"
            + (f", and {len(moving) - 1} more are not complete" if len(moving) > 1 else "")
        )
    task_id = f"kg_move_{new_id()}"
    job = wanted.model_copy(update={"task_id": task_id})
    await _open(session, job, source.id, target.id, total=len(wanted.knowledge_ids))
    return task_id


async def still_possible(
    session: AsyncSession, tenant_id: int, source_id: str, target_id: str
) -> tuple[KnowledgeBase, KnowledgeBase]:
    """Return source and target of work that was begun, tied to one embedding model. Raises NoKnowledgeBase, Conflict."""
    source, target = await _bases(session, tenant_id, source_id, target_id)
    _comparable(source, target)
    if source.embedding_model and target.embedding_model is None:
        tied = await fix_embedding(
            session, target.id, source.embedding_model, source.embedding_dimension or 0
        )
        if tied != (source.embedding_model, source.embedding_dimension):
            raise Conflict(f"they have vectors of different models: {source.embedding_model} and {tied[0]}")
    return source, target


async def difference(session: AsyncSession, source_id: str, target_id: str) -> Difference:
    """Return what separates two bases, by the content of their documents: a document of the same content, and best of the same
    place, stands for the other.
    """
    source, target = await _contents(session, source_id), await _contents(session, target_id)
    there: defaultdict[str, dict[str, str]] = defaultdict(dict)
    extra = [row.id for row in target if row.parse_status is ParseStatus.DELETING]
    placed = {row.source: row.file_hash for row in source}
    for row in target:
        if row.parse_status is ParseStatus.DELETING:
            continue
        if placed.get(row.source, row.file_hash) == row.file_hash:
            there[row.file_hash][row.id] = row.source
        else:  # its place is that of other content
            extra.append(row.id)
    missing: list[str] = []
    left_out = 0
    # those that stand in the same place find each other first
    for row in sorted(source, key=lambda one: (one.source not in there[one.file_hash].values(), one.id)):
        same = there[row.file_hash]
        match = next((ident for ident, place in same.items() if place == row.source), next(iter(same), None))
        if match is not None:
            del same[match]
        elif row.parse_status is ParseStatus.COMPLETED:
            missing.append(row.id)
        else:
            left_out += row.parse_status is not ParseStatus.DELETING
    extra += [ident for same in there.values() for ident in same]
    return Difference(missing, sorted(extra), left_out)


def copy_id(task_id: str, source_id: str) -> str:
    """Return the id of the copy that a task makes of a document: once, however often it runs."""
    return derive_id(task_id, source_id)


async def _contents(session: AsyncSession, kb_id: str) -> Sequence[Any]:
    columns = select(Knowledge.id, Knowledge.file_hash, Knowledge.source, Knowledge.parse_status)
    return (
        await session.execute(columns.where(Knowledge.knowledge_base_id == kb_id).order_by(Knowledge.id))
    ).all()


async def _open(
    session: AsyncSession,
    job: KnowledgeBaseClone | KnowledgeMove,
    source_id: str,
    target_id: str,
    total: int = 0,
) -> None:
    await tasks.open_task(
        session,
        job.task_id,
        job,
        tenant_id=job.tenant_id,
        kb_id=target_id,
        total=total,
        detail={tasks.SOURCE: source_id},
    )


async def _both(
    session: AsyncSession, tenant_id: int, source_id: str, target_id: str
) -> tuple[KnowledgeBase, KnowledgeBase]:
    """Return two bases that nothing else is carried between, and that stay as they are until this transaction ends."""
    if source_id == target_id:
        raise Conflict("source and target are the same base")
    source, target = await _bases(session, tenant_id, source_id, target_id)
    for kb in (source, target):
        busy = (
            Task.tenant_id == tenant_id,
            Task.status.in_(TASK_OPEN),
            Task.kind.in_(KINDS),
            tasks.of_base(kb.id),
        )
        if (found := await session.scalar(select(Task.id).where(*busy).limit(1))) is not None:
            raise Conflict(
                f"the base {kb.name!r} is busy with the task {found}: wait for its end, or cancel it"
            )
    return source, target


async def _bases(
    session: AsyncSession, tenant_id: int, source_id: str, target_id: str
) -> tuple[KnowledgeBase, KnowledgeBase]:
    found: dict[str, KnowledgeBase] = {}
    for ident in sorted(
        {source_id, target_id}
    ):  # in one order, so that two requests do not wait for each other
        live = (
            KnowledgeBase.id == ident,
            KnowledgeBase.deleted_at.is_(None),
            KnowledgeBase.tenant_id == tenant_id,
        )
        query = select(KnowledgeBase).where(*live).execution_options(populate_existing=True)
        kb = (await session.scalars(query.with_for_update())).one_or_none()
        if kb is None:
            raise NoKnowledgeBase(ident)
        found[ident] = kb
    return found[source_id], found[target_id]


def _comparable(source: KnowledgeBase, target: KnowledgeBase) -> None:
    models = {(kb.embedding_model, kb.embedding_dimension) for kb in (source, target)} - {(None, None)}
    if len(models) > 1:
        raise Conflict(
            f"they have vectors of different models: {source.embedding_model} and {target.embedding_model}"
        )
