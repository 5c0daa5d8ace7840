"""Kind s3: the objects of a bucket, of Amazon or of whatever speaks like it.

Only three questions are asked of it, so they are signed here (Signature Version 4) and asked through `consumers.outbound`,
as every address of a user's is: no SDK would keep to what that refuses.
"""

import hashlib
import hmac
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final
from urllib.parse import quote, unquote, urlencode
from xml.etree.ElementTree import Element

import httpx
from defusedxml import DefusedXmlException
from defusedxml.ElementTree import ParseError, parse
from pydantic import Field, SecretStr

from consumers.outbound import Outbound, StatusRefused, checked_address
from consumers.sources.connector import (
    PAGE,
    Config,
    Connector,
    Content,
    Item,
    Kind,
    Page,
    SourceError,
    Surroundings,
)
from consumers.sources.folder import Patterns
from pipeline import Settings

LONGEST_LIST: Final = 8 << 20
NO_CONTENT: Final = hashlib.sha256(b"").hexdigest()
_PLAIN: Final = "-._~"


class S3Config(Config):
    """Which objects: those of a bucket whose keys begin with `prefix`."""

    endpoint: Annotated[str, Field(min_length=1, max_length=2048)]
    bucket: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{1,254}$")]
    region: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,64}$")] = "us-east-1"
    prefix: Annotated[str, Field(max_length=1024)] = ""
    include: Patterns = ()
    exclude: Patterns = ()


class S3Credentials(Config):
    """A key that may list the bucket and read its objects; none for a bucket that is open to all."""

    access_key: SecretStr = SecretStr("")
    secret_key: SecretStr = SecretStr("")
    session_token: SecretStr = SecretStr("")


class Bucket:
    """One bucket."""

    def __init__(
        self, config: S3Config, credentials: S3Credentials, around: Surroundings, outbound: Outbound
    ) -> None:
        self._config, self._credentials, self._outbound = config, credentials, outbound
        self._place = config.endpoint.rstrip("/")
        self._answer, self._now = around.folder / "list.xml", around.now

    async def changes(self, cursor: str) -> AsyncIterator[Page]:
        """See `Connector`: keys are listed in the order of their bytes, so the last one seen is a cursor."""
        begins, more = not cursor, True
        while more:
            found = await self._list(cursor, PAGE)
            plain = _text(found, "EncodingType") != "url"
            objects = [one for one in found if _is(one, "Contents")]
            tags = {_key(one, plain=plain): _version(_text(one, "ETag")) for one in objects}
            items = [
                Item(key, PurePosixPath(key).name, tag) for key, tag in tags.items() if self._is_meant(key)
            ]
            more = _text(found, "IsTruncated") == "true" and bool(tags)
            cursor = list(tags)[-1] if more else ""
            yield Page(items, cursor, begins=begins, ends=not more)
            begins = False

    async def fetch(self, item: Item, into: Path, stamp: str) -> Content:
        """See `Connector`."""
        if {".", ".."} & set(item.id.split("/")):
            raise SourceError("its key leads elsewhere once it is an address: it has . or .. between slashes")
        address = f"{self._place}/{self._config.bucket}/{quote(item.id, safe='/' + _PLAIN)}"
        try:
            found = await self._outbound.fetch(address, into, etag=stamp, headers=self._signed(address, {}))
        except StatusRefused as error:
            raise _explained(error) from None
        return Content(stamp=found.etag, unchanged=found.unchanged, version=_version(found.etag))

    async def health(self) -> str:
        """See `Connector`."""
        await self._list("", 1)
        return f"the bucket {self._config.bucket} can be listed"

    async def _list(self, after: str, most: int) -> Element:
        query = {"encoding-type": "url", "list-type": "2", "max-keys": str(most)}
        query |= {"prefix": self._config.prefix} if self._config.prefix else {}
        query |= {"start-after": after} if after else {}
        address = f"{self._place}/{self._config.bucket}"
        headers = self._signed(address, query)
        try:
            asked = f"{address}?{_encoded(query)}"
            await self._outbound.fetch(asked, self._answer, headers=headers, max_bytes=LONGEST_LIST)
            root: Element | None = parse(self._answer).getroot()
        except StatusRefused as error:
            raise _explained(error) from None
        except (ParseError, DefusedXmlException) as error:
            raise SourceError(f"its list of objects cannot be read: {error}") from None
        if root is None or not _is(root, "ListBucketResult"):
            raise SourceError("it does not answer as S3 does: look at the endpoint")
        return root

    def _is_meant(self, key: str) -> bool:
        config = self._config
        wanted = not config.include or any(fnmatch(key, one) for one in config.include)
        return wanted and not key.endswith("/") and not any(fnmatch(key, one) for one in config.exclude)

    def _signed(self, address: str, query: Mapping[str, str]) -> dict[str, str]:
        """Return the headers that sign a GET."""
        secret = self._credentials
        if not secret.access_key.get_secret_value():
            return {}
        url, moment = httpx.URL(address), datetime.fromtimestamp(self._now() / 1000, UTC)
        day, stamp = f"{moment:%Y%m%d}", f"{moment:%Y%m%dT%H%M%SZ}"
        headers = {"host": url.netloc.decode(), "x-amz-content-sha256": NO_CONTENT, "x-amz-date": stamp}
        if token := secret.session_token.get_secret_value():
            headers["x-amz-security-token"] = token
        names = ";".join(sorted(headers))
        said = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
        request = f"GET\n{url.raw_path.decode()}\n{_encoded(query)}\n{said}\n{names}\n{NO_CONTENT}"
        scope = f"{day}/{self._config.region}/s3/aws4_request"
        digest = hashlib.sha256(request.encode()).hexdigest()
        key = f"AWS4{secret.secret_key.get_secret_value()}".encode()
        for part in (day, self._config.region, "s3", "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.new(
            key, f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}".encode(), "sha256"
        ).hexdigest()
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={secret.access_key.get_secret_value()}/{scope},"
            f" SignedHeaders={names}, Signature={signature}"
        )
        return headers


def _encoded(query: Mapping[str, str]) -> str:
    return urlencode(sorted(query.items()), quote_via=quote, safe=_PLAIN)


def _version(etag: str) -> str:
    return etag.strip('"')


def _is(element: Element, name: str) -> bool:
    return element.tag.rpartition("}")[2] == name


def _text(element: Element, name: str) -> str:
    return next((one.text or "" for one in element if _is(one, name)), "")


def _key(element: Element, *, plain: bool) -> str:
    text = _text(element, "Key")
    return text if plain else unquote(text.replace("+", " "))


def _explained(error: StatusRefused) -> Exception:
    match error.status:
        case 401 | 403:
            return SourceError(
                "the key is refused: look at access_key and secret_key, and at what they may do"
            )
        case 404:
            return SourceError("there is no such bucket or object (any more)")
        case 301 | 307:
            return SourceError("the bucket is in another region: look at region and endpoint")
        case _:
            return error


def _admit(config: S3Config, _: Settings) -> None:
    checked_address(config.endpoint)


@asynccontextmanager
async def _connect(config: S3Config, credentials: Any, around: Surroundings) -> AsyncIterator[Connector]:
    async with Outbound(around.settings) as outbound:
        yield Bucket(config, credentials, around, outbound)


S3: Final = Kind("s3", "the objects of a bucket", S3Config, _connect, S3Credentials, _admit)
