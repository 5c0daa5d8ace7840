"""The commands of the graph: their arguments and what is said of them."""

from typing import Annotated

import typer

from consumers.commands.operating import PAGE, AsJson, BaseName, Limit, OfTenant
from consumers.commands.terminal import needs, run
from consumers.extras import KNOWLEDGE

graph = typer.Typer(
    no_args_is_help=True, help="What the documents of a base name, and how it hangs together."
)

Entity = Annotated[str, typer.Argument(metavar="NAME", help="A name, or an id that `graph list` says.")]


@graph.command("list")
def list_entities(
    kb: BaseName = "default",
    contains: Annotated[str, typer.Option(help="Only with this in the name.")] = "",
    limit: Limit = PAGE,
    tenant: OfTenant = 1,
    as_json: AsJson = False,
) -> None:
    """List what is named most."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.graph import list_entities

    run(list_entities(kb, contains, limit, as_json, tenant=tenant), as_json=as_json)


@graph.command("show")
def show(
    entity: Entity,
    kb: BaseName = "default",
    depth: Annotated[int, typer.Option(min=1, max=3, help="How many relations away.")] = 1,
    limit: Annotated[int, typer.Option(min=1, max=200, help="At most so many names.")] = 50,
    tenant: OfTenant = 1,
    as_json: AsJson = False,
) -> None:
    """Show what is around something, what is said of it, and where it is named."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.graph import show

    run(show(entity, kb, depth, limit, as_json, tenant=tenant), as_json=as_json)
