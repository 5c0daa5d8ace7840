"""Identifiers: made, derived and checked in one place."""

import hashlib
import os
import re
import time
from typing import Final

NAME: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
"""What a given job id, a scope id and a unique key may look like."""


def new_id() -> str:
    """Return a UUIDv7 as 36 characters: unique, and sorted by time of creation."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds << 80) | int.from_bytes(os.urandom(10), "big")
    value = (value & ~(0xF << 76)) | (0x7 << 76)
    value = (value & ~(0x3 << 62)) | (0x2 << 62)
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def derive_id(*parts: object) -> str:
    """Return the one id that belongs to `parts`: the same parts give the same 32 hexadecimal characters for ever."""
    text = "\x1f".join(str(part) for part in parts)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def check_name(value: object, what: str) -> str:
    """Return `value` if it is 1–128 of ``A-Za-z0-9._:-``.

    Raises:
        ValueError: naming `what` and the characters allowed.
    """
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise ValueError(f"{what} must be 1 to 128 of A-Z a-z 0-9 . _ : -, got {value!r:.140}")
    return value
