"""The commands that keep knowledge bases in order: their arguments and what is said of them."""

from typing import Annotated, Final

import typer

from consumers.commands.operating import AsJson, OfTenant, Yes
from consumers.commands.terminal import named, needs, run
from consumers.extras import KNOWLEDGE

kb = typer.Typer(
    no_args_is_help=True,
    help="Knowledge bases: make, set up, delete, copy or describe one, move documents between two.",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the knowledge base.", callback=named)]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Work until it is done.")]
LIMIT_S: Final = 3600.0


@kb.command("delete")
def delete(
    name: Name, wait: Wait = True, yes: Yes = False, tenant: OfTenant = 1, as_json: AsJson = False
) -> None:
    """Delete a knowledge base with everything in it. Its name is free at once."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.knowledge_bases import delete_base

    run(
        delete_base(name, yes=yes, limit=LIMIT_S if wait else 0, tenant=tenant, as_json=as_json),
        as_json=as_json,
    )


@kb.command("copy")
def copy(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="Name of the base to copy.", callback=named)
    ],
    target: Annotated[
        str,
        typer.Argument(metavar="TARGET", help="Name of the base that becomes equal to it.", callback=named),
    ],
    wait: Wait = True,
    yes: Yes = False,
    tenant: OfTenant = 1,
    as_json: AsJson = False,
) -> None:
    """Make one base equal to another: it gets what it lacks, without parsing, and loses what it has too much."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.knowledge_bases import copy_base

    limit = LIMIT_S if wait else 0
    run(copy_base(source, target, yes=yes, limit=limit, tenant=tenant, as_json=as_json), as_json=as_json)


@kb.command("profile")
def profile(
    name: Name,
    refresh: Annotated[bool, typer.Option("--refresh", help="Write it anew first.")] = False,
    tenant: OfTenant = 1,
    as_json: AsJson = False,
) -> None:
    """Say what a base is about: a gist, topics, typical questions and figures."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.knowledge_bases import show_profile

    run(show_profile(name, refresh=refresh, tenant=tenant, as_json=as_json), as_json=as_json)


@kb.command("move")
def move(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of documents that are complete.")],
    source: Annotated[str, typer.Option("--from", help="Name of their base.", callback=named)],
    target: Annotated[str, typer.Option("--to", help="Name of the base where they go.", callback=named)],
    reparse: Annotated[
        bool, typer.Option("--reparse", help="Parse them there again, as that base wants it.")
    ] = False,
    wait: Wait = True,
    tenant: OfTenant = 1,
    as_json: AsJson = False,
) -> None:
    """Move documents to another base, with their vectors."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.knowledge_bases import move_documents

    limit = LIMIT_S if wait else 0
    run(
        move_documents(ids, source, target, reparse=reparse, limit=limit, tenant=tenant, as_json=as_json),
        as_json=as_json,
    )
