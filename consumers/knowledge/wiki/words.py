"""The few words that a wiki page has of its own, in the language of what it says."""

from collections.abc import Mapping
from typing import Final

_WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {
        "see_also": "See also",
        "topics": "Topics",
        "documents": "Documents",
        "counts": "{documents} documents, {topics} topics.",
        "more": "and {count} more",
    },
    "ru": {
        "see_also": "См. также",
        "topics": "Темы",
        "documents": "Документы",
        "counts": "Документов: {documents}, тем: {topics}.",
        "more": "и ещё {count}",
    },
    "de": {
        "see_also": "Siehe auch",
        "topics": "Themen",
        "documents": "Dokumente",
        "counts": "Dokumente: {documents}, Themen: {topics}.",
        "more": "und {count} weitere",
    },
    "zh": {
        "see_also": "参见",
        "topics": "主题",
        "documents": "文档",
        "counts": "共 {documents} 篇文档，{topics} 个主题。",
        "more": "另有 {count} 项",
    },
}


def word(language: str | None, name: str, **values: int) -> str:
    """A word in a language, in English where that is not known here."""
    return _WORDS.get(language or "en", _WORDS["en"])[name].format(**values)
