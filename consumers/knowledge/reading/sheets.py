"""Data tables out of a file of CSV, TSV or a workbook: sheet by sheet, what each column holds, in numbers and in words.

Read as a stream: of a column only counts, ends and some values are kept, so that a long table takes no more memory than a
short one, but for a workbook, which its library reads as a whole.
"""

import csv
import io
import math
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

from consumers.knowledge.reading import encodings

MOST_SHEETS: Final = 50
MOST_COLUMNS: Final = 200
MOST_ROWS: Final = 2_000_000
DISTINCT: Final = 1_000
"""Different values of a column that are counted; more are said to be more."""
EXAMPLES: Final = 5
SHOWN: Final = 60  # characters of an example
UNPACKED: Final = 1 << 30  # bytes of sheets that come out of a file
HEAD_ROWS: Final = 20  # in which the line of names is looked for

_NUMBER: Final = re.compile(r"[-+]?(?:\d{1,3}(?:[ ,\u00a0\u202f]\d{3})+|\d+)?(?:[.,]\d+)?(?:[eE][-+]?\d+)?%?")
_THOUSANDS: Final = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+")
_CODE: Final = re.compile(r"0\d+")
_DATE: Final = re.compile(
    r"(\d{4})[-./](\d{1,2})[-./](\d{1,2})(?:[ T]\d{1,2}:\d{2}.*)?|(\d{1,2})[./](\d{1,2})[./](\d{4})"
)
_TRUTHS: Final = frozenset({"true", "false", "yes", "no", "да", "нет", "是", "否"})


class UnreadableSheet(Exception):  # noqa: N818 - named as a person would say it
    """Not a table that can be read; its text is one sentence for a person."""


class ColumnKind(StrEnum):
    """What most values of a column are."""

    EMPTY = "empty"
    NUMBER = "number"
    DATE = "date"
    TRUTH = "truth"
    TEXT = "text"


@dataclass(slots=True)
class Column:
    """What is known of a column: `low`, `high` and `total` of its numbers, `first` and `last` of its dates."""

    name: str
    filled: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    low: float = math.inf
    high: float = -math.inf
    total: float = 0.0
    first: str = "9999"
    last: str = ""
    seen: dict[str, int] = field(default_factory=dict)

    @property
    def kind(self) -> ColumnKind:
        """What nearly all of its values are; text where they differ."""
        if not self.filled:
            return ColumnKind.EMPTY
        kind, count = max(self.kinds.items(), key=lambda pair: pair[1])
        return ColumnKind(kind) if count >= 0.95 * self.filled else ColumnKind.TEXT

    def told(self) -> dict[str, Any]:
        """Return it as it is stored."""
        kind = self.kind
        ends: tuple[float | str | None, float | str | None] = None, None
        if kind is ColumnKind.NUMBER:
            ends = self.low, self.high
        elif kind is ColumnKind.DATE:
            ends = self.first, self.last
        numbers = self.kinds.get(ColumnKind.NUMBER, 0)
        common = sorted(self.seen.items(), key=lambda pair: (-pair[1], pair[0]))[:EXAMPLES]
        return {
            "name": self.name,
            "type": kind.value,
            "filled": self.filled,
            "distinct": min(len(self.seen), DISTINCT),
            "more": len(self.seen) > DISTINCT,
            "min": ends[0],
            "max": ends[1],
            "mean": round(self.total / numbers, 6)
            if kind is ColumnKind.NUMBER and math.isfinite(self.total)
            else None,
            "examples": [value for value, _ in common],
        }


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table: `rows` are those below the names of its columns."""

    name: str
    rows: int
    columns: tuple[dict[str, Any], ...]


def read_sheets(path: Path, name: str) -> list[Sheet]:
    """Return what the tables of a file hold. A hostile file may grow or crash its reader: only for a child. Raises
    UnreadableSheet.
    """
    suffix = Path(name).suffix.lower().lstrip(".")
    found: Iterable[tuple[str, Iterable[Sequence[Any]]]] = (
        [(Path(name).stem, _lines(path, suffix))] if suffix in {"csv", "tsv"} else _workbook(path)
    )
    sheets = [sheet for title, lines in found if (sheet := _sheet(title, lines)) is not None]
    if not sheets:
        raise UnreadableSheet("it has no table with at least one row")
    return sheets


def _sheet(name: str, lines: Iterable[Sequence[Any]]) -> Sheet | None:
    rest = iter(lines)
    top = [line for line in islice(rest, HEAD_ROWS) if any(map(_filled, line))]
    if not top:
        return None
    width = max(sum(map(_filled, line)) for line in top)
    head = next(at for at, line in enumerate(top) if sum(map(_filled, line)) >= max(1, 0.6 * width))
    named = not any(_kind(cell) in {ColumnKind.NUMBER, ColumnKind.DATE} for cell in top[head])
    first = top[head] if named else ()
    span = min(MOST_COLUMNS, max(len(line) for line in top))
    columns = [Column(_name(first, at)) for at in range(span)]
    rows = 0
    for line in chain(top[head + named :], rest):
        if not any(map(_filled, line)):
            continue
        rows += 1
        if rows > MOST_ROWS:
            raise UnreadableSheet(f"it has more than {MOST_ROWS} rows: split it")
        for column, cell in zip(columns, line, strict=False):
            _count(column, cell)
    if not rows:
        return None
    return Sheet(name[:200], rows, tuple(column.told() for column in columns if column.filled or named))


def _count(column: Column, cell: Any) -> None:
    if not _filled(cell):
        return
    kind = _kind(cell)
    column.filled += 1
    column.kinds[kind] = column.kinds.get(kind, 0) + 1
    text = _text(cell)[:SHOWN]
    if text in column.seen or len(column.seen) <= DISTINCT:
        column.seen[text] = column.seen.get(text, 0) + 1
    if kind is ColumnKind.NUMBER and (value := _number(cell)) is not None:
        column.low, column.high = min(column.low, value), max(column.high, value)
        column.total += value
    elif kind is ColumnKind.DATE and (day := _day(cell)):
        column.first, column.last = min(column.first, day), max(column.last, day)


def _kind(cell: Any) -> ColumnKind:
    if isinstance(cell, bool):
        return ColumnKind.TRUTH
    if isinstance(cell, date | datetime):
        return ColumnKind.DATE
    text = _text(cell)
    if not text:
        return ColumnKind.EMPTY
    if text.casefold() in _TRUTHS:
        return ColumnKind.TRUTH
    if _DATE.fullmatch(text):
        return ColumnKind.DATE
    return ColumnKind.TEXT if _number(cell) is None else ColumnKind.NUMBER


def _number(cell: Any) -> float | None:
    """Return a number that can be stored; None for what is none, such as a code that begins with 0."""
    try:
        value = float(cell if isinstance(cell, int | float) else _plain(_text(cell)))
    except (ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None


def _plain(text: str) -> str:
    """Return a number as Python writes it, "" for what is written as none."""
    if not _NUMBER.fullmatch(text) or _CODE.fullmatch(text):
        return ""
    digits = re.sub(r"[ \u00a0\u202f%]", "", text)
    thousands = "." in digits or _THOUSANDS.fullmatch(digits)
    return digits.replace(",", "" if thousands else ".")


def _day(cell: Any) -> str | None:
    if isinstance(cell, date | datetime):
        return cell.isoformat()[:10]
    found = _DATE.fullmatch(_text(cell))
    if found is None:
        return None
    year, month, day = (found[1], found[2], found[3]) if found[1] else (found[6], found[5], found[4])
    return f"{year}-{int(month):02}-{int(day):02}"


def _filled(cell: Any) -> bool:
    return cell is not None and cell != "" and bool(_text(cell))


def _text(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        cell = int(cell)
    if isinstance(cell, datetime | date | time | timedelta):
        return str(cell)
    return encodings.clean(str(cell)).strip() if cell is not None else ""


def _name(first: Sequence[Any], at: int) -> str:
    name = " ".join(_text(first[at]).split()) if at < len(first) else ""
    return name[:100] or f"column {at + 1}"


def _lines(path: Path, suffix: str) -> Iterator[Sequence[Any]]:
    decoded = encodings.decode(path.read_bytes())
    if decoded.binary:
        raise UnreadableSheet("it is not a text of separated values")
    text = decoded.text.lstrip("\ufeff")
    delimiter = "\t"
    if suffix != "tsv":
        try:
            delimiter = csv.Sniffer().sniff(text[:65_536], ",;\t|").delimiter
        except csv.Error:
            delimiter = ","
    csv.field_size_limit(1 << 20)
    try:
        yield from csv.reader(io.StringIO(text), delimiter=delimiter)
    except csv.Error as error:
        raise UnreadableSheet(f"it is not a text of separated values: {error}") from None


def _workbook(path: Path) -> Iterator[tuple[str, Iterable[Sequence[Any]]]]:
    from python_calamine import CalamineError, CalamineWorkbook

    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > UNPACKED:
                raise UnreadableSheet("it unpacks to far more than an ordinary workbook does: split it")
    try:
        book = CalamineWorkbook.from_path(path)
        for name in book.sheet_names[:MOST_SHEETS]:
            yield name, book.get_sheet_by_name(name).iter_rows()
    except (CalamineError, ValueError, OSError) as error:
        raise UnreadableSheet(f"the workbook cannot be read: {error}") from None
