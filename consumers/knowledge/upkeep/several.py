"""What people do to up to 200 documents of one base at once: each asks for a job, which is a task that they watch.

All the documents named have to be of that base, or nothing is done (facts 1.16).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.documents import lifecycle
from consumers.knowledge.documents.documents import ProcessOptions
from consumers.knowledge.long_work.tasks import open_task
from consumers.knowledge.tables.graph import KnowledgeTag
from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase
from contracts.identity import new_id
from contracts.knowledge import ParseStatus
from contracts.payloads.maintenance import Initiator, KnowledgeListReparse
from pipeline.store import batches

MOST: Final = 200
"""Documents of one request at most."""


class StrangeDocuments(LookupError):  # noqa: N818 - named by what happened
    """Some of the documents named are not there, or of another base. Its argument is their ids."""

    @property
    def ids(self) -> Sequence[str]:
        """Which."""
        found: Sequence[str] = self.args[0]
        return found


class ProcessConfig(BaseModel):
    """What another parse is to do otherwise than its base wants; None leaves it to the base."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    language: str | None = Field(None, min_length=2, max_length=16)
    enable_multimodel: bool | None = None
    enable_question_generation: bool | None = None
    question_count: int | None = Field(None, ge=1, le=10)

    def over(self, kb: KnowledgeBase, timeout: float | None) -> ProcessOptions:
        """Return what a document of a base is to get; `timeout` of a parse, in seconds."""
        wanted = ProcessOptions.of(kb, timeout)
        pictures, questions = self.enable_multimodel, self.enable_question_generation
        return ProcessOptions(
            language=self.language,
            read_pictures=wanted.read_pictures if pictures is None else pictures,
            ask_questions=wanted.ask_questions if questions is None else questions,
            question_count=self.question_count or wanted.question_count,
            timeout=timeout,
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """The task that was started, and how many documents it works on."""

    task_id: str
    count: int


def distinct(ids: Sequence[str]) -> list[str]:
    """Return the ids without spaces around them, each once, in their order; empty ones are none."""
    return list(dict.fromkeys(one for said in ids if (one := said.strip())))


async def delete_several(
    session: AsyncSession, kb: KnowledgeBase, ids: Sequence[str], cut: int, initiator: Initiator
) -> Asked:
    """Let documents of a base be removed. Raises StrangeDocuments."""
    await _all_of(session, kb.id, ids)
    task_id = new_id()
    # in one order, so that two requests do not wait for each other
    steps = await lifecycle.delete(session, kb.tenant_id, sorted(ids), cut, initiator, task_id=task_id)
    return Asked(task_id, sum(step.ok for step in steps))


async def reparse_several(
    session: AsyncSession,
    kb: KnowledgeBase,
    ids: Sequence[str],
    initiator: Initiator,
    config: ProcessConfig | None = None,
) -> Asked:
    """Let documents of a base be parsed again. Raises StrangeDocuments."""
    await _all_of(session, kb.id, ids)
    said: dict[str, Any] | None = config.model_dump(exclude_none=True) if config else None
    task_id = new_id()
    job = KnowledgeListReparse(
        tenant_id=kb.tenant_id, knowledge_ids=tuple(ids), process_config=said or None, initiator=initiator
    )
    await open_task(session, task_id, job, tenant_id=kb.tenant_id, kb_id=kb.id, total=len(ids))
    return Asked(task_id, len(ids))


async def tagged(session: AsyncSession, kb_id: str, tag_id: str, limit: int = MOST) -> Sequence[str]:
    """Return documents of a base that have a tag and are not being deleted."""
    found = (
        select(Knowledge.id)
        .join(KnowledgeTag, KnowledgeTag.knowledge_id == Knowledge.id)
        .where(KnowledgeTag.tag_id == tag_id, Knowledge.knowledge_base_id == kb_id)
        .where(Knowledge.parse_status != ParseStatus.DELETING)
    )
    return (await session.scalars(found.order_by(Knowledge.id).limit(limit))).all()


async def _all_of(session: AsyncSession, kb_id: str, ids: Collection[str]) -> None:
    found: set[str] = set()
    for some in batches(sorted(ids)):
        of_it = select(Knowledge.id).where(Knowledge.id.in_(some), Knowledge.knowledge_base_id == kb_id)
        found |= set(await session.scalars(of_it))
    if strange := [one for one in ids if one not in found]:
        raise StrangeDocuments(strange)
