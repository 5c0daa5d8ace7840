"""The sentences of a text: what summaries, questions and answers are made of.

Tables, code, pictures and marks are left out, wrapped lines are joined, and a stop within an abbreviation, a number or
a name ends nothing.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from consumers.knowledge.language.words import is_dense
from consumers.knowledge.reading.markdown import Kind, Line, lines

LONGEST: Final = 600  # characters; what goes on without a stop is cut
WRAPPED: Final = 45  # characters from which on a line of a wrapped text goes on in the next
WIDEST: Final = 130  # characters of a line; a text with a longer one is not wrapped

_STOP = re.compile(r"[.!?…]+[\"'”»)\]]*(?=\s|$)|[。！？｡؟۔।]+[”’」』）)\"]*")
_ABBREVIATED: Final = """
e.g i.e etc. cf vs mr mrs ms dr prof st no nos fig figs eq eqs sec ch vol ed eds al approx inc ltd co corp jr sr dept est
min max u.s u.k ph.d a.m p.m jan feb mar apr jun jul aug sep sept oct nov dec
т.е т.д т.п т.к т.н т.о др пр г гг в вв рис см стр с ст п пп ул д им тыс млн млрд руб коп напр прим гл табл проф акад
обл р-н и.о н.э св ок мин макс шт экз
"""
_ABBREVIATIONS: Final = frozenset(_ABBREVIATED.split())
_SAYS = re.compile(r"[^\W_]")
_LAST_WORD = re.compile(r"[\w.\-]{1,20}$")
_NEXT_LOWER = re.compile(r"\s+[\"'“«(\[]*[a-zа-яё]")
_OPEN_END = re.compile(r"[^.!?…。！？:：;；]$")
_DENSE = "\u2e80-\u9fff\uff00-\uffef"
_GLUED = re.compile(rf"(?<=[{_DENSE}])\n(?=[{_DENSE}])")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence, list item, heading or table row, without marks, and what kind of line it stood on."""

    text: str
    kind: Kind


def sentences(
    text: str, *, kinds: Collection[Kind] = (Kind.PROSE, Kind.ITEM), longest: int = LONGEST
) -> tuple[Sentence, ...]:
    """The sentences of a Markdown or plain text in order; those of other kinds are passed over."""
    return tuple(
        Sentence(piece, kind)
        for kind, paragraph in _paragraphs(text)
        if kind in kinds
        for whole in ([paragraph] if kind in _WHOLE else split_sentences(paragraph))
        for piece in _cut(whole, longest)
        if _SAYS.search(piece)
    )


_WHOLE: Final = frozenset({Kind.HEADING, Kind.COLUMNS, Kind.ROW, Kind.CODE})


def split_sentences(paragraph: str) -> Iterator[str]:
    """Cut running text behind each stop that ends a sentence."""
    start = 0
    for match in _STOP.finditer(paragraph):
        if _ends(paragraph, start, match):
            yield paragraph[start : match.end()].strip()
            start = match.end()
    if rest := paragraph[start:].strip():
        yield rest


def _ends(paragraph: str, start: int, match: re.Match[str]) -> bool:
    if match[0][0] not in ".…":
        return True
    if _NEXT_LOWER.match(paragraph, match.end()):
        return False
    word = _LAST_WORD.search(paragraph, max(start, match.start() - 20), match.start())
    if word is None or match[0] != ".":
        return True
    last = word[0].lower()
    initial = len(last) == 1 and last.isalpha() and word[0].isupper()
    return last not in _ABBREVIATIONS and not initial and not (last.isdecimal() and word.start() == start)


def _paragraphs(text: str) -> Iterator[tuple[Kind, str]]:
    """Join lines that were wrapped. A short line, or one behind a stop, is not: it stands for itself."""
    kind, said = Kind.NOISE, ""
    found = list(lines(text))
    wrapped = all(len(line.text) <= WIDEST for line in found if line.kind is Kind.PROSE)
    for line in found:
        if said and _continues(kind, said, line, wrapped=wrapped):
            said += "\n" + line.text
            continue
        if said:
            yield kind, _joined(said)
        kind, said = line.kind, line.text
    if said:
        yield kind, _joined(said)


def _continues(kind: Kind, said: str, line: Line, *, wrapped: bool) -> bool:
    if line.kind is not Kind.PROSE or kind not in (Kind.PROSE, Kind.ITEM):
        return False
    last = said[said.rfind("\n") + 1 :]
    full = len(last) >= (WRAPPED // 2 if is_dense(last) else WRAPPED)
    return full and bool(_OPEN_END.search(last)) and (wrapped or line.text[0].islower())


def _joined(said: str) -> str:
    return _GLUED.sub("", said).replace("\n", " ")


def _cut(sentence: str, longest: int) -> Iterator[str]:
    while len(sentence) > longest:
        at = max(sentence.rfind(mark, longest // 2, longest) for mark in " ,;，；、")
        at = at + 1 if at > 0 else longest
        yield sentence[:at].strip()
        sentence = sentence[at:]
    if sentence.strip():
        yield sentence.strip()
