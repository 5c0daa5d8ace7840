"""The pages that show the wikis of knowledge bases."""

from collections.abc import Callable
from typing import Annotated, Final

from fastapi import APIRouter, Query, Response
from fastapi.responses import RedirectResponse

from pipeline.http.dashboard.filters import LARGEST
from pipeline.http.dashboard.frame import Frame, PageRoute, Visit
from pipeline.http.dashboard.markup import rendered

INDEX: Final = "index"
Number = Annotated[int, Query(ge=0, le=LARGEST)]

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/wiki")
async def wikis(visit: Visit) -> Response:
    """The bases that have pages."""
    if visit.desk.wikis is None:
        return RedirectResponse("/", 303)
    return await visit.page("wikis.html", "wiki", bases=await visit.desk.wikis.bases())


@router.get("/wiki/{base_id}")
async def wiki_pages(visit: Visit, base_id: str) -> Response:
    """All pages of a base, the documents in their folders."""
    keeper = visit.desk.wikis
    base = await keeper.base(base_id) if keeper else None
    if keeper is None or base is None:
        return await _nowhere(visit)
    pages = [page for page in await keeper.pages(base_id) if page.slug != INDEX]
    pages.sort(key=lambda page: (page.kind == "document", page.folder, page.title.casefold()))
    about = await keeper.portrait(base_id)
    return await visit.page("wiki.html", "wiki", base=base, pages=pages, about=about)


@router.get("/wiki/{base_id}/{slug}")
async def wiki_page(visit: Visit, base_id: str, slug: str, version: Number = 0) -> Response:
    """One page with its sources and versions."""
    keeper = visit.desk.wikis
    base = await keeper.base(base_id) if keeper else None
    found = await keeper.page(base_id, slug, version or None) if keeper and base else None
    if found is None:
        return await _nowhere(visit)
    body, notes = rendered(found.body, address(base_id))
    return await visit.page(
        "wiki_page.html",
        "wiki",
        base=base,
        page=found.page,
        body=body,
        notes=notes,
        sources=found.sources,
        versions=found.versions,
        shown=version or found.page.version,
    )


def address(base_id: str) -> Callable[[str], str]:
    """Return where the pages of a base are."""
    return lambda slug: f"/wiki/{base_id}/{slug}"


async def _nowhere(visit: Frame) -> Response:
    t = visit.t
    return await visit.page("problem.html", status=404, title=t("problem.wiki"), text=t("problem.wiki.about"))
