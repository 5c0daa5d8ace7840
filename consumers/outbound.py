"""The one way to call an address that a user gave: it reaches public hosts only, and ends, whatever the other side does.

The check is made where the connection is: a name is resolved once, every address that it has is looked at, and the
connection goes to one of those. A name that answers something else a moment later (DNS rebinding) therefore gains
nothing, and each hop of a redirect passes the same check. Networks of one's own are let in by
STREAMLANE_OUTBOUND_NETWORKS. httpx-secure was weighed: it knocks at a refused port before it refuses it, and takes
addresses of 6to4, of multicast and of old site-local networks for public ones.
"""

import asyncio
import mimetypes
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from email.utils import parsedate_to_datetime
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from pathlib import Path, PurePosixPath
from ssl import SSLContext
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import unquote

import httpcore
import httpx

from pipeline import Settings
from pipeline.errors import StreamlaneError

MAX_HOPS: Final = 5
MAX_ADDRESS: Final = 8192
CONNECT_S: Final = 10.0
SILENCE_S: Final = 30.0
"""How long the other side may send nothing."""
TOTAL_S: Final = 300.0
LONGEST_WAIT_S: Final = 86_400.0
AGENT: Final = "Streamlane/0.1 (+knowledge harvester)"
PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses that another try may not meet."""
_MOVED: Final = frozenset({301, 302, 303, 307, 308})
_NAT64: Final = IPv6Network("64:ff9b::/96")

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Gives the numeric addresses of a host. Raises OSError."""


class OutboundError(StreamlaneError):
    """An address could not be read; the message says why. `passing`: a later try may do better."""

    passing = False


class AddressRefused(OutboundError):  # noqa: N818 - a decision
    """The address, or one it leads to, is none that users may have called."""


class TooLarge(OutboundError):  # noqa: N818 - a decision
    """There is more than was asked to be taken; what was read of it is of no use."""


class TooSlow(OutboundError):  # noqa: N818 - a state of the world
    """The other side took too long: to be connected to, between two parts, or in all."""

    passing = True


class Unreachable(OutboundError):  # noqa: N818 - a state of the world
    """No connection, or one that broke."""

    passing = True


class StatusRefused(OutboundError):  # noqa: N818 - an answer
    """The other side answered with a `status` that is no success. `retry_after` is the wait it asks for, in seconds."""

    def __init__(self, message: str, status: int, retry_after: float | None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        self.passing = status in PASSING


@dataclass(frozen=True, slots=True)
class Fetched:
    """What was read. `address` is where it was found after all redirects; `size` counts bytes; an `unchanged` one was not
    sent again. `name` is a file name whose extension tells the type.
    """

    address: str
    unchanged: bool = False
    size: int = 0
    name: str = ""
    media_type: str = ""
    charset: str = ""
    etag: str = ""
    last_modified: str = ""


class Outbound:
    """A client for addresses of users, to be entered: `async with Outbound(settings) as outbound`."""

    def __init__(self, settings: Settings, *, resolve: Resolve | None = None) -> None:
        self._limit = settings.max_file_mb << 20
        guard = _Guard(settings.outbound_networks, resolve or _resolve)
        self.client = httpx.AsyncClient(
            transport=_Transport(guard),
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(SILENCE_S, connect=CONNECT_S),
            headers={"user-agent": AGENT, "accept-encoding": "identity"},
        )
        """For calls that are no fetch. It follows no redirects; whoever uses it bounds what it reads."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.client.aclose()

    async def fetch(
        self,
        address: str,
        into: Path,
        *,
        etag: str = "",
        last_modified: str = "",
        headers: Mapping[str, str] | None = None,
        max_bytes: int | None = None,
        total_s: float = TOTAL_S,
    ) -> Fetched:
        """Read an address into a file; with `etag` or `last_modified` only if it is another one by now.

        `headers` may be secret: another host, to which a redirect leads, does not get them. `max_bytes` is at most the
        limit of files, which is the default. Raises OutboundError; OSError when the file cannot be written.
        """
        known = {"if-none-match": etag, "if-modified-since": last_modified}
        asked = {name: value for name, value in known.items() if value}
        url, own = checked_address(address), dict(headers or {})
        limit = min(self._limit, max_bytes or self._limit)
        try:
            async with asyncio.timeout(total_s):
                for _ in range(MAX_HOPS + 1):
                    async with self.client.stream("GET", url, headers={**asked, **own}) as response:
                        if response.status_code not in _MOVED or "location" not in response.headers:
                            return await _take(response, into, limit)
                        there = checked_address(response.headers["location"], of=url)
                    if _origin(there) != _origin(url):
                        own = {}
                    url = there
        except (TimeoutError, httpx.TimeoutException):
            raise TooSlow(f"{_host(url)} took too long to answer") from None
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise Unreachable(
                f"{_host(url)} cannot be reached: {str(error) or type(error).__name__}"
            ) from error
        raise AddressRefused(f"{address[:200]} leads on more than {MAX_HOPS} times")


def checked_address(address: str, *, of: httpx.URL | None = None) -> httpx.URL:
    """Return an address that may be tried, relative to that `of` which it was found at. Raises AddressRefused."""
    try:
        url = httpx.URL(address) if of is None else of.join(address)
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        raise AddressRefused(f"{address[:200]!r} is no address: {error}") from None
    if len(str(url)) > MAX_ADDRESS:
        raise AddressRefused(f"an address may have {MAX_ADDRESS} characters")
    if url.scheme not in {"http", "https"} or not url.host:
        raise AddressRefused(f"{address[:200]!r} is no address of the web: write https://host/path")
    if url.userinfo:
        raise AddressRefused("an address with a name and password in it would show them: leave them out")
    return url


def public(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is one of the public network. What it leads to in another notation counts."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = IPv4Address(address.packed[-4:])
        if inner is not None:
            return public(inner)
        if address.is_site_local:
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved


class _Guard(httpcore.AsyncNetworkBackend):
    """Connects to what was checked, and to nothing else."""

    def __init__(self, networks: Sequence[IPv4Network | IPv6Network], resolve: Resolve) -> None:
        self._networks = networks
        self._resolve = resolve
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """See httpcore. Raises AddressRefused."""
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._resolve(host, port)
        except TimeoutError:
            raise httpcore.ConnectTimeout(f"{host} was not resolved in time") from None
        except (OSError, UnicodeError):
            raise httpcore.ConnectError("no such host") from None
        for address in addresses:
            self._check(host, address)
        failed: Exception = httpcore.ConnectError("no such host")
        for address in addresses:
            try:
                return await self._inner.connect_tcp(
                    address, port, timeout, local_address, socket_options=socket_options
                )
            except httpcore.ConnectError as error:
                failed = error
        raise failed

    async def sleep(self, seconds: float) -> None:
        """See httpcore."""
        await self._inner.sleep(seconds)

    def _check(self, host: str, address: str) -> None:
        found = ip_address(address.partition("%")[0])
        if not public(found) and not any(found in network for network in self._networks):
            raise AddressRefused(
                f"{host} lies in a network that users may not have called"
                " (STREAMLANE_OUTBOUND_NETWORKS names those of one's own that they may)"
            )


class _Transport(httpx.AsyncHTTPTransport):
    """httpx's own, on connections that are checked."""

    def __init__(self, guard: _Guard) -> None:
        super().__init__(verify=_trusted())
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=_trusted(),
            max_connections=20,
            max_keepalive_connections=10,
            keepalive_expiry=5.0,
            network_backend=guard,
        )


@cache
def _trusted() -> SSLContext:
    """Build the certificates that are trusted, or those that SSL_CERT_FILE names; it takes a while, so once."""
    return httpx.create_ssl_context()


async def resolve_checked(settings: Settings, host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host, for a program that has to connect by itself. Raises AddressRefused, Unreachable."""
    guard = _Guard(settings.outbound_networks, _resolve)
    try:
        async with asyncio.timeout(CONNECT_S):
            addresses = await _resolve(host, port)
    except (OSError, UnicodeError):
        raise Unreachable(f"{host} cannot be reached: no such host") from None
    for address in addresses:
        guard._check(host, address)  # noqa: SLF001 - the same decision
    return addresses


async def _resolve(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(where[0]) for *_, where in found))


async def _take(response: httpx.Response, into: Path, limit: int) -> Fetched:
    """Write what an answer brings into a file. Raises StatusRefused, TooLarge."""
    status, headers = response.status_code, response.headers
    stamps = {"etag": headers.get("etag", ""), "last_modified": headers.get("last-modified", "")}
    if status == httpx.codes.NOT_MODIFIED:
        return Fetched(str(response.url), unchanged=True, **stamps)
    if not 200 <= status < 300:
        wait = _wait(headers.get("retry-after", ""), headers.get("date", ""))
        raise StatusRefused(f"{_host(response.url)} answered with status {status}", status, wait)
    too_large = TooLarge(f"it has more than the {limit >> 20} MB that are taken")
    with suppress(ValueError):
        if int(headers.get("content-length", "0")) > limit:
            raise too_large
    size = 0
    with await asyncio.to_thread(into.open, "wb") as file:
        async for part in response.aiter_bytes(65_536):
            size += len(part)
            if size > limit:
                raise too_large
            file.write(part)
    said = Message()
    said["content-type"] = headers.get("content-type", "application/octet-stream")
    return Fetched(
        str(response.url),
        size=size,
        name=_name(response),
        media_type=said.get_content_type(),
        charset=said.get_content_charset() or "",
        **stamps,
    )


def _name(response: httpx.Response) -> str:
    said = Message()
    said["content-disposition"] = response.headers.get("content-disposition", "")
    said["content-type"] = response.headers.get("content-type", "application/octet-stream")
    path = PurePosixPath(unquote(response.url.path))
    name = PurePosixPath(said.get_filename() or path.name or response.url.host).name
    suffix = mimetypes.guess_extension(said.get_content_type(), strict=False) or ""
    known = mimetypes.guess_type(name, strict=False)[0]
    if said.get_content_type() in {"text/html", "application/xhtml+xml"} and known != "text/html":
        return f"{name[:150]}.html"
    return name[-150:] if known else f"{name[:150]}{'' if suffix == '.bin' else suffix}"


def _wait(said: str, now: str) -> float | None:
    """Return the wait that `Retry-After` asks for, in seconds: it is a number, or a date by the clock that says `now`."""
    if said.isascii() and said.isdigit():
        return min(float(said), LONGEST_WAIT_S)
    with suppress(ValueError, TypeError):
        left = parsedate_to_datetime(said) - parsedate_to_datetime(now)
        return min(max(left.total_seconds(), 0.0), LONGEST_WAIT_S)
    return None


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _host(url: httpx.URL) -> str:
    return url.host[:200]
