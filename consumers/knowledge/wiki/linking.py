"""Links between pages: the first mention of another page's title becomes one, and those that lead nowhere are taken out.

A body is made anew from what was written each time, so that linking twice changes nothing and a page that went away
leaves no trace.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from consumers.knowledge.wiki.names import is_written_dense
from consumers.knowledge.wiki.words import word
from consumers.knowledge.wiki.writing import escaped

LONGEST_TITLE: Final = 6  # words of a title that is looked for
LONGEST_DENSE: Final = 12  # ideographs
SHORTEST: Final = 3  # letters of a title that is looked for; ideographs: two

_LINK = re.compile(r"(!?)\[((?:\\.|[^\[\]\\\n]){0,400})\]\(wiki:([^()\s]{1,200})\)")
_KEPT = re.compile(
    r"(?:^|(?<=\n))(?:\[\^\d+\]:[^\n]*|#{1,6} [^\n]*|(```|~~~)[\s\S]*?(?:\n\1[^\n]*|\Z))"  # notes, headings, code blocks
    r"|`[^`\n]*`|!?\[(?:\\.|[^\[\]\\\n]){0,400}\](?:\([^()\s]*\))?|\w{1,20}://\S+|\\."
)
_WORD = re.compile(r"[^\W_]+(?:[-.'’/_][^\W_]+)*")
_DENSE_RUN = re.compile(r"[\u0e00-\u0eff\u2e80-\u9fff\uac00-\ud7af\w ]+")
_NOTES = re.compile(r"(?:^|\n)(\[\^\d+\]: [^\n]*(?:\n\[\^\d+\]: [^\n]*)*)\n*\Z")


_SUFFIXES: Final = "器者员性化型商们"
"""Ideographs that make another word of the one before them."""


@dataclass(frozen=True, slots=True)
class Target:
    """A page that may be linked to. One that is not `sought` is linked only where it is named as related."""

    slug: str
    title: str
    sought: bool = True


class Titles:
    """The pages of a base, by slug, and by the words of their titles."""

    def __init__(self, targets: Iterable[Target]) -> None:
        self.by_slug: dict[str, Target] = {}
        self._by_words: dict[str, str] = {}
        self._dense: dict[str, str] = {}
        for target in sorted(targets, key=lambda one: one.slug):
            self.by_slug[target.slug] = target
            if target.sought and len(target.title) >= (2 if is_written_dense(target.title) else SHORTEST):
                known = self._dense if is_written_dense(target.title) else self._by_words
                known.setdefault(_folded(target.title), target.slug)

    def mentions(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Where a plain text names pages: start, end and slug, the longest title first, none within another."""
        words = list(_WORD.finditer(text))
        at = 0
        while at < len(words):
            for end in range(min(at + LONGEST_TITLE, len(words)), at, -1):
                start, stop = words[at].start(), words[end - 1].end()
                if slug := self._named(text[start:stop]):
                    yield start, stop, slug
                    at = end - 1
                    break
            at += 1
        if self._dense:
            yield from self._dense_mentions(text)

    def _named(self, phrase: str) -> str | None:
        for form in (phrase, phrase.removesuffix("s")):
            if slug := self._by_words.get(_folded(form)):
                title = self.by_slug[slug].title
                # One small word is a word like any other; a name is written as a name.
                if " " in title or form == title or (title.islower() and form.casefold() == title):
                    return slug
        return None

    def _dense_mentions(self, text: str) -> Iterator[tuple[int, int, str]]:
        longest = min(LONGEST_DENSE, max(map(len, self._dense)))
        for run in _DENSE_RUN.finditer(text):
            at, folded = 0, _folded_in_place(run[0])
            while at < len(folded):
                for length in range(min(longest, len(folded) - at), 1, -1):
                    after = folded[at + length : at + length + 1]
                    slug = self._dense.get(folded[at : at + length])
                    if slug and not (after and after in _SUFFIXES):
                        yield run.start() + at, run.start() + at + length, slug
                        at += length - 1
                        break
                at += 1


def linked(body: str, titles: Titles, *, own: str, related: Sequence[str] = (), heading: str = "see_also",
           language: str | None = None) -> str:  # fmt: skip
    """A body as it was written, with links: to what it mentions, and to what it is `related` to, under a `heading`."""
    body = cleaned(body, titles.by_slug)
    named = {match[3] for match in _LINK.finditer(body)} | {own}
    pieces: list[str] = []
    place = 0
    for kept in _KEPT.finditer(body):
        pieces += [_first_mentions(body[place : kept.start()], titles, named), kept[0]]
        place = kept.end()
    pieces.append(_first_mentions(body[place:], titles, named))
    wanted = [titles.by_slug[slug] for slug in related if slug in titles.by_slug and slug != own]
    return _with_list("".join(pieces), wanted, word(language, heading)) if wanted else "".join(pieces)


def cleaned(body: str, slugs: Collection[str]) -> str:
    """A body without links to pages that are not there; their words stay."""
    return _LINK.sub(lambda link: link[0] if link[3] in slugs else link[2], body)


def links_in(body: str) -> set[str]:
    """The slugs that a body links to."""
    return {match[3] for match in _LINK.finditer(body)}


def mapped(body: str, address: Mapping[str, str]) -> str:
    """A body whose links lead to addresses; a page without one is only named."""

    def put(link: re.Match[str]) -> str:
        where = address.get(link[3])
        return f"[{link[2]}]({where})" if where is not None else link[2]

    return _LINK.sub(put, body)


def _first_mentions(text: str, titles: Titles, named: set[str]) -> str:
    pieces: list[str] = []
    place = 0
    for start, end, slug in sorted(titles.mentions(text), key=lambda found: (found[0], -found[1])):
        if start >= place and slug not in named:
            named.add(slug)
            pieces += [text[place:start], f"[{text[start:end]}](wiki:{slug})"]
            place = end
    return "".join([*pieces, text[place:]])


def _with_list(body: str, wanted: Sequence[Target], title: str) -> str:
    """A body with a list of links in front of its footnotes."""
    links = " · ".join(f"[{escaped(target.title)}](wiki:{target.slug})" for target in wanted)
    block = f"## {title}\n\n{links}"
    notes = _NOTES.search(body)
    if notes is None:
        return f"{body.rstrip()}\n\n{block}\n"
    return f"{body[: notes.start()].rstrip()}\n\n{block}\n\n{notes[1]}\n"


def _folded(title: str) -> str:
    return " ".join(title.casefold().split())


def _folded_in_place(text: str) -> str:
    """Small letters, one for each letter: places stay the same."""
    return "".join(low if len(low := char.lower()) == 1 else char for char in text)
