"""`streamlane kb`: whole knowledge bases, deleted, copied and described, and documents moved between them."""

from collections.abc import Sequence
from typing import Any, Final

from consumers.commands.ask import base_named
from consumers.commands.long_work import watched
from consumers.commands.session import Session, session
from consumers.commands.terminal import FAILED, OK, UNCHANGED, agreed, emit, moment, out, shown
from consumers.desk import by_hand
from consumers.knowledge.bases.profile_asking import ask_at_once
from consumers.knowledge.tables.knowledge import KnowledgeBase
from consumers.knowledge.tables.profiles import ProfileStatus, StoredProfile
from consumers.knowledge.upkeep import clearance, transfers
from consumers.knowledge.upkeep.profiling import profile_of
from consumers.knowledge.upkeep.several import MOST, StrangeDocuments, distinct
from consumers.knowledge.upkeep.transfers import Conflict
from contracts.payloads.maintenance import Initiator, KnowledgeMove
from pipeline.errors import ConfigurationError
from pipeline.http.audit import recorded

WRITE_S: Final = 300.0
"""How long a profile may take to be written."""


async def delete_base(name: str, *, yes: bool, limit: float, tenant: int, as_json: bool) -> int:
    """Delete a base; work until it is gone, at most `limit` seconds. Return the exit code."""
    (kb,) = await _named(tenant, name)
    if not await agreed(f"Delete the knowledge base {name!r} with everything in it?", yes=yes):
        out.print(UNCHANGED)
        return FAILED
    async with session(work=limit > 0, tenant=tenant) as opened, by_hand("kb delete") as call:
        outbox = opened.services.outbox
        async with recorded(call, "knowledge.base_deleted", ("knowledge_base", kb.id)) as entry:
            cut = await outbox.choose_cut()
            async with outbox.transaction() as sql:
                begun = await clearance.begin(sql, tenant, kb.id, cut)
            entry.details |= {"task_id": begun.task_id, "effect": begun.effect.value}
        return await watched(opened.services, begun.task_id, limit, as_json=as_json)


async def copy_base(source: str, target: str, *, yes: bool, limit: float, tenant: int, as_json: bool) -> int:
    """Make a base equal to another; work until it is, at most `limit` seconds. Return the exit code."""
    a, b = await _named(tenant, source, target)
    question = f"Make {target!r} equal to {source!r}? What {target!r} alone has is removed."
    if not await agreed(question, yes=yes):
        out.print(UNCHANGED)
        return FAILED
    async with session(work=limit > 0, tenant=tenant) as opened, by_hand("kb copy") as call:
        about = {"source_id": a.id}
        async with recorded(call, "kb.clone_started", ("knowledge_base", b.id), **about) as entry:
            who = Initiator(user_id=call.who.id, role=call.who.role)
            try:
                async with opened.services.outbox.transaction() as sql:
                    task_id = await transfers.begin_clone(sql, tenant, a.id, b.id, who)
            except Conflict as conflict:
                raise ConfigurationError(str(conflict)) from None
            entry.details["task_id"] = task_id
        return await watched(opened.services, task_id, limit, as_json=as_json)


async def move_documents(
    ids: Sequence[str], source: str, target: str, *, reparse: bool, limit: float, tenant: int, as_json: bool
) -> int:
    """Move documents to another base; work until they are there, at most `limit` seconds. Return the exit code."""
    a, b = await _named(tenant, source, target)
    idents = distinct(ids)
    if not 0 < len(idents) <= MOST:
        raise ConfigurationError(f"name 1 to {MOST} documents, not {len(idents)}")
    async with session(work=limit > 0, tenant=tenant) as opened, by_hand("kb move") as call:
        about = {"source_kb_id": a.id, "knowledge_ids": " ".join(idents)}
        async with recorded(call, "knowledge.move_started", ("knowledge_base", b.id), **about) as entry:
            job = KnowledgeMove(
                tenant_id=tenant,
                task_id="",
                knowledge_ids=tuple(idents),
                source_kb_id=a.id,
                target_kb_id=b.id,
                mode="reparse" if reparse else "reuse_vectors",
                initiator=Initiator(user_id=call.who.id, role=call.who.role),
            )
            try:
                async with opened.services.outbox.transaction() as sql:
                    task_id = await transfers.begin_move(sql, tenant, job)
            except Conflict as conflict:
                raise ConfigurationError(str(conflict)) from None
            except StrangeDocuments as strange:
                where = (
                    f"not in {source!r}: {', '.join(strange.ids[:3])}; `streamlane documents list` names them"
                )
                raise ConfigurationError(where) from None
            entry.details["task_id"] = task_id
        return await watched(opened.services, task_id, limit, as_json=as_json)


async def show_profile(name: str, *, refresh: bool, tenant: int, as_json: bool) -> int:
    """Print what a base is about, written anew first with `refresh`; return the exit code."""
    (kb,) = await _named(tenant, name)
    async with session(work=refresh, tenant=tenant) as opened:
        if refresh:
            await _write(opened, kb)
        async with opened.services.database.read() as sql:
            found = await profile_of(sql, kb.id)
    if found is None:
        raise ConfigurationError(
            f"nothing is written of {name!r} yet: `streamlane kb profile {name} --refresh`"
        )
    if as_json:
        emit(_facts(found))
    else:
        _print(name, found)
    return FAILED if found.status is ProfileStatus.FAILED else OK


async def _write(opened: Session, kb: KnowledgeBase) -> None:
    async with (
        by_hand("kb profile") as call,
        recorded(call, "knowledge.profile_requested", ("knowledge_base", kb.id)),
        opened.services.outbox.transaction() as sql,
    ):
        job_id = await ask_at_once(sql, kb)
    await opened.pipeline.wait(job_id, timeout=WRITE_S)


def _facts(found: StoredProfile) -> dict[str, Any]:
    names = (
        "status", "gist", "topics", "typical_questions", "stats", "error", "model_id", "method", "generated_at",
    )  # fmt: skip
    return {name: getattr(found, name) for name in names}


def _print(name: str, found: StoredProfile) -> None:
    if found.status is ProfileStatus.EMPTY:
        out.print(f"{name} has no documents", markup=False)
        return
    if found.error:
        out.print(f"not written anew: {shown(found.error, 200)}", markup=False)
    for line in (shown(found.gist), "", f"Topics: {', '.join(found.topics)}"):
        out.print(line, markup=False)
    for question in found.typical_questions:
        out.print(f"- {shown(question)}", markup=False)
    stats = found.stats
    types = ", ".join(f"{count} {kind}" for kind, count in stats.get("file_types", {}).items())
    out.print(
        f"{stats.get('document_count', 0)} documents ({types}); written {moment(found.generated_at or 0)},"
        f" method {found.method}",
        markup=False,
    )


async def _named(tenant: int, *names: str) -> list[KnowledgeBase]:
    async with session(tenant=tenant) as opened:
        return [await base_named(opened, name) for name in names]
