"""Questions and answers out of a file of CSV, XLSX or JSON: rows, and what is wrong with each.

A column or field may be named in several ways; several values in one cell are separated by lines or by ##.
"""

import csv
import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from consumers.knowledge import ids
from consumers.knowledge.reading import encodings

MOST_ROWS: Final = 100_000
MOST_ANSWERS: Final = 10
MOST_FORMS: Final = 20
"""Other forms of a question, and questions that it is not."""
LONGEST_QUESTION: Final = 1_000  # characters
LONGEST_ANSWER: Final = 10_000
UNPACKED: Final = 512 << 20  # bytes of a sheet that come out of a file
SEPARATOR: Final = "##"

NAMES: Final[Mapping[str, frozenset[str]]] = {
    "question": frozenset({"question", "standard_question", "вопрос", "问题"}),
    "answers": frozenset({"answers", "answer", "ответ", "ответы", "机器人回答", "答案"}),
    "similar_questions": frozenset({"similar_questions", "similar", "похожие вопросы", "相似问题"}),
    "negative_questions": frozenset({"negative_questions", "negative", "反例问题"}),
    "enabled": frozenset({"enabled", "is_enabled", "включено"}),
}
_FIELD: Final = {name: field for field, names in NAMES.items() for name in names}
_OFF: Final = frozenset({"0", "false", "no", "off", "нет", "否"})


class UnreadableTable(Exception):  # noqa: N818 - named as a person would say it
    """Not a table of questions; its text is one sentence for a person."""


@dataclass(frozen=True, slots=True)
class Written:
    """A question with its answers, as somebody wrote it."""

    question: str
    answers: tuple[str, ...]
    similar_questions: tuple[str, ...] = ()
    negative_questions: tuple[str, ...] = ()
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Fault:
    """A row that cannot be taken, counted from 1 without the line of names, and why."""

    row: int
    question: str
    reason: str


def read_table(path: Path, name: str) -> list[Mapping[str, Any]]:
    """Return the rows of a file. A hostile file may grow or crash its reader: only for a child. Raises UnreadableTable."""
    suffix = Path(name).suffix.lower()
    if suffix in {".xlsx", ".xls", ".xlsb", ".ods"}:
        return _named(_sheet(path))
    decoded = encodings.decode(path.read_bytes())
    if decoded.binary:
        raise UnreadableTable("the file is neither CSV, XLSX nor JSON: save it as one of them")
    text = decoded.text.lstrip("\ufeff")
    if suffix in {".json", ".jsonl", ".ndjson"} or text.lstrip()[:1] in {"[", "{"}:
        return _objects(text)
    return _named(_lines(text))


def sift(rows: Iterable[Mapping[str, Any]]) -> tuple[list[Written], list[Fault]]:
    """Return what can be taken, in order, and what is wrong with the rest."""
    good: list[Written] = []
    faults: list[Fault] = []
    taken: dict[str, int] = {}
    for number, row in enumerate(rows, 1):
        said = check(row)
        if isinstance(said, str):
            faults.append(Fault(number, _text(row.get("question"))[:200], said))
            continue
        first = next((taken[key] for form in _forms(said) if (key := ids.normal(form)) in taken), None)
        if first is not None:
            faults.append(Fault(number, said.question, f"row {first} asks the same"))
            continue
        taken.update((ids.normal(form), number) for form in _forms(said))
        good.append(said)
    return good, faults


def faults_csv(faults: Sequence[Fault]) -> bytes:
    """Return faults as a file for a spreadsheet, in which no cell is a formula."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["row", "question", "reason"])
    writer.writerows([fault.row, _plain(fault.question), _plain(fault.reason)] for fault in faults)
    return out.getvalue().encode("utf-8-sig")


def _plain(cell: str) -> str:
    return f"'{cell}" if cell[:1] in {"=", "+", "-", "@", "\t", "\r"} else cell


def _forms(said: Written) -> tuple[str, ...]:
    return said.question, *said.similar_questions


def check(row: Mapping[str, Any]) -> Written | str:
    """Return the entry that a row holds, or what is wrong with it."""
    question, answers = _text(row.get("question")), _several(row.get("answers"))
    similar, negative = _several(row.get("similar_questions")), _several(row.get("negative_questions"))
    if not question:
        return "it has no question"
    if not answers:
        return "it has no answer"
    if len(answers) > MOST_ANSWERS:
        return f"it has more than {MOST_ANSWERS} answers"
    if max(len(similar), len(negative)) > MOST_FORMS:
        return f"it has more than {MOST_FORMS} other forms of the question"
    if any(len(one) > LONGEST_QUESTION for one in (question, *similar, *negative)):
        return f"a question has more than {LONGEST_QUESTION} characters"
    if any(len(one) > LONGEST_ANSWER for one in answers):
        return f"an answer has more than {LONGEST_ANSWER} characters"
    own = ids.normal(question)
    similar = tuple(one for one in similar if ids.normal(one) != own)
    if {ids.normal(one) for one in negative} & {ids.normal(one) for one in (question, *similar)}:
        return "one of its own forms is among the questions that it does not answer"
    return Written(question, answers, similar, negative, _is_on(row.get("enabled")))


def _is_on(value: Any) -> bool:
    return _text(value).casefold() not in _OFF if value is not None else True


def _several(value: Any) -> tuple[str, ...]:
    if isinstance(value, list | tuple):
        found = [_text(one) for one in value]
    else:
        found = [one.strip() for line in _text(value).splitlines() for one in line.split(SEPARATOR)]
    return tuple(dict.fromkeys(one for one in found if one))


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():  # a sheet knows no whole numbers
        value = int(value)
    return encodings.clean(str(value)).strip() if value is not None else ""


def _objects(text: str) -> list[Mapping[str, Any]]:
    try:
        found = json.loads(text)
    except ValueError:
        try:
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError as error:
            raise UnreadableTable(f"the file is not JSON: {error}") from None
    if isinstance(found, dict):
        found = found.get("entries", [found])
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise UnreadableTable("the JSON is not a list of objects with `question` and `answers`")
    return [{_FIELD.get(_key(key), key): value for key, value in one.items()} for one in _few(found)]


def _lines(text: str) -> Iterator[Sequence[Any]]:
    try:
        dialect = csv.Sniffer().sniff(text[:65_536], ",;\t|")
        yield from csv.reader(io.StringIO(text), delimiter=dialect.delimiter)
    except csv.Error:
        try:
            yield from csv.reader(io.StringIO(text))
        except csv.Error as error:
            raise UnreadableTable(f"the file is not CSV: {error}") from None


def _sheet(path: Path) -> Iterator[Sequence[Any]]:
    from python_calamine import CalamineError, CalamineWorkbook

    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > UNPACKED:
                raise UnreadableTable("the file unpacks to far more than an ordinary sheet does; split it")
    try:
        book = CalamineWorkbook.from_path(path)
        yield from book.get_sheet_by_index(0).to_python(skip_empty_area=True)
    except (CalamineError, ValueError, OSError) as error:
        raise UnreadableTable(f"the sheet cannot be read: {error}") from None


def _named(lines: Iterable[Sequence[Any]]) -> list[Mapping[str, Any]]:
    """Rows by the names of the first line that is not empty."""
    filled = (line for line in lines if any(_text(cell) for cell in line))
    head = next(filled, None)
    fields = [_FIELD.get(_key(cell)) for cell in head or ()]
    if "question" not in fields or "answers" not in fields:
        raise UnreadableTable(
            "the first line must name the columns: question, answers, and what else there is"
        )
    return [
        {field: cell for field, cell in zip(fields, line, strict=False) if field} for line in _few(filled)
    ]


def _few(rows: Iterable[Any]) -> Iterator[Any]:
    for number, row in enumerate(rows, 1):
        if number > MOST_ROWS:
            raise UnreadableTable(f"there are more than {MOST_ROWS} rows: split the file")
        yield row


def _key(cell: Any) -> str:
    return (
        _text(cell).casefold().replace(" ", "_")
        if isinstance(cell, str) and cell.isascii()
        else _text(cell).casefold()
    )
