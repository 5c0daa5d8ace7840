"""Reading the audit log."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from pipeline.http import answers
from pipeline.http.admin import BASE, Here, PageSize, page_of
from pipeline.http.auth import needs
from pipeline.http.dead_letters import Cursor
from pipeline.http.errors import documented
from pipeline.http.principal import Principal
from pipeline.inspector import PAGE
from pipeline.store import audit
from pipeline.store.audit import Outcome
from pipeline.store.keys import Capability

router = APIRouter(prefix=BASE, tags=["audit"], responses=documented(401, 403))


@router.get("/audit-log", response_model_exclude_none=True)
async def audit_log(  # each is a parameter of the query
    who: Annotated[Principal, Depends(needs(Capability.SYSTEM_AUDIT_READ))],
    desk: Here,
    *,
    action: Annotated[str | None, Query(max_length=64)] = None,
    actor: Annotated[str | None, Query(max_length=64)] = None,
    target_id: Annotated[str | None, Query(max_length=128)] = None,
    outcome: Outcome | None = None,
    cursor: Cursor = None,
    page_size: PageSize = PAGE,
) -> answers.AuditLog:
    """Who did what to what, and what came of it, the newest first. A tenant's key sees what its tenant's keys did."""
    size = page_of(page_size)
    async with desk.database.read() as sql:
        found = await audit.listed(
            sql,
            size + 1,
            cursor,
            action=action or None,
            actor_user_id=actor or None,
            target_id=target_id or None,
            outcome=outcome,
            tenant_id=who.tenant_id,
        )
    more = len(found) > size
    return answers.AuditLog(
        logs=[answers.AuditRow.model_validate(deed) for deed in found[:size]],
        page_size=size,
        has_more=more,
        next_cursor=str(found[size - 1].id) if more else None,
    )
