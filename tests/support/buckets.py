"""A real S3 server for tests, in a thread of this process; other processes reach it, too."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import boto3
import httpx
from moto.server import ThreadedMotoServer

CREDENTIALS: Final = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test-secret",
    "AWS_EC2_METADATA_DISABLED": "true",
}
BUCKET: Final = "files"


@dataclass(frozen=True, slots=True)
class S3Server:
    """An endpoint with one empty bucket."""

    endpoint: str

    def url(self, prefix: str = "ours", bucket: str = BUCKET) -> str:
        """Return where files lie, for `STREAMLANE_FILES_URL`."""
        return f"s3://{bucket}/{prefix}?endpoint_url={self.endpoint}"

    def client(self) -> Any:
        """Return a client that knows no store of ours."""
        return boto3.client("s3", endpoint_url=self.endpoint, region_name="us-east-1")

    def names(self) -> list[str]:
        """Return the names of all objects."""
        listing = self.client().list_objects_v2(Bucket=BUCKET)
        return [one["Key"] for one in listing.get("Contents", ())]


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Serve a bucket while the block runs; the credentials of the environment have to be `CREDENTIALS`."""
    serving = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    serving.start()
    try:
        host, port = serving.get_host_and_port()
        server = S3Server(f"http://{host}:{port}")
        httpx.post(f"{server.endpoint}/moto-api/reset", timeout=10)
        server.client().create_bucket(Bucket=BUCKET)
        yield server
    finally:
        serving.stop()
