"""The transitions as Lua: one file each, composed with the parts that its header names, and known by their digest, so
that workers of different versions live side by side.
"""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).with_name("lua")


@dataclass(frozen=True, slots=True)
class Script:
    """One transition: its whole text, and the digest under which a server knows it."""

    name: str
    text: str
    digest: str


@cache
def script(name: str) -> Script:
    """Return a transition by the name of its file."""
    shebang, body = (FOLDER / f"{name}.lua").read_text("utf-8").split("\n", 1)
    (named,) = (line for line in body.splitlines() if line.startswith("-- parts"))
    parts = [(FOLDER / "parts" / f"{part}.lua").read_text("utf-8") for part in named.split()[2:]]
    text = "\n".join((shebang, *parts, body))
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
