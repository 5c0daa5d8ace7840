"""The words of a text as a full-text index sees them: folded, split, and the same for every language.

Latin, Cyrillic and the like are split at everything that is no letter or digit; case, accents and width are
folded away, and the parts of a compound identifier count beside the whole. Scripts written without spaces are
cut into overlapping pairs of characters: a two-character word is then found as itself, which trigrams cannot do.
Endings are not stemmed but left open: a query asks for the beginning of each longer word.
"""

import re
import unicodedata
from collections.abc import Iterator

MAX_QUERY_CHARS = 2_000
MAX_QUERY_TERMS = 64
MAX_TERM_CHARS = 64

# Thai, Lao, Khmer, Burmese; CJK radicals to the unified ideographs with kana between; Hangul; compatibility forms.
_DENSE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U000323af"
_RUN = re.compile(rf"([{_DENSE}]+)|[^\W_{_DENSE}]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_ACCENTS = re.compile("[\u0300-\u036f]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def clean(text: str) -> str:
    """The text without NUL and lone surrogates, which no database takes."""
    return _UNSTORABLE.sub("\ufffd", text)


def index_terms(text: str) -> Iterator[str]:
    """Every term under which a text shall be found, in order, with repetitions."""
    for word, dense in _words(text):
        if dense:
            yield from _pairs(word)
            yield word[-1]  # so that each character begins a term, and one alone can be asked for
        else:
            yield from _compound(word)


def query_terms(text: str) -> list[str]:
    """Distinct terms of a query in the syntax of FTS5, at most `MAX_QUERY_TERMS`; empty when there is no word."""
    terms: dict[str, None] = {}
    for word, dense in _words(text[:MAX_QUERY_CHARS]):
        for term in _pairs(word) if dense else _compound(word):
            terms[_pattern(term, dense=dense)] = None
        if len(terms) >= MAX_QUERY_TERMS:
            break
    return list(terms)[:MAX_QUERY_TERMS]


def _words(text: str) -> Iterator[tuple[str, bool]]:
    for run in _RUN.finditer(_plain(text)):
        yield run[0], run[1] is not None


def _plain(text: str) -> str:
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(max(1, len(run) - 1))]


def _compound(word: str) -> Iterator[str]:
    folded = word.casefold()
    yield folded[:MAX_TERM_CHARS]
    if word.isascii() and not (word.isalpha() and word[1:] in (folded[1:], word[1:].upper())):
        parts = _PART.findall(word)
        if len(parts) > 1:
            yield from (part.casefold()[:MAX_TERM_CHARS] for part in parts)


def _pattern(term: str, *, dense: bool) -> str:
    """An exact term, or the beginning of one where endings vary. A term holds no quote: it is all letters."""
    if dense:
        return f'"{term}"*' if len(term) == 1 else f'"{term}"'
    if len(term) < 4 or not term.isalpha():
        return f'"{term}"'
    return f'"{term[: max(4, len(term) - 2)] if len(term) > 5 else term}"*'
