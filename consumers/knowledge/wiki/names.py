"""Names of wiki pages: what is one topic, and what its page is called in an address and as a file.

A slug depends on the title alone, so that it is the same in every run and in whatever order documents come. Where
letters of a title cannot stand in it, a few characters of a digest tell it apart from its neighbours.
"""

import re
import unicodedata
from typing import Final

from consumers.knowledge.language.words import stem
from contracts.identity import derive_id

INDEX: Final = "index"
TOPICS: Final = "topics"
"""Folder of the pages that are about no single document."""

LONGEST: Final = 80  # characters of a slug …
LONGEST_BYTES: Final = 200  # … and bytes of it, so that it is a file name
DIGEST: Final = 12  # characters that tell two titles apart: among thousands that are the same, too

_BETWEEN = re.compile(r"[\s\-‐-―/·]+")
_ALIEN = re.compile(r"[^\w.+-]|^[.+-]+|[.+-]+$|\.{2,}")
_WORD = re.compile(r"[^\W_]+(?:[-.'’/_][^\W_]+)*")
_DENSE = re.compile(r"[\u0e00-\u0eff\u2e80-\u9fff\uac00-\ud7af]")
_FOLDER_ALIEN = re.compile(r"[^\w. -]|^\.+|\.+$")


def slug_of(title: str) -> str:
    """The slug of a topic. Titles that differ in case, spacing, hyphens or an English plural have the same."""
    plain = unicodedata.normalize("NFKC", title).strip()
    words = _BETWEEN.split(_singular(plain.casefold()))
    wanted = "-".join(words)
    slug = _fitting(_ALIEN.sub("", wanted))
    if slug == wanted and slug not in {INDEX, ""}:
        return slug
    return _told_apart(slug, "topic", wanted)


def document_slug(title: str, source: str) -> str:
    """The slug of the page of a document: titles are often the same, sources never."""
    plain = unicodedata.normalize("NFKC", title).casefold()
    slug = _ALIEN.sub("", "-".join(_BETWEEN.split(plain.strip())))
    return _told_apart(_fitting(slug[: LONGEST * 3 // 4]), "document", source)


def folder_of(source: str) -> str:
    """The folder of a document's page: that in which the document lay, or the host it came from."""
    scheme, found, rest = source.partition("://")
    parts = [part for part in re.split(r"[/\\]", rest if found else source) if part]
    name = (parts[0] if found and scheme != "file" else parts[-2]) if len(parts) > 1 else "documents"
    name = _cut(_FOLDER_ALIEN.sub("", name).strip(" .")).rstrip(" .") or "documents"
    return f"{name}-documents" if name.casefold() in {TOPICS, INDEX, f"{INDEX}.md"} else name


def page_id(kb_id: str, slug: str) -> str:
    """The id of a page, and of its entry in the index."""
    return derive_id("wiki", kb_id, slug)


def key_of(text: str) -> tuple[str, ...]:
    """The stems by which a title is found in a sentence; a title of ideographs is found as it is written."""
    if _DENSE.search(text):
        return (" ".join(text.casefold().split()),)
    return tuple(stems(text))


def stems(text: str) -> list[str]:
    """The stems of all words of a sentence, in order."""
    return [stem(word) for word in _WORD.findall(text.casefold())]


def is_written_dense(text: str) -> bool:
    """Whether a title has ideographs, and is therefore looked for as a part of a word."""
    return _DENSE.search(text) is not None


def _fitting(slug: str) -> str:
    """As much of a slug as a file name has room for."""
    return _cut(slug).strip(".+-")


def _cut(name: str) -> str:
    return name[:LONGEST].encode("utf-8", "ignore")[:LONGEST_BYTES].decode("utf-8", "ignore")


def _singular(words: str) -> str:
    last = words.rpartition(" ")[2]
    if (
        not last.isascii()
        or len(last) < 4
        or not last.endswith("s")
        or last.endswith(("ss", "us", "is", "os", "series", "news"))
    ):
        return words
    if last.endswith("ies"):
        return words[:-3] + "y"
    return words[: -2 if last.endswith(("sses", "xes", "tches", "shes")) else -1]


def _told_apart(slug: str, kind: str, what: str) -> str:
    return f"{slug.strip('.+-')}-{derive_id(kind, what)[:DIGEST]}".lstrip("-")
