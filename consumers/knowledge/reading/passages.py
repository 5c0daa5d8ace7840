"""Pieces of text that were written or found elsewhere: kept as one file, and cut nowhere but inside each of them."""

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

PASSAGES: Final = "passages"
"""The type of their file."""
GAP: Final = "\n\n"
"""What lies between two of them in the text of their document."""
TITLE_CHARS: Final = 80


class Passages(BaseModel):
    """What was given. Without a title its first line is one."""

    model_config = ConfigDict(extra="forbid")

    passages: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=200_000)]], Field(min_length=1, max_length=10_000)
    ]
    title: Annotated[str, Field(max_length=200)] = ""


def first_line(text: str) -> str:
    """Return what a text without a title is called."""
    line = text.strip().partition("\n")[0].strip("#*_> ")
    return line if len(line) <= TITLE_CHARS else f"{line[:TITLE_CHARS].rstrip()}…"
