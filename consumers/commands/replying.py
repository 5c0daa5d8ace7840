"""The commands of ready answers: their arguments and what is said of them."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from consumers.commands.operating import PAGE, AsJson, BaseName, Limit, OfTenant, Yes
from consumers.commands.terminal import needs, run
from consumers.extras import KNOWLEDGE

faq = typer.Typer(no_args_is_help=True, help="Questions with ready answers: import, search and delete them.")


class Mode(StrEnum):
    """What an import does with what is there."""

    APPEND = "append"
    REPLACE = "replace"


@faq.command("import")
def import_faq(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV, XLSX or JSON.", exists=True, dir_okay=False)
    ],
    kb: BaseName = "default",
    mode: Annotated[
        Mode, typer.Option(help="Add and merge, or also remove what is not in it.")
    ] = Mode.APPEND,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Work until it has ended.")] = True,
    tenant: OfTenant = 1,
    as_json: AsJson = False,
) -> None:
    """Import questions with answers. Columns: question, answers, similar_questions, negative_questions, enabled."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.faq import import_file

    run(import_file(file, kb, mode.value, as_json, dry=dry_run, wait=wait, tenant=tenant), as_json=as_json)


@faq.command("list")
def list_faq(
    kb: BaseName = "default",
    contains: Annotated[str, typer.Option(help="Only those whose question has this.")] = "",
    limit: Limit = PAGE,
    tenant: OfTenant = 1,
    as_json: AsJson = False,
) -> None:
    """List questions of a base with their answers."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.faq import list_entries

    run(list_entries(kb, contains, limit, as_json, tenant=tenant), as_json=as_json)


@faq.command("search")
def search_faq(
    query: Annotated[str, typer.Argument(metavar="QUESTION", help="In any language.")],
    kb: BaseName = "default",
    limit: Annotated[int, typer.Option(min=1, max=50, help="At most so many.")] = 5,
    tenant: OfTenant = 1,
    as_json: AsJson = False,
) -> None:
    """Find the ready answers that fit a question."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.faq import search_entries

    run(search_entries(query, kb, limit, as_json, tenant=tenant), as_json=as_json)


@faq.command("delete")
def delete_faq(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of entries.")],
    kb: BaseName = "default",
    yes: Yes = False,
    tenant: OfTenant = 1,
    as_json: AsJson = False,
) -> None:
    """Delete questions with their answers."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.faq import delete_some

    run(delete_some(ids, kb, as_json, yes=yes, tenant=tenant), as_json=as_json)
