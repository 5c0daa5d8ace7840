"""How commands speak: tables on a terminal, plain lines elsewhere, JSON for scripts; and what their exit codes mean."""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from consumers.commands.stopping import INTERRUPTED, Stop
from consumers.extras import Extra

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
LONGEST_NAME: Final = 100
UNCHANGED: Final = "nothing was changed"

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def named(name: str) -> str:
    """Return a name if it is one. Raises typer.BadParameter."""
    if not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
        raise typer.BadParameter(f"it needs a name of 1 to {LONGEST_NAME} printable characters")
    return name


def needs(extra: Extra, *, as_json: bool = False) -> None:
    """End a command that cannot do without an extra, saying how to get it."""
    if extra.absent:
        complain(f"this command works with documents: {extra.how}", "configuration", as_json=as_json)
        raise typer.Exit(USAGE)


def run(
    command: Coroutine[Any, Any, int],
    *,
    as_json: bool = False,
    new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> NoReturn:
    """Run a command to its exit code, in a loop of its own or one that `new_loop` makes; what went wrong is one sentence.

    Exit codes: 0 ok, 1 the work failed, 2 bad usage or configuration, 130 interrupted.
    """
    from contracts.topology import (
        UnknownNameError,  # here, because help is to come without all that these bring
    )
    from pipeline.errors import ConfigurationError, StreamlaneError

    stop = Stop()
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            code = runner.run(stop.run(command))
        sys.stdout.flush()
    except (ConfigurationError, UnknownNameError) as error:
        complain(str(error), "configuration", as_json=as_json)
        code = USAGE
    except BrokenPipeError:  # whoever read has seen enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is left to be flushed
        code = FAILED
    except (StreamlaneError, OSError) as error:
        complain(str(error), "failed", as_json=as_json)
        code = FAILED
    except (KeyboardInterrupt, asyncio.CancelledError):
        complain(
            "interrupted; what was queued is kept, and the same command goes on with it",
            "interrupted",
            as_json=as_json,
        )
        code = INTERRUPTED
    stop.over()
    raise typer.Exit(code)


def complain(message: str, code: str, *, as_json: bool) -> None:
    """Say what went wrong: on standard error, or as the JSON object a script waits for."""
    if as_json:
        emit({"error": message, "code": code})
    say(message)


async def agreed(question: str, *, yes: bool) -> bool:
    """Whether a person says yes to a question; `yes` says it for a script. Raises ConfigurationError where nobody can."""
    from pipeline.errors import ConfigurationError

    if yes:
        return True
    if not (sys.stdin.isatty() and err.is_terminal):
        raise ConfigurationError(f"{question} Nobody is here to be asked: repeat it with --yes")
    err.print(escape(f"{question} [y/N] "), end="")
    typed, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(sys.stdin, typed.set)  # so that Ctrl-C is an answer, too
    try:
        await typed.wait()
    finally:
        loop.remove_reader(sys.stdin)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def say(message: str) -> None:
    """Say something of this process to people, on standard error."""
    err.print(f"streamlane: {escape(message)}")


def emit(value: Mapping[str, Any]) -> None:
    """Print one JSON object, in characters that every terminal and pipe can carry."""
    text = json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None)
    try:
        text.encode(sys.stdout.encoding or "ascii", "strict")
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(value)
    sys.stdout.write(f"{text}\n")


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under their names: as a table on a terminal, as lines with tabs elsewhere."""
    if not out.is_terminal:
        for row in (columns, *rows):
            line(row)
        return
    out.print(drawn(columns, rows))


def line(cells: Iterable[object]) -> None:
    """Print cells with tabs between them."""
    sys.stdout.write("\t".join(map(_flat, cells)) + "\n")


def drawn(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """Return rows under their names as a table for a terminal; a column of nothing is left out."""
    told = [n for n in range(len(columns)) if not rows or any(_flat(row[n]) for row in rows)]
    columns, rows = [columns[n] for n in told], [[row[n] for n in told] for row in rows]
    gap = 2 if width(columns, rows) + 2 * (len(columns) - 1) <= out.width else 1
    grid = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    for number, name in enumerate(columns):
        counts = bool(rows) and all(isinstance(row[number], int) for row in rows)
        grid.add_column(
            name, no_wrap=not number or counts, overflow="fold", justify="right" if counts else "left"
        )
    for row in rows:
        grid.add_row(*(escape(_flat(cell)) for cell in row))
    return grid


def width(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> int:
    """Return how many characters these columns take, with nothing between them."""
    return sum(
        max(len(_flat(cell)) for cell in (name, *cells)) for name, *cells in zip(columns, *rows, strict=True)
    )


def shown(text: str, limit: int = 0) -> str:
    """Return `text` on one line without control characters, cut to `limit` characters if given."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return flat if not limit or len(flat) <= limit else f"{flat[: limit - 1]}…"


def _flat(cell: object) -> str:
    return shown("" if cell is None else str(cell))


def moment(milliseconds: int) -> str | None:
    """Return a time as text; None for never."""
    if not milliseconds:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
