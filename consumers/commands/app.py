"""All commands under one name."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from consumers.commands.ask import ask, search
from consumers.commands.demo import demo
from consumers.commands.doctor import doctor
from consumers.commands.ingest import ingest
from consumers.commands.queues import jobs, queues
from consumers.commands.terminal import emit
from consumers.commands.worker import worker


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
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Background work for a knowledge platform: documents in, answers out, nothing lost.",
)
app.command()(demo)
app.command()(ingest)
app.command()(ask)
app.command()(search)
app.command()(worker)
app.command()(queues)
app.add_typer(jobs, name="jobs")
app.command()(doctor)
