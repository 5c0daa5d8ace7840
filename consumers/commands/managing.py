"""The commands that see and change documents: their arguments and what is said of them."""

from typing import Annotated, Final

import typer

from consumers.commands.operating import MOST, PAGE, AsJson, Limit, Yes
from consumers.commands.terminal import needs, run
from consumers.extras import KNOWLEDGE
from contracts.knowledge import DocumentVerb, ParseStatus

documents = typer.Typer(no_args_is_help=True, help="See documents, stop or repeat their parse, delete them.")

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
