"""The command line: its commands, their arguments and what is said of them.

What a command does is loaded when it is asked for: help comes at once, and a command needs no library of another.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from consumers.commands.admitting import admins, keys
from consumers.commands.arranging import tenants
from consumers.commands.harvesting import sources
from consumers.commands.keeping import kb
from consumers.commands.linking import graph
from consumers.commands.managing import attachments, documents
from consumers.commands.operating import AsJson, BaseName, OfTenant, operating
from consumers.commands.publishing import wiki
from consumers.commands.remembering import memory
from consumers.commands.replying import faq
from consumers.commands.storing import storing
from consumers.commands.terminal import emit, needs, run
from consumers.extras import KNOWLEDGE
from contracts.topology import POOLS, Lane


class Commands(TyperGroup):
    """The commands; how they were misused is said as JSON too, if JSON was asked for."""

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """See `TyperGroup`."""
        with _misuse_as_json():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        """See `TyperGroup`: a command reads its own arguments in here."""
        with _misuse_as_json():
            return super().invoke(ctx)


@contextmanager
def _misuse_as_json() -> Iterator[None]:
    try:
        yield
    except typer.TyperException as error:
        if "--json" in sys.argv:  # the arguments were not understood, so this is all that is known of them
            emit({"error": error.format_message(), "code": "usage"})
        raise


app = typer.Typer(
    cls=Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)  # fmt: skip
settings = typer.Typer(no_args_is_help=True, help="Settings that are stored for all processes.")

DAY_S: Final = 24 * 3600
LOCAL: Final = "127.0.0.1"

Question = Annotated[str, typer.Argument(metavar="QUESTION", help="In any language.")]
Limit = Annotated[int, typer.Option(min=1, max=100, help="At most so many passages.")]
Host = Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for every one of this machine.")]
Port = Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 takes a free one.")]


def _version(asked: bool) -> None:
    if asked:
        import importlib.metadata

        typer.echo(f"streamlane {importlib.metadata.version('streamlane')}")
        raise typer.Exit


@app.callback()
def streamlane(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Background work for a knowledge platform: documents in, answers out, nothing lost."""


@app.command()
def demo() -> None:
    """Ingest a few documents that ship with the package, ask one question, and say what to try next."""
    needs(KNOWLEDGE)
    from consumers.commands.demo import demo

    run(demo())


@app.command()
def ingest(
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Files and folders.")],
    *,
    kb: BaseName = "default",
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Work until every document has ended.")
    ] = True,
    timeout: Annotated[float, typer.Option(min=1, help="Give up waiting after so many seconds.")] = DAY_S / 4,
    retry: Annotated[
        bool, typer.Option("--retry", help="Also try what could not be read and is unchanged.")
    ] = False,
    wiki: Annotated[
        bool | None,
        typer.Option(
            "--wiki/--no-wiki", help="Write pages about what the documents of this base say, from now on."
        ),
    ] = None,
    tenant: OfTenant = 1,
    as_json: AsJson = False,
) -> None:
    """Make documents searchable: parse, embed, index, summarise, question, tag and link them.

    Files that are there unchanged are left alone, and so are files in folders that are no documents. Stop it whenever
    you like: the same command finishes the rest.
    """
    for path in paths:
        if not path:  # what an unset variable of a script leaves; it would name the current folder
            raise typer.BadParameter("a path is empty: name a file or folder, or . for the current folder")
        try:
            Path(path).lstat()
        except PermissionError:
            raise typer.BadParameter(
                f"no permission to look for {path}: a folder above it may not be entered by this user"
            ) from None
        except OSError:
            raise typer.BadParameter(f"no such file or folder: {path}") from None
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.ingest import ingest

    found = list(map(Path, paths))
    run(
        ingest(found, kb, timeout, wait=wait, retry=retry, wiki=wiki, as_json=as_json, tenant=tenant),
        as_json=as_json,
    )


@app.command()
def ask(
    question: Question,
    kb: BaseName = "default",
    person: Annotated[
        str | None, typer.Option(help="Who asks: what is remembered of them is answered from, too.")
    ] = None,
    tenant: OfTenant = 1,
    as_json: AsJson = False,
) -> None:
    """Answer a question from the documents, with citations."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.ask import ask

    run(ask(question, kb, as_json, tenant=tenant, person=person), as_json=as_json)


@app.command()
def search(
    query: Question,
    kb: BaseName = "default",
    limit: Limit = 10,
    tenant: OfTenant = 1,
    as_json: AsJson = False,
) -> None:
    """Find passages by words and by meaning."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.ask import search

    run(search(query, kb, limit, as_json, tenant=tenant), as_json=as_json)


@app.command()
def worker(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="LANE|POOL...",
            help=f"What this process works on. Lanes: {', '.join(Lane)}; pools: {', '.join(POOLS)}.",
        ),
    ],
) -> None:
    """Work until told to stop (SIGTERM, Ctrl-C): running jobs get a grace, then they are handed back."""
    needs(KNOWLEDGE)
    from consumers.commands.worker import new_loop, worker

    run(worker(names), new_loop=new_loop())


@app.command()
def serve(
    host: Host = LOCAL,
    port: Port = 8000,
    lite: Annotated[
        bool, typer.Option("--lite", help="Keep the queue in the data folder, not in Redis.")
    ] = False,
) -> None:
    """Serve the API and the dashboard and work on everything, in this one process."""
    needs(KNOWLEDGE)
    from consumers.commands.serve import serve
    from consumers.commands.worker import new_loop

    run(serve(host, port, lite=lite), new_loop=new_loop())


@app.command()
def api(host: Host = LOCAL, port: Port = 8000) -> None:
    """Serve the API and the dashboard; workers are other processes."""
    from consumers.commands.serve import api
    from consumers.commands.worker import new_loop

    run(api(host, port), new_loop=new_loop())


@app.command()
def scheduler() -> None:
    """Do what has to be done beside the jobs: send, promote, hand on, record deaths, look for what got stuck.

    Workers do the same beside their jobs; this is for where none runs all the time. Several are as good as one.
    """
    needs(KNOWLEDGE)
    from consumers.commands.housekeeping import scheduler
    from consumers.commands.worker import new_loop

    run(scheduler(), new_loop=new_loop())


@app.command()
def housekeeping(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    as_json: AsJson = False,
) -> None:
    """Look for what got stuck, now: documents, summaries, deletes and wikis on which nothing moves any more."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.housekeeping import housekeeping

    run(housekeeping(as_json, dry=dry_run), as_json=as_json)


app.add_typer(operating)
app.add_typer(storing)
app.add_typer(tenants, name="tenants")
app.add_typer(wiki, name="wiki")
app.add_typer(faq, name="faq")
app.add_typer(kb, name="kb")
app.add_typer(sources, name="sources")
app.add_typer(documents, name="documents")
app.add_typer(attachments, name="attachments")
app.add_typer(memory, name="memory")
app.add_typer(graph, name="graph")
app.add_typer(keys, name="keys")
app.add_typer(settings, name="settings")
app.add_typer(admins, name="admins")


@app.command()
def doctor(
    as_json: AsJson = False,
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt", help="Let the queue belong to this database: its former one is gone for good."
        ),
    ] = False,
) -> None:
    """Print the settings and look whether everything works. Exit 1 when something does not."""
    from consumers.commands.doctor import doctor

    run(doctor(as_json, adopting=adopt), as_json=as_json)


SettingName = Annotated[str, typer.Argument(metavar="NAME", help="As `settings list` calls it.")]


@settings.command("list")
def list_settings(as_json: AsJson = False) -> None:
    """List settings, and whether each is stored, from the environment, or the default."""
    from consumers.commands.settings import list_settings

    run(list_settings(as_json), as_json=as_json)


@settings.command("set", context_settings={"ignore_unknown_options": True})  # -5 is a value
def set_setting(
    name: SettingName,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Wins over the environment.")],
    as_json: AsJson = False,
) -> None:
    """Store a setting for all processes that start from now on."""
    from consumers.commands.settings import set_setting

    run(set_setting(name, value, as_json), as_json=as_json)


@settings.command("unset")
def unset_setting(name: SettingName, as_json: AsJson = False) -> None:
    """Store a setting no longer."""
    from consumers.commands.settings import unset_setting

    run(unset_setting(name, as_json), as_json=as_json)
