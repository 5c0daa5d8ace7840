"""The commands of a wiki: their arguments and what is said of them."""

from pathlib import Path
from typing import Annotated

import typer

from consumers.commands.operating import AsJson, BaseName, OfTenant
from consumers.commands.terminal import needs, run
from consumers.extras import KNOWLEDGE

wiki = typer.Typer(no_args_is_help=True, help="Pages about what the documents of a base say.")


@wiki.command("list")
def list_wiki(kb: BaseName = "default", tenant: OfTenant = 1, as_json: AsJson = False) -> None:
    """List the pages of a base."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.wiki import list_pages

    run(list_pages(kb, as_json, tenant=tenant), as_json=as_json)


@wiki.command("on")
def wiki_on(kb: BaseName = "default", tenant: OfTenant = 1, as_json: AsJson = False) -> None:
    """Write pages about what the documents of a base say, those that are there and those that come."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.wiki import switch_wiki

    run(switch_wiki(kb, as_json, on=True, tenant=tenant), as_json=as_json)


@wiki.command("off")
def wiki_off(kb: BaseName = "default", tenant: OfTenant = 1, as_json: AsJson = False) -> None:
    """Write no pages from now on; no document waits for them any longer, and those there are stay."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.wiki import switch_wiki

    run(switch_wiki(kb, as_json, on=False, tenant=tenant), as_json=as_json)


@wiki.command("show")
def show_wiki(
    slug: Annotated[str, typer.Argument(metavar="SLUG", help="Which page; `index` is the first.")] = "index",
    kb: BaseName = "default",
    tenant: OfTenant = 1,
    as_json: AsJson = False,
) -> None:
    """Print a page as Markdown."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.wiki import show_page

    run(show_page(slug, kb, as_json, tenant=tenant), as_json=as_json)


@wiki.command("export")
def export_wiki(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="Where to; if none is named, wiki- and the base's name."),
    ] = None,
    kb: BaseName = "default",
    tenant: OfTenant = 1,
    as_json: AsJson = False,
) -> None:
    """Write all pages as Markdown files with front matter and relative links. Twice gives the same files."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.wiki import export_pages

    run(export_pages(folder, kb, as_json, tenant=tenant), as_json=as_json)
