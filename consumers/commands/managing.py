"""The commands that see and change documents: their arguments and what is said of them."""

import re
from pathlib import Path
from typing import Annotated, Final

import typer

from consumers.commands.operating import MOST, PAGE, AsJson, BaseName, Limit, OfTenant, Yes
from consumers.commands.terminal import named, needs, run
from consumers.extras import KNOWLEDGE
from contracts.knowledge import DocumentVerb, ParseStatus

SCOPE_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")

documents = typer.Typer(no_args_is_help=True, help="See documents, stop or repeat their parse, delete them.")

attachments = typer.Typer(
    no_args_is_help=True, help="Files attached to a chat, read for it and then forgotten."
)


def scope_id(text: str) -> str:
    """Return the id of a session. Raises BadParameter."""
    if not SCOPE_ID.fullmatch(text):
        raise typer.BadParameter("an id has 1 to 128 characters of A-Z, a-z, 0-9 and ._:-")
    return text


SessionName = Annotated[str, typer.Argument(metavar="SESSION", help="Id of the session.", callback=scope_id)]
DocumentId = Annotated[str, typer.Argument(metavar="ID", help="Id of the document.")]
DocumentIds = Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of documents.")]
Status = Annotated[ParseStatus | None, typer.Option(help="Only of this status.")]
Name = Annotated[str, typer.Option(help="Only with this in the file name.")]
Attempt = Annotated[int | None, typer.Option(min=1, max=MOST, help="Which parse; the latest unless told.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Work until they are gone.")]
LIMIT_S: Final = 3600.0


@documents.command("list")
def list_documents(
    status: Status = None, name: Name = "", limit: Limit = PAGE, as_json: AsJson = False
) -> None:
    """List documents, those that moved last first."""
    from consumers.commands.documents import list_documents

    run(list_documents(status, name, limit, as_json), as_json=as_json)


@documents.command("show")
def show(document: DocumentId, attempt: Attempt = None, as_json: AsJson = False) -> None:
    """Show a document: where it stands, and how a parse of it went, stage by stage."""
    from consumers.commands.documents import show

    run(show(document, attempt, as_json), as_json=as_json)


@documents.command("cancel")
def cancel(ids: DocumentIds, as_json: AsJson = False) -> None:
    """Stop the parse of documents. What was read of them stays."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.documents import change

    run(change(DocumentVerb.CANCEL, ids, as_json=as_json), as_json=as_json)


@documents.command("reparse")
def reparse(
    ids: DocumentIds,
    fresh: Annotated[bool, typer.Option("--fresh", help="Use nothing that earlier parses found.")] = False,
    as_json: AsJson = False,
) -> None:
    """Parse documents again; what was read before stays findable until the new parse replaces it."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.documents import change

    run(change(DocumentVerb.REPARSE, ids, fresh=fresh, as_json=as_json), as_json=as_json)


@documents.command("delete")
def delete(ids: DocumentIds, wait: Wait = True, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete documents with all that was made of them."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.documents import delete

    run(delete(ids, yes=yes, limit=LIMIT_S if wait else 0, as_json=as_json), as_json=as_json)


@documents.command("write")
def write(
    title: Annotated[str, typer.Argument(metavar="TITLE", help="What it is called.", callback=named)],
    file: Annotated[
        typer.FileText, typer.Argument(metavar="FILE", help="Markdown; - for standard input.")
    ] = "-",  # type: ignore[assignment]
    kb: BaseName = "default",
    document: Annotated[str, typer.Option(metavar="ID", help="Write this one anew.")] = "",
    tenant: OfTenant = 1,
    as_json: AsJson = False,
) -> None:
    """Publish Markdown as a document, or let one that was written by hand say something else."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.writing import write

    run(write(title, file.read(), kb, document, as_json, tenant=tenant), as_json=as_json)


@documents.command("tables")
def tables(document: DocumentId, tenant: OfTenant = 1, as_json: AsJson = False) -> None:
    """Show what the tables of a document hold: a workbook, or a file of separated values."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.writing import show_tables

    run(show_tables(document, as_json, tenant=tenant), as_json=as_json)


@attachments.command("add")
def add_attachment(
    session: SessionName,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Files.", exists=True, dir_okay=False)
    ],
    tenant: OfTenant = 1,
    as_json: AsJson = False,
) -> None:
    """Attach files to a session; a worker reads them."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.attachments import add

    run(add(session, files, as_json, tenant=tenant), as_json=as_json)


@attachments.command("list")
def list_attachments(session: SessionName, tenant: OfTenant = 1, as_json: AsJson = False) -> None:
    """List the files of a session, and whether each is read."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.attachments import listed

    run(listed(session, as_json, tenant=tenant), as_json=as_json)


@attachments.command("remove")
def remove_attachment(
    session: SessionName, ids: DocumentIds, tenant: OfTenant = 1, as_json: AsJson = False
) -> None:
    """Remove files of a session with all that was made of them."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.attachments import remove

    run(remove(session, ids, as_json, tenant=tenant), as_json=as_json)
