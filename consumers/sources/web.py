"""Kind web: the pages of one site, as its sitemap or its feed names them, or as its own links lead to them."""

import asyncio
import hashlib
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated, Any, Final

import httpx
from pydantic import Field

from consumers.outbound import (
    AddressRefused,
    Fetched,
    Outbound,
    OutboundError,
    StatusRefused,
    checked_address,
)
from consumers.sources.connector import (
    Config,
    Connector,
    Content,
    Item,
    Kind,
    NoCredentials,
    Page,
    SourceError,
    Surroundings,
    listing,
)
from consumers.sources.folder import Patterns
from consumers.sources.site import Site
from consumers.sources.web_reading import Named, read_feed, read_links, read_sitemap
from pipeline import Settings

TOGETHER: Final = 20
"""Pages of a crawl that are taken in at once."""
MOST_SITEMAPS: Final = 100
GONE: Final = frozenset({404, 410})


class Method(StrEnum):
    """How the pages of a site are found."""

    SITEMAP = "sitemap"
    FEED = "feed"
    CRAWL = "crawl"


class WebConfig(Config):
    """Which pages of the site of `start`: those whose path begins with `under`; at most `max_pages` are looked at.

    `start` is the address of a sitemap (or of the site, whose robots.txt then names them), of a feed, or of the first page
    of a crawl. `pause_s` lies between two requests. Patterns look at the path.
    """

    start: Annotated[str, Field(min_length=1, max_length=4096)]
    method: Method = Method.SITEMAP
    under: Annotated[str, Field(max_length=1024)] = "/"
    include: Patterns = ()
    exclude: Patterns = ()
    max_pages: Annotated[int, Field(ge=1, le=100_000)] = 1_000
    pause_s: Annotated[float, Field(ge=0, le=60)] = 1.0


class Pages:
    """The pages of one site."""

    def __init__(self, config: WebConfig, around: Surroundings, outbound: Outbound) -> None:
        self._config, self._recall, self._folder = config, around.recall, around.folder
        self._site = Site(config.start, outbound, around.folder, config.pause_s)
        self._here: dict[str, tuple[Path, Content]] = {}

    async def changes(self, cursor: str) -> AsyncIterator[Page]:
        """See `Connector`."""
        match self._config.method:
            case Method.SITEMAP:
                found = await self._mapped()
                items = [Item(named.address, "", named.version) for named in found]
                for page in listing(sorted(items, key=lambda item: item.id), cursor):
                    yield page
            case Method.FEED:
                yield await self._fed(cursor)
            case Method.CRAWL:
                async for page in self._crawled():
                    yield page

    async def fetch(self, item: Item, into: Path, stamp: str) -> Content:
        """See `Connector`."""
        if item.id in self._here:
            path, content = self._here.pop(item.id)
            await asyncio.to_thread(path.rename, into)
            return content
        was = _stamped(stamp)
        try:
            found = await self._site.fetch(
                item.id, into, etag=was.get("etag", ""), last_modified=was.get("modified", "")
            )
        except StatusRefused as error:
            if error.status in GONE:
                raise SourceError(f"it is gone: the site answers with status {error.status}") from None
            raise
        if found.unchanged:
            return Content(stamp, unchanged=True)
        return (await self._read(found, into))[0]

    async def health(self) -> str:
        """See `Connector`."""
        await self._site.fetch(self._config.start, self._folder / "health")
        return f"{self._config.start[:200]} can be read"

    async def _mapped(self) -> list[Named]:
        """Return what the sitemaps name of this site, each address once."""
        start = self._config.start
        left = deque([start] if _is_map(start) else await self._site.sitemaps() or ["/sitemap.xml"])
        seen: set[str] = set()
        found: dict[str, Named] = {}
        path = self._folder / "sitemap"
        while left:
            address = str(self._site.start.join(left.popleft()))
            if address in seen or len(seen) == MOST_SITEMAPS:
                continue
            seen.add(address)
            await self._site.fetch(address, path)
            for named in await asyncio.to_thread(lambda: list(read_sitemap(path))):
                if named.inner:
                    left.append(named.address)
                elif (page := self._meant(named.address)) and len(found) < self._config.max_pages:
                    found[page] = Named(page, named.version)
        return list(found.values())

    async def _fed(self, cursor: str) -> Page:
        """Return the news of a feed; the cursor has what tells whether it has any."""
        path, was = self._folder / "feed", _stamped(cursor)
        fed = await self._site.fetch(
            self._config.start, path, etag=was.get("etag", ""), last_modified=was.get("modified", "")
        )
        if fed.unchanged:
            return Page([], cursor)
        named = await asyncio.to_thread(lambda: list(read_feed(path)))
        pages = [(self._meant(one.address), one.version) for one in named[: self._config.max_pages]]
        return Page([Item(page, "", version) for page, version in pages if page], _stamp(fed))

    async def _crawled(self) -> AsyncIterator[Page]:
        """Follow the links of the site, the nearest first. A crawl that was interrupted begins anew: what has not changed
        since is not sent again.
        """
        first = str(self._site.start.copy_with(fragment=None))
        left, seen, begins = deque([first]), {first}, True
        some: list[Item] = []
        while left:
            address = left.popleft()
            item, links = await self._visit(address, first=address == first)
            for page in links:
                if page not in seen and len(seen) < self._config.max_pages:
                    seen.add(page)
                    left.append(page)
            if item is not None:
                some.append(item)
            if len(some) == TOGETHER:
                yield Page(some, "", begins=begins)
                some, begins = [], False
                await self._forget()
        yield Page(some, "", begins=begins, ends=True)
        await self._forget()

    async def _visit(self, address: str, *, first: bool) -> tuple[Item | None, list[str]]:
        """Read a page; return the item that it is, if it is one, and where it leads."""
        path = self._folder / hashlib.sha256(address.encode()).hexdigest()
        try:
            return await self._visited(address, path, first=first)
        finally:
            if address not in self._here:
                await asyncio.to_thread(path.unlink, missing_ok=True)

    async def _visited(self, address: str, path: Path, *, first: bool) -> tuple[Item | None, list[str]]:
        was = _stamped(await self._recall(address))
        try:
            found = await self._site.fetch(
                address, path, etag=was.get("etag", ""), last_modified=was.get("modified", "")
            )
        except SourceError:
            if first:
                raise
            return None, []
        except OutboundError as error:
            if first:
                raise
            if isinstance(error, AddressRefused) or (
                isinstance(error, StatusRefused) and error.status in GONE
            ):
                return None, []
            # it may be there: it fails alone when it is fetched, and what only it leads to is not gone for that
            return Item(address), list(was.get("links", ()))
        if found.unchanged:
            return Item(address, "", _version(was)), list(was.get("links", ()))
        content, links, kept = await self._read(found, path)
        if not kept:
            return None, links
        self._here[address] = path, content
        return Item(address, content.name, content.version), links

    async def _read(self, found: Fetched, path: Path) -> tuple[Content, list[str], bool]:
        """Return what was fetched, where it leads, and whether it may be kept; that is of interest to a crawl only."""
        if self._config.method is not Method.CRAWL:
            return Content(_stamp(found), name=found.name), [], True
        links, kept = [], True
        if found.media_type in {"text/html", "application/xhtml+xml"}:
            page = await asyncio.to_thread(read_links, path, found.address, found.charset)
            kept = page.kept
            joined = [_joined(page.address, one) for one in page.found] if page.followed else []
            links = list(dict.fromkeys(one for link in joined if (one := self._meant(link))))
        said = {"etag": found.etag, "modified": found.last_modified}
        version = _version(said) or await asyncio.to_thread(_digest, path)
        return Content(_stamp(found, links), name=found.name, version=version), links, kept

    async def _forget(self) -> None:
        """Drop what was read of pages that nobody asked for: they are as they were."""
        for path, _ in self._here.values():
            await asyncio.to_thread(path.unlink, missing_ok=True)
        self._here.clear()

    def _meant(self, address: str) -> str:
        """Return the address of a page that is meant, in the one form in which it is known; "" for others."""
        with suppress(OutboundError):
            url = checked_address(address, of=self._site.start)
            path, config = url.path, self._config
            wanted = not config.include or any(fnmatch(path, one) for one in config.include)
            unwanted = any(fnmatch(path, one) for one in config.exclude)
            if self._site.has(url) and path.startswith(config.under) and wanted and not unwanted:
                return str(url.copy_with(fragment=None))
        return ""


def _joined(base: str, link: str) -> str:
    with suppress(httpx.InvalidURL, ValueError, TypeError):
        return str(httpx.URL(base).join(link))
    return ""


def _is_map(address: str) -> bool:
    return checked_address(address).path.lower().endswith((".xml", ".xml.gz", ".gz"))


def _stamp(found: Fetched, links: list[str] | None = None) -> str:
    said: dict[str, Any] = {"etag": found.etag, "modified": found.last_modified}
    return json.dumps(said if links is None else {**said, "links": links})


def _stamped(stamp: str) -> dict[str, Any]:
    with suppress(ValueError):
        said = json.loads(stamp)
        if isinstance(said, dict):
            return said
    return {}


def _version(stamped: Mapping[str, Any]) -> str:
    return f"{stamped.get('etag', '')} {stamped.get('modified', '')}".strip()


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _admit(config: WebConfig, _: Settings) -> None:
    checked_address(config.start)


@asynccontextmanager
async def _connect(config: WebConfig, _: NoCredentials, around: Surroundings) -> AsyncIterator[Connector]:
    async with Outbound(around.settings) as outbound:
        yield Pages(config, around, outbound)


WEB: Final = Kind("web", "the pages of one web site", WebConfig, _connect, admit=_admit)
