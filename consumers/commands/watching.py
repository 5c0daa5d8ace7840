"""`--watch`: the same again, once a second, in place on a terminal and as lines elsewhere. Ctrl-C ends it quietly."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from consumers.commands.terminal import OK, out, say
from pipeline.errors import StoreUnavailable

EVERY_S: Final = 1.0

Seen = TypeVar("Seen")


async def watch(
    look: Callable[[], Awaitable[Seen]],
    draw: Callable[[Seen], RenderableType],
    tell: Callable[[Seen], None],
    *,
    as_json: bool,
) -> int:
    """Look for ever; `draw` what is seen, or `tell` it in a line. Raises StoreUnavailable if it never answered."""
    seen = await look()
    if as_json or not out.is_terminal:
        while True:
            tell(seen)
            sys.stdout.flush()
            await asyncio.sleep(EVERY_S)
            seen = await _again(look, seen, say)
    with Live(draw(seen), console=out, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            await asyncio.sleep(EVERY_S)
            trouble: list[str] = []
            seen = await _again(look, seen, trouble.append)
            told = [Text.from_markup(f"[red]{escape(text)}[/red]") for text in trouble]
            live.update(Group(*told, draw(seen)), refresh=True)


async def _again(look: Callable[[], Awaitable[Seen]], before: Seen, tell: Callable[[str], None]) -> Seen:
    try:
        return await look()
    except StoreUnavailable as error:
        tell(f"as of a moment ago; trying again: {error}")
        return before


async def quietly(command: Coroutine[Any, Any, int]) -> int:
    """Run what only shows until somebody has seen enough: by Ctrl-C, or by closing the pipe that it writes to."""
    try:
        return await command
    except asyncio.CancelledError:
        return OK
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is left to be flushed
        return OK
