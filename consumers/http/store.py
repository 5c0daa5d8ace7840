"""The store of a base over HTTP: embed it anew, put its graph into order."""

from typing import Annotated, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from consumers.http.callers import PREFIX, Ident, base_of, services_of, writer
from consumers.http.tasks import Started, delivery_of
from consumers.knowledge.embedding.embedder import ModelUnavailable
from consumers.knowledge.embedding.embedders import MOST_NUMBERS
from consumers.knowledge.graph import curating
from consumers.knowledge.upkeep import reembedding
from pipeline.http.audit import recorded
from pipeline.http.call import Call
from pipeline.http.errors import Problem, documented
from pipeline.http.principal import Principal

router = APIRouter(
    prefix=f"{PREFIX}/knowledge-bases/{{id}}", tags=["store"], responses=documented(401, 403, 404, 409)
)


class NewModel(BaseModel):
    """Which model is to embed a base. The dimension may be left out for models of the package and the one of the settings.
    `again`: though it has this model, because the service put other weights behind its name.
    """

    model_config = ConfigDict(extra="forbid")

    model: Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[!-~]+$")]
    dimension: Annotated[int | None, Field(ge=1, le=MOST_NUMBERS)] = None
    again: bool = False


@router.post("/reembed", status_code=202, responses=documented(400))
async def reembed(
    request: Request,
    who: Annotated[Principal, writer("knowledge.base_reembedded")],
    id: Ident,  # noqa: A002 - the name in the path
    asked: NewModel,
) -> Started:
    """Make another index of a base beside the one that serves, which it replaces at the end; watch it as a task."""
    services = services_of(request)
    async with recorded(
        Call.of(request, who), "knowledge.base_reembedded", ("knowledge_base", id), model=asked.model
    ):
        kb = await base_of(services, who, id)
        try:
            dimension = asked.dimension or services.embedders.dimension_of(asked.model)
            async with services.outbox.transaction() as sql:
                task_id = await reembedding.ask_for(
                    sql, services.embedders, kb.id, asked.model, dimension, again=asked.again
                )
        except ModelUnavailable as lack:
            raise Problem(400, str(lack), "model_unavailable") from None
    return Started(task_id=task_id, delivery=delivery_of(sql))


class Curation(BaseModel):
    """What is to be done to a graph: names of one thing and relations that say the same are merged, what nothing speaks of is
    pruned. A `dry_run` only says what would be.
    """

    model_config = ConfigDict(extra="forbid")

    action: Literal["merge", "prune", "all"] = "all"
    dry_run: bool = False


@router.post("/curate", status_code=202)
async def curate(
    request: Request,
    who: Annotated[Principal, writer("knowledge.graph_curated")],
    id: Ident,  # noqa: A002 - the name in the path
    asked: Curation,
) -> Started:
    """Put the graph of a base into order; watch it as a task, whose detail is the report."""
    services = services_of(request)
    async with recorded(
        Call.of(request, who), "knowledge.graph_curated", ("knowledge_base", id), action=asked.action
    ):
        kb = await base_of(services, who, id)
        async with services.outbox.transaction() as sql:
            task_id = await curating.ask_for(sql, kb.id, asked.action, dry_run=asked.dry_run)
    return Started(task_id=task_id, delivery=delivery_of(sql))
