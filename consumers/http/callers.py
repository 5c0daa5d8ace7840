"""Who calls, on whose behalf, and what they work with: what every route of the domain asks first."""

from typing import Annotated, Any, Final

from fastapi import Depends, Path, Query, Request

from consumers.knowledge.bases.knowledge_bases import shown_base
from consumers.knowledge.tables.knowledge import KnowledgeBase
from consumers.services import Services
from pipeline.http.auth import needs
from pipeline.http.errors import Problem
from pipeline.http.principal import Principal
from pipeline.store.keys import Capability

Reader = Annotated[Principal, Depends(needs(Capability.KNOWLEDGE_READ, Capability.KNOWLEDGE_WRITE))]
Ident = Annotated[str, Path(max_length=64)]
AskedTenant = Annotated[
    int | None,
    Query(
        alias="tenant_id",
        ge=1,
        le=2**63 - 1,
        description="Whose; only a caller that is bound to no tenant says it.",
    ),
]

PREFIX: Final = "/api/v1"
NAME: Final = r"^[A-Za-z0-9._:-]{1,128}$"
"""What a tenant may call a session, or a person, of its own."""


def writer(deed: str) -> Any:
    """Return a dependency: whoever may change knowledge. `deed` is what the audit log calls it when somebody may not."""
    return Depends(needs(Capability.KNOWLEDGE_WRITE, deed=deed))


def services_of(request: Request) -> Services:
    """Return what the app of a request works with."""
    services: Services = request.app.state.services
    return services


def tenant_of(who: Principal, asked: int | None) -> int:
    """Return the tenant on whose behalf somebody calls. Raises Problem 400 where nobody said it, 403 for another's."""
    if who.tenant_id is None:
        if asked is None:
            raise Problem(
                400, "say for which tenant with ?tenant_id=: this caller is bound to none", "tenant_needed"
            )
        return asked
    if asked not in {None, who.tenant_id}:
        raise Problem(403, "this key is bound to another tenant", "forbidden")
    return who.tenant_id


async def base_of(services: Services, who: Principal, kb_id: str) -> KnowledgeBase:
    """Return a knowledge base that the caller may see. Raises Problem 404, StoreUnavailable."""
    async with services.database.read() as sql:
        found = await shown_base(sql, kb_id, who.tenant_id)
    if found is None:
        raise Problem(404, f"no knowledge base {kb_id[:64]} (any more)", "knowledge_base_not_found")
    return found


def printable(text: str) -> str:
    """Return a text without what no database takes: lone surrogates and NULs."""
    return text.encode("utf-8", "replace").decode().replace("\0", " ")
