"""Bytes to readable text, whatever wrote them. Never fails: what cannot be read becomes U+FFFD and a warning."""

import codecs
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

BOMS = (  # UTF-32 first: its mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
SAMPLE_BYTES = 1 << 16
MOST_CONTROLS = 0.01  # of a text; compressed or compiled data has over a tenth
LEAST_USUAL = 0.8  # of the characters of a UTF-16 text
UNWANTED = re.compile("\x1b\\[[0-9;]{0,20}[A-Za-z]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufeff]")
CONTROLS = re.compile("[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
PUNCTUATION = frozenset("«»„“”‘’‚…–—№•·©®°§€£¥±×ªº¿¡")


@dataclass(frozen=True, slots=True)
class Decoded:
    text: str
    encoding: str
    binary: bool  # most likely no text at all
    lossy: bool  # some characters could not be read


def decode(data: bytes, declared: str | None = None) -> Decoded:
    """The text of a file; `declared` is the encoding that it names itself, which wins where it fits."""
    for mark, encoding in BOMS:
        if data.startswith(mark):
            return _decoded(data[len(mark) :], encoding)
    if len(data) % 2 == 0 and (wide := _utf_16(data[:SAMPLE_BYTES])):
        return _decoded(data, wide)
    if b"\x1b$" in data[:SAMPLE_BYTES] and data.isascii():
        return _decoded(data, "iso2022_jp")
    for name, errors in ((declared or "utf-8", "strict"), ("utf-8", "strict"), ("utf-8", "surrogatepass")):
        try:
            return _finished(data.decode(name, errors), name)
        except (UnicodeDecodeError, LookupError):
            continue
    return _eight_bit(data)


def clean(text: str) -> str:
    """Without what a database or a reader cannot take (NULs, other controls, lone surrogates), lines ended by LF."""
    return UNWANTED.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def _eight_bit(data: bytes) -> Decoded:
    """One encoding for all, but UTF-8 where a line is that: files glued from several happen."""
    lines = data.split(b"\n")
    strange = {number for number, line in enumerate(lines) if not _is_utf_8(line)}
    encoding = likeliest(b"\n".join(_some(lines[number] for number in strange)))
    if all(number in strange or line.isascii() for number, line in enumerate(lines)):
        return _decoded(data, encoding)
    read = (
        line.decode(encoding if number in strange else "utf-8", "replace")
        for number, line in enumerate(lines)
    )
    return _finished("\n".join(read), encoding)


def _some(lines: Iterable[bytes]) -> list[bytes]:
    taken, size = [], 0
    for line in lines:
        taken.append(line[:SAMPLE_BYTES])
        size += len(line)
        if size > SAMPLE_BYTES:
            break
    return taken


def _is_utf_8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _decoded(data: bytes, encoding: str) -> Decoded:
    return _finished(data.decode(encoding, "replace"), encoding)


def _finished(text: str, encoding: str) -> Decoded:
    sample = text[:SAMPLE_BYTES]
    odd = len(CONTROLS.findall(sample)) - sample.count("\0") * _only_padding(sample)
    return Decoded(clean(text), encoding, odd > 1 + MOST_CONTROLS * len(sample), "�" in text)


def _only_padding(sample: str) -> bool:
    """NULs between words or at the end are padding of old programs; in binary data other controls come with them."""
    return not CONTROLS.search(sample.replace("\0", ""))


def _latin(data: bytes) -> str:
    return data.decode("latin-1")


def _utf_16(sample: bytes) -> str | None:
    """Which UTF-16 without a mark a text is, if any: only that has control bytes and still reads well."""
    if not CONTROLS.search(_latin(sample)):
        return None
    rated = {name: _likelihood_utf_16(sample, name) for name in ("utf-16-le", "utf-16-be")}
    best = max(rated, key=rated.__getitem__)
    return best if rated[best] > LEAST_USUAL else None


def _likelihood_utf_16(sample: bytes, encoding: str) -> float:
    try:
        text = sample[: len(sample) // 2 * 2].decode(encoding)
    except UnicodeDecodeError:
        return 0
    return sum(map(_usual, text)) / len(text) if text else 0


def _usual(character: str) -> bool:
    if character.isascii():
        return character.isprintable() or character in "\t\n\r"
    return (
        character.isprintable()
        and (character.isalpha() or unicodedata.category(character)[0] in "PSN")
        and (not "\u3400" <= character <= "\u9fff" or _frequent(character, "gb2312", 0xB0, 0xD7) > 0)
    )


# --- the encodings of eight bits and of East Asia -----------------------------------------------------------


def likeliest(sample: bytes) -> str:
    """The encoding whose reading of `sample` looks most like text that people write."""
    rated = {name: _likelihood(sample, name) for name in (*EAST_ASIAN, *CYRILLIC, "cp1252")}
    return max(rated, key=rated.__getitem__)


# Where the characters of daily use lie in each: the range of their first byte.
EAST_ASIAN = {
    "euc_kr": (0xB0, 0xC8),
    "cp932": (0x88, 0x97),
    "euc_jp": (0xB0, 0xCF),
    "gb18030": (0xB0, 0xD7),
    "big5": (0xA4, 0xC6),
}
CYRILLIC = ("cp1251", "koi8-r", "cp866", "iso8859-5")


def _likelihood(sample: bytes, encoding: str) -> float:
    """-1 to 1: how usual the characters above ASCII are, on average."""
    text = sample.decode(encoding, "replace")
    rate = (
        _rate_east_asian
        if encoding in EAST_ASIAN
        else _rate_cyrillic
        if encoding in CYRILLIC
        else _rate_latin
    )
    rates = [
        rate(text[i - 1] if i else " ", character, text[i + 1 : i + 2], encoding)
        for i, character in enumerate(text)
        if character > "\x7f"
    ]
    return sum(rates) / len(rates) if rates else -1


def _rate_east_asian(_before: str, character: str, _after: str, encoding: str) -> float:
    if character == "\ufffd" or "\uff61" <= character <= "\uff9f" or "\ue000" <= character <= "\uf8ff":
        return -1  # half-width katakana: what any other encoding looks like in Shift-JIS
    if "\u3000" <= character <= "\u303f" or "\uff01" <= character <= "\uff5e":
        return 1
    if "\u3040" <= character <= "\u30ff":
        return 1 if encoding in {"cp932", "euc_jp"} else -0.5
    return _frequent(character, encoding, *EAST_ASIAN[encoding])


@lru_cache(maxsize=1 << 14)
def _frequent(character: str, encoding: str, first: int, last: int) -> float:
    try:
        code = character.encode(encoding)
    except UnicodeEncodeError:
        return -1
    return 1 if len(code) == 2 and first <= code[0] <= last else -0.3


def _rate_cyrillic(before: str, character: str, after: str, _: str) -> float:
    if not "Ѐ" <= character <= "ӿ":
        return 0.3 if character in PUNCTUATION or character == "\xa0" else -1
    if before.isascii() and before.isalpha():
        return -1
    usual = 1 if character.lower() in "оеаинтсрвлкмдпу" else 0.5
    capital_inside = character.isupper() and before.isalpha() and (before.islower() or after.islower())
    return usual - 1.5 * capital_inside


def _rate_latin(before: str, character: str, after: str, _: str) -> float:
    if character in PUNCTUATION or character == "\xa0":
        return 0.5
    if not character.isalpha():
        return -1
    neighbours = [neighbour for neighbour in (before, after) if neighbour.isalpha()]
    among_ascii = sum(neighbour.isascii() for neighbour in neighbours)
    return 0.8 if among_ascii else -0.5 if neighbours else 0.2
