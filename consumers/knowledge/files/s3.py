"""A `FileStore` in a bucket that speaks S3, for processes that share no folder.

An object appears whole or not at all, also one of many parts, so nothing more is needed for that promise. Credentials are
those of the environment (the usual variables of AWS, or a profile).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final, Self, TypeVar
from urllib.parse import parse_qs, urlsplit

import boto3
from boto3.exceptions import S3UploadFailedError
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from consumers.knowledge.files.store import (
    FileMissing,
    FileStoreAway,
    FileStoreError,
    FileStoreFull,
    checked_key,
)
from consumers.scratch import scratch
from pipeline.errors import ConfigurationError

PART_BYTES: Final = 16 << 20
AT_ONCE: Final = 1_000
"""Objects that one request deletes."""
ABANDONED: Final = timedelta(days=1)
"""Age of an upload that nobody will finish."""
_ABSENT: Final = {"404", "NoSuchKey", "NotFound"}
_FULL: Final = {"507", "XMinioStorageFull", "QuotaExceeded", "EntityTooLarge", "InsufficientStorage"}
_OPTIONS: Final = ("endpoint_url", "region")
_TRANSFER: Final = TransferConfig(
    multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES, use_threads=False
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bucket:
    """Where the objects lie. `prefix` ends with a slash unless it is empty; without `endpoint` it is AWS."""

    name: str
    prefix: str = ""
    endpoint: str | None = None
    region: str | None = None

    @classmethod
    def of(cls, url: str) -> Self:
        """Read s3://bucket/prefix?endpoint_url=…&region=…. Raises ConfigurationError."""
        parts = urlsplit(url)
        said = parse_qs(parts.query, keep_blank_values=True)
        if unknown := sorted(said.keys() - set(_OPTIONS)):
            raise ConfigurationError(
                f"files_url: {unknown[0][:50]!r} is no option; there are {', '.join(_OPTIONS)}"
            )
        if parts.scheme != "s3" or not parts.hostname or parts.username:
            raise ConfigurationError(
                "files_url: write s3://bucket/prefix?endpoint_url=https://host; credentials are those of AWS_ACCESS_KEY_ID"
                " and AWS_SECRET_ACCESS_KEY"
            )
        prefix = parts.path.strip("/")
        return cls(
            name=parts.hostname,
            prefix=f"{prefix}/" if prefix else "",
            endpoint=said.get("endpoint_url", [None])[0],
            region=said.get("region", [None])[0],
        )


class S3Store:
    """A `FileStore` below a prefix of one bucket."""

    def __init__(self, bucket: Bucket) -> None:
        """Connects to nothing yet. Raises ConfigurationError."""
        self.bucket = bucket
        self.where = f"s3://{bucket.name}/{bucket.prefix}" + (
            f" at {bucket.endpoint}" if bucket.endpoint else ""
        )
        settings = Config(
            connect_timeout=5,
            read_timeout=60,
            retries={"total_max_attempts": 4, "mode": "standard"},
            max_pool_connections=16,
            signature_version="s3v4",
        )
        try:
            self._client: Any = boto3.client(
                "s3",
                endpoint_url=bucket.endpoint,
                region_name=bucket.region or (None if bucket.endpoint is None else "us-east-1"),
                config=settings,
            )
        except (BotoCoreError, ValueError) as error:
            raise ConfigurationError(f"files_url: {error}") from None

    async def put(self, key: str, data: bytes | Path) -> None:
        """See `FileStore`."""
        name = self._name(key)

        def put() -> None:
            if isinstance(data, Path):
                with data.open("rb") as file:
                    self._client.upload_fileobj(file, self.bucket.name, name, Config=_TRANSFER)
            else:
                self._client.put_object(Bucket=self.bucket.name, Key=name, Body=data)

        await self._call(key, put)

    async def read(self, key: str) -> bytes:
        """See `FileStore`."""
        name = self._name(key)

        def read() -> bytes:
            with self._client.get_object(Bucket=self.bucket.name, Key=name)["Body"] as body:
                return bytes(body.read())

        return await self._call(key, read)

    @asynccontextmanager
    async def local(self, key: str) -> AsyncIterator[Path]:
        """See `FileStore`. This is a copy, which goes with the block."""
        name = self._name(key)
        with scratch() as folder:
            path = folder / name.rpartition("/")[2]
            await self._call(
                key, lambda: self._client.download_file(self.bucket.name, name, str(path), Config=_TRANSFER)
            )
            yield path

    async def exists(self, key: str) -> bool:
        """See `FileStore`."""
        name = self._name(key)
        try:
            await self._call(key, lambda: self._client.head_object(Bucket=self.bucket.name, Key=name))
        except FileMissing:
            return False
        return True

    async def delete(self, prefix: str) -> int:
        """See `FileStore`."""
        name = self._name(prefix)

        def delete() -> int:
            removed = 0
            for names in self._listed(name):
                going = {"Objects": [{"Key": one} for one in names], "Quiet": True}
                answer = self._client.delete_objects(Bucket=self.bucket.name, Delete=going)
                if failed := answer.get("Errors"):
                    raise FileStoreAway(f"{prefix} cannot be deleted: {failed[0].get('Message', '')}")
                removed += len(names)
            return removed

        return await self._call(prefix, delete)

    async def tidy(self) -> int:
        """See `FileStore`."""

        def tidy() -> int:
            removed = 0
            uploads = self._client.get_paginator("list_multipart_uploads")
            for page in uploads.paginate(Bucket=self.bucket.name, Prefix=self.bucket.prefix):
                now = parsedate_to_datetime(
                    page["ResponseMetadata"]["HTTPHeaders"]["date"]
                )  # the bucket's clock
                for one in page.get("Uploads", ()):
                    if now - one["Initiated"] > ABANDONED:
                        where = {"Key": one["Key"], "UploadId": one["UploadId"]}
                        self._client.abort_multipart_upload(Bucket=self.bucket.name, **where)
                        removed += 1
            return removed

        return await self._call("unfinished uploads", tidy)

    async def close(self) -> None:
        """See `FileStore`."""
        await asyncio.to_thread(self._client.close)

    def _name(self, key: str) -> str:
        return self.bucket.prefix + checked_key(key)

    def _listed(self, name: str) -> Iterator[list[str]]:
        """An object, if it is there, and all below it."""
        listing = self._client.list_objects_v2(Bucket=self.bucket.name, Prefix=name, MaxKeys=1)
        if [one["Key"] for one in listing.get("Contents", ())] == [name]:  # the first that begins so
            yield [name]
        below = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket.name, Prefix=f"{name}/", PaginationConfig={"PageSize": AT_ONCE}
        )
        for page in below:
            if found := [one["Key"] for one in page.get("Contents", ())]:
                yield found

    async def _call(self, what: str, call: Callable[[], T]) -> T:
        """boto3 waits in a thread of its own: it knows no event loop."""
        with _store_errors(what, self.where):
            return await asyncio.to_thread(call)


@contextmanager
def _store_errors(what: str, where: str) -> Iterator[None]:
    try:
        yield
    except S3UploadFailedError as error:
        cause = error.__context__
        raise _understood(cause if isinstance(cause, ClientError) else error, what, where) from error
    except (ClientError, BotoCoreError) as error:
        raise _understood(error, what, where) from error


def _understood(error: Exception, what: str, where: str) -> FileStoreError:
    if isinstance(error, ClientError):
        said = error.response.get("Error", {})
        code, message = str(said.get("Code", "")), said.get("Message", "")
        if code in _ABSENT:
            return FileMissing(f"there is no file {what}")
        if code in _FULL:
            return FileStoreFull(f"no room for {what} in {where}: free some, then repeat")
        return FileStoreAway(f"{what} cannot be stored or read in {where}: {code} {message}".rstrip())
    if isinstance(error, NoCredentialsError):
        return FileStoreAway(f"{where} asks for credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    return FileStoreAway(f"{where} cannot be reached: {error}")
