"""`streamlane`: the command line."""

from consumers.commands.stopping import stop_at_once


def main() -> None:
    """Run the command line."""
    stop_at_once()
    from consumers.commands.app import app  # here, because loading it takes a while

    app()
