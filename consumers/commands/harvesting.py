"""The commands that make, run and see sources: their arguments."""

from typing import Annotated, Final

import typer

from consumers.commands.operating import MOST, PAGE, AsJson, BaseName, Limit, OfTenant, Yes
from consumers.commands.terminal import needs, run
from consumers.extras import KNOWLEDGE
from contracts.sources import SyncMode

sources = typer.Typer(
    no_args_is_help=True, help="Places that documents are harvested from: made, run, seen, removed."
)

DEFAULT: Final = "default"
LIMIT_S: Final = 6 * 3600.0
SourceName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the source.")]
Mode = Annotated[SyncMode, typer.Option(help="What a run does.")]
Cron = Annotated[str | None, typer.Option(help="When: '30 2 * * *', @daily …; '' for never.")]
Zone = Annotated[str | None, typer.Option(help="By whose clock, such as Europe/Berlin.")]
Sets = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="What the kind asks for; again for a list.")
]
Secrets = Annotated[
    list[str],
    typer.Option("--secret", metavar="KEY=VARIABLE", help="A credential, and the variable that has it."),
]


@sources.command("kinds")
def list_kinds(as_json: AsJson = False) -> None:
    """List the kinds of sources, and what each asks for."""
    from consumers.commands.sources import list_kinds

    run(list_kinds(as_json), as_json=as_json)


@sources.command("add")
def add(
    name: SourceName,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="As `sources kinds` calls it.")],
    sets: Sets = [],  # noqa: B006 - typer reads it and changes nothing
    secrets: Secrets = [],  # noqa: B006
    *,
    kb: BaseName = DEFAULT,
    cron: Cron = None,
    timezone: Zone = None,
    mode: Mode = SyncMode.INCREMENTAL,
    tenant: OfTenant = 1,
    as_json: AsJson = False,
) -> None:
    """Make a source of a base, and the base if there is none: sources add papers folder --set path=$PWD/papers"""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.sources import add

    run(
        add(kb, name, kind, (sets, secrets), (cron, timezone, mode), as_json=as_json, tenant=tenant),
        as_json=as_json,
    )


@sources.command("list")
def list_sources(kb: BaseName = DEFAULT, tenant: OfTenant = 1, as_json: AsJson = False) -> None:
    """List the sources of a base."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.sources import list_sources

    run(list_sources(kb, as_json, tenant=tenant), as_json=as_json)


@sources.command("show")
def show(name: SourceName, kb: BaseName = DEFAULT, tenant: OfTenant = 1, as_json: AsJson = False) -> None:
    """Show a source, how it is, and what its last run came to."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.sources import show

    run(show(kb, name, as_json, tenant=tenant), as_json=as_json)


@sources.command("sync")
def sync(
    name: SourceName,
    *,
    kb: BaseName = DEFAULT,
    mode: Mode = SyncMode.INCREMENTAL,
    select: Annotated[
        list[str], typer.Option(help="With partial-resync: an id, or the beginning of ids up to a /.")
    ] = [],  # noqa: B006
    force_full: Annotated[
        bool, typer.Option("--force-full", help="Look at everything, even if nothing is left there.")
    ] = False,
    max_items: Annotated[int | None, typer.Option(min=1, max=MOST, help="At most so many items.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Work until it is done; Ctrl-C leaves it to any worker.")
    ] = True,
    tenant: OfTenant = 1,
    as_json: AsJson = False,
) -> None:
    """Run a source now. Exit 1 when it failed, or some of its items did."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.sources import Run, sync

    asked = Run(mode, tuple(select), force_full, max_items)
    run(sync(kb, name, asked, limit=LIMIT_S if wait else 0, as_json=as_json, tenant=tenant), as_json=as_json)


@sources.command("set")
def change(
    name: SourceName,
    sets: Sets = [],  # noqa: B006
    secrets: Secrets = [],  # noqa: B006
    *,
    kb: BaseName = DEFAULT,
    cron: Cron = None,
    timezone: Zone = None,
    mode: Annotated[SyncMode | None, typer.Option(help="What a scheduled run does.")] = None,
    tenant: OfTenant = 1,
    as_json: AsJson = False,
) -> None:
    """Change a source: its schedule, single words of its config, or its credentials."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.sources import change

    run(
        change(kb, name, (sets, secrets), (cron, timezone, mode), as_json=as_json, tenant=tenant),
        as_json=as_json,
    )


@sources.command("pause")
def pause(name: SourceName, kb: BaseName = DEFAULT, tenant: OfTenant = 1, as_json: AsJson = False) -> None:
    """Let nothing of a source run until it is resumed."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.sources import steer

    run(steer(kb, name, "pause", as_json=as_json, tenant=tenant), as_json=as_json)


@sources.command("resume")
def resume(name: SourceName, kb: BaseName = DEFAULT, tenant: OfTenant = 1, as_json: AsJson = False) -> None:
    """Let a source run again."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.sources import steer

    run(steer(kb, name, "resume", as_json=as_json, tenant=tenant), as_json=as_json)


@sources.command("cancel")
def cancel(name: SourceName, kb: BaseName = DEFAULT, tenant: OfTenant = 1, as_json: AsJson = False) -> None:
    """Stop the run of a source that is under way; what it did stays."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.sources import steer

    run(steer(kb, name, "cancel", as_json=as_json, tenant=tenant), as_json=as_json)


@sources.command("delete")
def delete(
    name: SourceName,
    kb: BaseName = DEFAULT,
    with_documents: Annotated[
        bool, typer.Option("--with-documents", help="Its documents go, too; else they stay.")
    ] = False,
    yes: Yes = False,
    tenant: OfTenant = 1,
    as_json: AsJson = False,
) -> None:
    """Remove a source."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.sources import delete

    run(
        delete(kb, name, with_documents=with_documents, yes=yes, as_json=as_json, tenant=tenant),
        as_json=as_json,
    )


@sources.command("logs")
def logs(
    name: SourceName,
    kb: BaseName = DEFAULT,
    limit: Limit = PAGE,
    tenant: OfTenant = 1,
    as_json: AsJson = False,
) -> None:
    """List the runs of a source, the newest first."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.sources import logs

    run(logs(kb, name, limit, as_json, tenant=tenant), as_json=as_json)


@sources.command("failed")
def failed(
    name: SourceName,
    kb: BaseName = DEFAULT,
    limit: Limit = PAGE,
    tenant: OfTenant = 1,
    as_json: AsJson = False,
) -> None:
    """List what failed in a source at its last try."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.sources import failed

    run(failed(kb, name, limit, as_json, tenant=tenant), as_json=as_json)
