"""From the Markdown of a page to markup in which nothing of a document can be more than words, emphasis and links."""

import re
from collections.abc import Callable
from functools import cache
from typing import Final
from urllib.parse import quote

from markdown_it import MarkdownIt
from markupsafe import Markup

_WIKI_LINK = re.compile(r"(?<=\]\()wiki:([^()\s]{1,200})(?=\))")
_NOTE = re.compile(r"^\[\^(\d{1,4})\]: (.*)$", re.MULTILINE)
_MARK = re.compile(r"\[\^(\d{1,4})\]")
_MARKED = re.compile("\ue000(\\d{1,4})\ue001")
_ALLOWED: Final = re.compile(r"(?:https?:|mailto:|/|#)", re.IGNORECASE)


def rendered(body: str, address: Callable[[str], str]) -> tuple[Markup, list[tuple[int, Markup]]]:
    """The text of a page and its footnotes, each with its number. `address` says where the page of a slug is.

    No markup of the text comes through, and no link but to where a page may lead.
    """
    marked = body.replace("\ue000", "").replace("\ue001", "")
    linked = _WIKI_LINK.sub(lambda link: quote(address(link[1]), safe="/"), marked)
    notes = [(int(number), _inline(text)) for number, text in _NOTE.findall(linked)]
    known = {number for number, _ in notes}
    text = _MARK.sub(lambda mark: f"\ue000{mark[1]}\ue001", _NOTE.sub("", linked))
    html = _MARKED.sub(lambda mark: _reference(int(mark[1]), known), _markdown().render(text))
    return Markup(html), notes  # noqa: S704 - made by us from text in which no markup counts


def _reference(number: int, known: set[int]) -> str:
    if number not in known:
        return f"[{number}]"
    return f'<sup><a href="#source-{number}">{number}</a></sup>'


def _inline(text: str) -> Markup:
    return Markup(_markdown().renderInline(text))  # noqa: S704 - as above


@cache
def _markdown() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False}).disable(["image", "html_block", "html_inline"])
    made.validateLink = lambda url: bool(_ALLOWED.match(url.strip()))  # type: ignore[method-assign]
    return made
