"""What the lines of a Markdown text are, and the words they say without their marks.

Not a Markdown parser: parsed documents are only nearly Markdown. A line is judged by how it begins, which is
linear, never fails, and takes plain text for what it is.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What a line is for a reader."""

    HEADING = "heading"
    PROSE = "prose"
    ITEM = "item"  # of a list
    COLUMNS = "columns"  # of a table: their names, its first line
    ROW = "row"  # of a table
    CODE = "code"
    NOISE = "noise"  # blank, rulers, fences, front matter, pictures


@dataclass(frozen=True, slots=True)
class Line:
    """One line: where it starts in the text, and what it says without its marks."""

    kind: Kind
    start: int
    text: str
    level: int = 0  # of a heading, 1 the highest


FRONT_MATTER_LINES: Final = 200
LONGEST_HEADING: Final = 200

_MARKED = re.compile(r"[<!\[{`*_~\\&\t\u00a0\u200b\ufeff\u00ad]|  ")
_LINE = re.compile(r"[^\n]*\n|[^\n]+\Z")
_FENCE = re.compile(r"[ \t>]{0,16}(`{3,}|~{3,})")
_HEADING = re.compile(r"[ ]{0,3}#{1,6}[ \t]+\S")
_HEADING_OR_FENCE = re.compile(r"^(?:[ \t>]{0,16}(`{3,}|~{3,}).*|[ ]{0,3}#{1,6}[ \t]+\S.*)", re.MULTILINE)
_ITEM = re.compile(r"[ \t>]{0,64}(?:[-*+•·▪◦–—]|\d{1,3}[.)]|\(\d{1,3}\))[ \t]+(?:\[[ xX]\][ \t]+)?(\S.*)")
_RULER = re.compile(r"[\s|:=*_+~\-─-╿]*\Z")
_TABLE_RULE = re.compile(r"[ \t]{0,64}\|(?:[ \t]*:?-+:?[ \t]*\|)+[ \t\r]*(?:\n|\Z)")
_QUOTE = re.compile(r"[ \t>]{0,64}")
_META = re.compile(r"[\s#\-]|[\w:.\-]{1,80}:")
_CODE = re.compile(  # what a piece that begins within a code block shows
    r"""\s*(?:--\s|//|/\*|\$\s|\$\$|\S.*-->\s|[{}()\[\]]+[,;]?\Z|['"].*['"],?(?:\s+(?:--|\#|//).*)?\Z|[\w.\[\]]+(?::\s\w+)?\s?[:+]?=\s?\S
    |(?:import|def|class|return|await|const|let|var|func)\s.*[:;({)\w]\Z|from\s\S+\simport\s
    |(?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|FROM|WHERE|SET|VALUES)\s)|.{0,100}[({\[]\Z""",
    re.VERBOSE,
)
_ADMONITION = re.compile(r"\s*(?:!!!|\?\?\?\+?|:::)\s*\w+")

# Every repetition is bounded, so that a line of a million brackets stays linear.
_MARKS: Final = tuple(
    (re.compile(pattern), put)
    for pattern, put in (
        (r"<!--.{0,500}?-->", " "),
        (r"</?[A-Za-z][^<>\n]{0,500}>", " "),
        (r"!\[[^\[\]\n]{0,300}\]\([^()\n]{0,1000}\)", " "),
        (r"\[\\?\[[^\[\]\n]{0,20}\]\]\(#[^()\n]{0,200}\)", ""),  # a mark of a footnote
        (r"\[\[(?:[^\[\]|\n]{0,200}\|)?([^\[\]|\n]{1,200})\]\]", r"\1"),
        (r"\[([^\[\]\n]{0,300})\]\((?:[^()\n]|\([^()\n]{0,200}\)){0,1000}\)", r"\1"),
        (r"\{[:.#!][^{}\n]{0,200}\}", ""),
        (r"`{1,3}(?:#!\w+ )?([^`\n]{1,400})`{1,3}", r"\1"),
        (r"\*{1,3}([^*\n]{1,600})\*{1,3}", r"\1"),
        (r"(?<!\w)__([^_\n]{1,600})__(?!\w)", r"\1"),
        (r"(?<!\w)_([^_\n]{1,600})_(?!\w)", r"\1"),
        (r"~~([^~\n]{1,600})~~", r"\1"),
        (r"\\([\\`*_{}\[\]()#+\-.!|<>~])", r"\1"),
        (r"\*\*|(?<!\S)`|`(?!\S)", ""),  # opened on another line
        (r"&nbsp;|[\u200b\ufeff\u00ad]", " "),
        (r"[ \t\u00a0]{1,400}", " "),
        (r" ([,.;:!?])(?=\s|$)", r"\1"),
    )
)


def plain(text: str) -> str:
    """The words of a line or paragraph without emphasis, links, pictures and tags."""
    if _MARKED.search(text):
        for pattern, put in _MARKS:
            text = pattern.sub(put, text)
    return text.strip()


def headings(text: str) -> Iterator[Line]:
    """The headings of a text in order, as `lines` finds them, but many times faster."""
    front = _front_matter_end(text)
    fence = ""
    for match in _HEADING_OR_FENCE.finditer(text):
        mark = match[1]
        if match.start() < front:
            continue
        if fence:
            fence = "" if _closes(match[0], mark, fence) else fence
        elif mark:
            fence = mark
        elif (line := _heading(match.start(), match[0])).kind is Kind.HEADING:
            yield line


def lines(text: str) -> Iterator[Line]:
    """Every line of a text in order; together they cover it."""
    front = _front_matter_end(text)
    fence = ""
    for match in _LINE.finditer(text):
        start, raw = match.start(), match[0].rstrip()
        mark = _FENCE.match(raw)
        if start < front:
            yield Line(Kind.NOISE, start, "")
        elif fence:
            closed = mark is not None and _closes(raw, mark[1], fence)
            fence = "" if closed else fence
            yield Line(Kind.NOISE, start, "") if closed else Line(Kind.CODE, start, raw)
        elif mark:
            fence = mark[1]
            yield Line(Kind.NOISE, start, "")
        else:
            yield _line(start, raw, ruled=_TABLE_RULE.match(text, match.end()) is not None)


def _line(start: int, raw: str, *, ruled: bool) -> Line:
    if _RULER.match(raw) or _ADMONITION.match(raw):
        return Line(Kind.NOISE, start, "")
    if _HEADING.match(raw):
        return _heading(start, raw)
    if raw.lstrip().startswith("|") and raw.count("|") > 1:
        cells = (plain(cell) for cell in raw.strip().strip("|").split("|"))
        return Line(Kind.COLUMNS if ruled else Kind.ROW, start, " | ".join(cells).strip())
    if _CODE.match(raw):
        return Line(Kind.CODE, start, raw)
    if item := _ITEM.match(raw):
        return _said(Kind.ITEM, start, plain(item[1]))
    return _said(Kind.PROSE, start, plain(_QUOTE.sub("", raw, count=1)))


def _heading(start: int, raw: str) -> Line:
    marks, _, title = raw.strip().partition(raw.strip().lstrip("#")[:1])
    return _said(Kind.HEADING, start, plain(title.strip("# \t"))[:LONGEST_HEADING], len(marks))


def _closes(raw: str, mark: str | None, fence: str) -> bool:
    return mark is not None and mark.startswith(fence) and raw.rstrip().endswith(mark)


def _said(kind: Kind, start: int, text: str, level: int = 0) -> Line:
    return Line(kind, start, text, level) if text else Line(Kind.NOISE, start, "")


def _front_matter_end(text: str) -> int:
    """Where the text proper begins: behind a leading block of `key: value` lines under three dashes.

    It ends with three dashes, in what converters made of HTML with a blank line, and in a piece of it nowhere.
    """
    if not text.startswith(("---\n", "---\r\n")):
        return 0
    end = 0
    for match in itertools.islice(_LINE.finditer(text), FRONT_MATTER_LINES):
        line = match[0].rstrip()
        if end and (line == "---" or not line):
            return match.end()
        if end and not _META.match(line):
            return 0
        end = match.end()
    return end
