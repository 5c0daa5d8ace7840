"""What pages, sitemaps and feeds name: addresses, and when what is there was changed."""

import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import IO, Final
from urllib.parse import urljoin
from xml.etree.ElementTree import Element

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import ParseError, iterparse

from consumers.sources.connector import SourceError

LONGEST_SITEMAP: Final = 50 << 20
MOST_LINKS: Final = 1_000
LONGEST_PAGE: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Named:
    """An address that a sitemap or a feed names, and what it says of its version. An `inner` one is another sitemap."""

    address: str
    version: str = ""
    inner: bool = False


def read_sitemap(path: Path) -> Iterator[Named]:
    """Yield what a sitemap, packed or not, or a list of sitemaps names. Raises SourceError."""
    for element in _elements(_unpacked(path), ("url", "sitemap")):
        address = _said(element, "loc")
        if address:
            yield Named(address, _said(element, "lastmod"), inner=_name(element) == "sitemap")


def read_feed(path: Path) -> Iterator[Named]:
    """Yield the entries of a feed, RSS or Atom. Raises SourceError."""
    for element in _elements(path, ("item", "entry")):
        links = [one for one in element if _name(one) == "link"]
        chosen = [
            one.get("href") or one.text or "" for one in links if one.get("rel", "alternate") == "alternate"
        ]
        address = next((one.strip() for one in chosen if one.strip()), "")
        if address:
            version = next(
                filter(None, (_said(element, name) for name in ("updated", "modified", "pubDate", "date"))),
                "",
            )
            yield Named(address, version)


@dataclass(slots=True)
class Links(HTMLParser):
    """What a page of HTML says to a harvester: where it leads, and whether it wants to be kept and followed."""

    address: str
    found: dict[str, None] = field(default_factory=dict)
    kept: bool = True
    followed: bool = True

    def __post_init__(self) -> None:
        HTMLParser.__init__(self)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """See HTMLParser."""
        said = {name: value or "" for name, value in attrs}
        if tag == "base" and said.get("href"):
            self.address = urljoin(self.address, said["href"])
        elif tag == "meta" and said.get("name", "").lower() == "robots":
            words = said.get("content", "").lower()
            self.kept &= "noindex" not in words and "none" not in words
            self.followed &= "nofollow" not in words and "none" not in words
        elif tag == "a" and "nofollow" not in said.get("rel", "").lower() and len(self.found) < MOST_LINKS:
            self.found[said.get("href", "")] = None


def read_links(path: Path, address: str, charset: str) -> Links:
    """Read a page of HTML."""
    links = Links(address)
    with path.open("rb") as file:
        try:
            text = file.read(LONGEST_PAGE).decode(charset or "utf-8", "replace")
        except LookupError:
            file.seek(0)
            text = file.read(LONGEST_PAGE).decode("utf-8", "replace")
    links.feed(text)
    return links


def _elements(path: Path, names: tuple[str, ...]) -> Iterator[Element]:
    """Yield elements one by one, so that a long list needs little memory."""
    try:
        root: Element | None = None
        for event, element in iterparse(path, events=("start", "end")):
            root = element if root is None else root
            if event == "end" and _name(element) in names:
                yield element
                root.clear()
    except (ParseError, DefusedXmlException, ValueError, LookupError) as error:
        raise SourceError(f"it is no sitemap or feed that can be read: {error}") from None


def _unpacked(path: Path) -> Path:
    with path.open("rb") as file:
        if file.read(2) != b"\x1f\x8b":
            return path
        file.seek(0)
        plain = path.with_suffix(".plain")
        try:
            with gzip.open(file) as packed, plain.open("wb") as out:
                _copy(packed, out)
        except (OSError, EOFError) as error:
            raise SourceError(f"it is no sitemap that can be unpacked: {error}") from None
    return plain


def _copy(packed: gzip.GzipFile, out: IO[bytes]) -> None:
    left = LONGEST_SITEMAP
    while part := packed.read(65_536):
        left -= len(part)
        if left < 0:
            raise SourceError(f"a sitemap has at most {LONGEST_SITEMAP >> 20} MB")
        out.write(part)


def _name(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _said(element: Element, name: str) -> str:
    return next((one.text or "" for one in element if _name(one) == name), "").strip()
