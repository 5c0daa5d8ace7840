"""One web site, asked politely: one question at a time, with pauses, and only for what its robots.txt does not refuse."""

import asyncio
import time
from pathlib import Path
from typing import Final

import httpx
from protego import Protego

from consumers.outbound import AGENT, Fetched, Outbound, StatusRefused, checked_address
from consumers.sources.connector import SourceError

LONGEST_PAUSE_S: Final = 60.0
LONGEST_ROBOTS: Final = 500 << 10  # what crawlers are asked to read at least
BUSY: Final = frozenset({429, 503})


class Site:
    """The site of an address. `pause_s` lies between two questions, more if robots.txt asks for more."""

    def __init__(self, address: str, outbound: Outbound, folder: Path, pause_s: float) -> None:
        self.start = checked_address(address)
        self._outbound, self._folder, self._pause_s = outbound, folder, pause_s
        self._turn = asyncio.Lock()
        self._robots: Protego | None = None
        self._asked_at = float("-inf")

    def has(self, url: httpx.URL) -> bool:
        """Whether an address is of this site."""
        return (url.host, url.port) == (self.start.host, self.start.port)

    async def sitemaps(self) -> list[str]:
        """Return the sitemaps that robots.txt names. Raises OutboundError."""
        async with self._turn:
            return list((await self._rules()).sitemaps)

    async def fetch(self, address: str, into: Path, *, etag: str = "", last_modified: str = "") -> Fetched:
        """Read an address of the site into a file, as `Outbound.fetch`. Raises SourceError where robots.txt refuses it or it
        leads to another site, OutboundError.
        """
        async with self._turn:
            rules = await self._rules()
            _obey(rules, address)
            pause = max(self._pause_s, min(rules.crawl_delay(AGENT) or 0.0, LONGEST_PAUSE_S))
            await self._wait(pause)
            try:
                found = await self._outbound.fetch(address, into, etag=etag, last_modified=last_modified)
            except StatusRefused as error:
                if error.status not in BUSY or (error.retry_after or 0.0) > LONGEST_PAUSE_S:
                    raise
                await self._wait(max(error.retry_after or 0.0, pause))
                found = await self._outbound.fetch(address, into, etag=etag, last_modified=last_modified)
            if not self.has(httpx.URL(found.address)):
                raise SourceError(f"it leads to another site: {found.address[:200]}")
            _obey(rules, found.address)
            return found

    async def _wait(self, pause: float) -> None:
        await asyncio.sleep(max(0.0, self._asked_at + pause - time.monotonic()))
        self._asked_at = time.monotonic()

    async def _rules(self) -> Protego:
        """Return what robots.txt says; a site without one allows everything. Raises OutboundError."""
        if self._robots is None:
            path = self._folder / "robots.txt"
            try:
                await self._outbound.fetch(
                    str(self.start.join("/robots.txt")), path, max_bytes=LONGEST_ROBOTS
                )
                said = await asyncio.to_thread(path.read_text, "utf-8", "replace")
            except StatusRefused as error:
                if error.status in BUSY or error.status >= 500:  # it may refuse everything: nobody can tell
                    raise
                said = ""
            self._robots = Protego.parse(said)
        return self._robots


def _obey(rules: Protego, address: str) -> None:
    if not rules.can_fetch(address, AGENT):
        raise SourceError("the site's robots.txt asks not to read it")
