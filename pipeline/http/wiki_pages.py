"""The wikis of knowledge bases over HTTP: their pages, each with its sources and versions."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel

from pipeline.http.admin import PageSize, page_of
from pipeline.http.desk import desk_of
from pipeline.http.errors import Problem, documented
from pipeline.http.knowledge import Reader
from pipeline.http.wikis import WikiHome, Wikis
from pipeline.inspector import PAGE

BASE: Final = "/api/v1/knowledge-bases/{id}/wiki/pages"
Ident = Annotated[str, Path(max_length=64)]

router = APIRouter(prefix=BASE, tags=["wiki"], responses=documented(401, 403, 404))


class Page(BaseModel):
    """A page as a list names it."""

    slug: str
    title: str
    kind: str
    folder: str
    lead: str
    method: str
    version: int
    updated_at: int


class Pages(BaseModel):
    """Some pages of a base, by slug."""

    pages: Sequence[Page]
    page_size: int
    has_more: bool
    next_cursor: str | None = None


class PageSource(BaseModel):
    """A document that a page is made from."""

    knowledge_id: str
    title: str
    source: str


class PageVersion(BaseModel):
    """When a page was written anew."""

    version: int
    created_at: int


class PageDetail(Page):
    """A page with its Markdown: links to other pages are `[title](wiki:slug)`, sources are footnotes."""

    body: str
    sources: Sequence[PageSource]
    versions: Sequence[PageVersion]


@router.get("", response_model_exclude_none=True)
async def pages(
    request: Request,
    who: Reader,
    id: Ident,  # noqa: A002 - the name in the path
    cursor: Annotated[str, Query(max_length=255, description="from `next_cursor`")] = "",
    page_size: PageSize = PAGE,
) -> Pages:
    """The pages of a base by slug."""
    keeper, base = await _base(request, id, who.tenant_id)
    size = page_of(page_size)
    found = await keeper.pages(base.id, cursor, size + 1)
    return Pages(
        pages=[Page(**asdict(page)) for page in found[:size]],
        page_size=size,
        has_more=len(found) > size,
        next_cursor=found[size - 1].slug if len(found) > size else None,
    )


@router.get("/{slug}")
async def page(
    request: Request,
    who: Reader,
    id: Ident,  # noqa: A002 - the name in the path
    slug: Annotated[str, Path(max_length=255)],
    version: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
) -> PageDetail:
    """One page, or what an older version of it said."""
    keeper, base = await _base(request, id, who.tenant_id)
    found = await keeper.page(base.id, slug, version)
    if found is None:
        raise Problem(404, f"no page {slug[:255]} (any more)", "wiki_page_not_found")
    return PageDetail(
        **asdict(found.page),
        body=found.body,
        sources=[PageSource(**asdict(source)) for source in found.sources],
        versions=[PageVersion(version=number, created_at=at) for number, at in found.versions],
    )


async def _base(request: Request, ident: str, tenant_id: int | None) -> tuple[Wikis, WikiHome]:
    keeper = desk_of(request).wikis
    base = await keeper.base(ident, tenant_id) if keeper else None
    if keeper is None or base is None:
        raise Problem(404, f"no knowledge base {ident[:64]} (any more)", "knowledge_base_not_found")
    return keeper, base
