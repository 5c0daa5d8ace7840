"""The pages that show what the documents of a knowledge base name, and how it hangs together."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Response

from pipeline.http.dashboard.constellations import drawn
from pipeline.http.dashboard.frame import Frame, PageRoute, Visit

FOUND: Final = 60
"""Things that a search, or a base that was not searched, lists."""
DRAWN: Final = 40
"""Things in a picture: more are not read."""
DEEPEST: Final = 3

Depth = Annotated[int, Query(ge=1, le=DEEPEST)]
Text = Annotated[str, Query(max_length=255)]

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/graph/{base_id}")
async def graph(visit: Visit, base_id: str, find: Text = "") -> Response:
    """What the documents of a base name most, or what of it has a name that was looked for."""
    keeper = visit.desk.graphs
    base = await keeper.home(base_id) if keeper else None
    if keeper is None or base is None:
        return await _nowhere(visit)
    found = await keeper.find(base_id, find.replace("\0", ""), FOUND)
    return await visit.page("graph.html", "documents", base=base, found=found, find=find)


@router.get("/graph/{base_id}/{entity_id}")
async def entity(visit: Visit, base_id: str, entity_id: str, depth: Depth = 1) -> Response:
    """One thing: what is around it, what is said of it, and which documents name it."""
    keeper = visit.desk.graphs
    base = await keeper.home(base_id) if keeper else None
    known = await keeper.known(base_id, entity_id) if keeper and base else None
    if keeper is None or base is None or known is None:
        return await _nowhere(visit)
    near = await keeper.around(base_id, entity_id, depth, DRAWN)
    return await visit.page(
        "graph_entity.html",
        "documents",
        base=base,
        known=known,
        picture=drawn(near),
        names={node.id: node.name for node in near.nodes},
        cut=near.cut,
        depth=depth,
        depths=range(1, DEEPEST + 1),
    )


async def _nowhere(visit: Frame) -> Response:
    t = visit.t
    return await visit.page(
        "problem.html", status=404, title=t("problem.graph"), text=t("problem.graph.about")
    )
