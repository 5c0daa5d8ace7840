"""`streamlane`: the command line."""

import typer

from consumers.commands.ask import ask, search
from consumers.commands.demo import demo
from consumers.commands.doctor import doctor
from consumers.commands.ingest import ingest
from consumers.commands.queues import jobs, queues
from consumers.commands.worker import worker

app = typer.Typer(
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


def main() -> None:
    """Run the command line."""
    app()
