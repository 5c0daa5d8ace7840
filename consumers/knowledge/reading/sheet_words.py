"""What a data table holds, in words: in the language of its document."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from consumers.knowledge.reading.sheets import ColumnKind, Sheet

MOST_NAMED: Final = 40
"""Columns that are described; of the rest only the names are given."""


@dataclass(frozen=True, slots=True)
class Words:
    """How a language says it."""

    head: str
    kinds: Mapping[str, str]
    span: str
    mean: str
    values: str
    more: str
    empty: str
    others: str


ENGLISH: Final = Words(
    "The table “{name}” has {rows} rows and {columns} columns.",
    {"number": "number", "date": "date", "truth": "yes or no", "text": "text", "empty": "empty"},
    "{low} to {high}",
    "mean {mean}",
    "{count} values, such as {examples}",
    "over {count} values, such as {examples}",
    "{count} rows without",
    "Further columns: {names}.",
)
LANGUAGES: Final[Mapping[str, Words]] = {
    "ru": Words(
        "Таблица «{name}»: строк — {rows}, столбцов — {columns}.",
        {"number": "число", "date": "дата", "truth": "да или нет", "text": "текст", "empty": "пусто"},
        "от {low} до {high}",
        "среднее {mean}",
        "значений: {count}, например {examples}",
        "значений больше {count}, например {examples}",
        "строк без значения: {count}",
        "Остальные столбцы: {names}.",
    ),
    "zh": Words(
        "表格“{name}”有{rows}行、{columns}列。",
        {"number": "数字", "date": "日期", "truth": "是或否", "text": "文本", "empty": "空"},
        "{low} 至 {high}",
        "平均 {mean}",
        "{count} 个值,例如 {examples}",
        "超过 {count} 个值,例如 {examples}",
        "{count} 行为空",
        "其他列:{names}。",
    ),
}


def described(sheet: Sheet, language: str | None) -> str:
    """Return a readable description of a table."""
    words = LANGUAGES.get((language or "en")[:2], ENGLISH)
    head = words.head.format(name=sheet.name, rows=_grouped(sheet.rows), columns=len(sheet.columns))
    lines = [f"- {_column(column, sheet.rows, words)}" for column in sheet.columns[:MOST_NAMED]]
    rest = ", ".join(str(column["name"]) for column in sheet.columns[MOST_NAMED:])
    return "\n".join([head, *lines, *([words.others.format(names=rest)] if rest else [])])


def _column(column: Mapping[str, Any], rows: int, words: Words) -> str:
    parts: list[str] = []
    if column["min"] is not None:
        parts.append(words.span.format(low=_shown(column["min"]), high=_shown(column["max"])))
    if column["mean"] is not None and column["distinct"] > 1:
        parts.append(words.mean.format(mean=_shown(column["mean"])))
    if column["type"] in {ColumnKind.TEXT, ColumnKind.TRUTH}:
        said = words.more if column["more"] else words.values
        parts.append(said.format(count=_grouped(column["distinct"]), examples=", ".join(column["examples"])))
    if missing := rows - column["filled"]:
        parts.append(words.empty.format(count=_grouped(missing)))
    return f"{column['name']} ({words.kinds[column['type']]}): {'; '.join(parts)}".removesuffix(": ")


def _shown(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return (
        _grouped(int(value))
        if float(value).is_integer()
        else f"{value:,.4g}"
        if abs(value) < 1e4
        else f"{value:,.2f}"
    )


def _grouped(count: int) -> str:
    return f"{count:,}"
