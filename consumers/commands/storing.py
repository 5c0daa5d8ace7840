"""The commands that work on the store of a base: their arguments."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from consumers.commands.operating import AsJson, BaseName, Yes
from consumers.commands.terminal import needs, run
from consumers.extras import KNOWLEDGE

storing = typer.Typer()

LIMIT_S: Final = 6 * 3600.0
Wait = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Work until it is done; Ctrl-C leaves it to any worker.")
]
DEFAULT: Final = "default"


class Action(StrEnum):
    """What is done to a graph."""

    MERGE = "merge"
    PRUNE = "prune"
    ALL = "all"


@storing.command("reembed")
def reembed(
    model: Annotated[str, typer.Option(help="Model that is to embed the base.")],
    kb: BaseName = DEFAULT,
    dimension: Annotated[
        int | None, typer.Option(min=1, max=16_000, help="How many numbers its vectors have.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Though the base has this model.")] = False,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Embed a base with another model; the old index serves until the new one is whole."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.store import reembed

    run(
        reembed(kb, model, dimension, again=again, limit=LIMIT_S if wait else 0, as_json=as_json),
        as_json=as_json,
    )


@storing.command("curate")
def curate(
    kb: BaseName = DEFAULT,
    action: Annotated[
        Action, typer.Option(help="Merge names, prune what nothing speaks of, or both.")
    ] = Action.ALL,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Put the graph of a base into order: names of one thing become one, and what nothing speaks of goes."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.store import curate

    run(
        curate(kb, action.value, dry_run=dry_run, limit=LIMIT_S if wait else 0, as_json=as_json),
        as_json=as_json,
    )


backup = typer.Typer(
    no_args_is_help=True, help="Backups of knowledge bases: make, list, save and delete them."
)
storing.add_typer(backup, name="backup")

BackupId = Annotated[str, typer.Argument(metavar="ID", help="Id of the backup.")]
FilePath = Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it.", dir_okay=False)]


@backup.command("create")
def create(kb: BaseName = DEFAULT, wait: Wait = True, as_json: AsJson = False) -> None:
    """Make a backup of a base, as it is now."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.backups import create

    run(create(kb, limit=LIMIT_S if wait else 0, as_json=as_json), as_json=as_json)


@backup.command("list")
def list_backups(
    kb: Annotated[str | None, typer.Option("--kb", help="Only of this knowledge base.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the backups that are kept, the newest first."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.backups import list_backups

    run(list_backups(kb, as_json), as_json=as_json)


@backup.command("save")
def save(ident: BackupId, path: FilePath, as_json: AsJson = False) -> None:
    """Write the archive of a backup to a file."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.backups import save

    run(save(ident, path, as_json), as_json=as_json)


@backup.command("delete")
def delete(ident: BackupId, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a backup."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.backups import delete

    run(delete(ident, yes=yes, as_json=as_json), as_json=as_json)


@storing.command("restore")
def restore(
    source: Annotated[str, typer.Argument(metavar="FILE|ID", help="An archive, or the id of a backup.")],
    kb: Annotated[str | None, typer.Option("--kb", help="Name of the base that it becomes.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check a backup and make a new base of it, on whichever database this is."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.backups import restore

    run(restore(source, kb, as_json), as_json=as_json)
