"""S3Store: what one bucket alone has."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from botocore.exceptions import ClientError
from consumers.knowledge.files.filing import files_of
from consumers.knowledge.files.s3 import PART_BYTES, Bucket, S3Store
from consumers.knowledge.files.store import FileMissing, FileStoreError, FileStoreFull
from pipeline import Settings
from pipeline.config import load
from pipeline.errors import ConfigurationError

from tests.support.buckets import BUCKET, CREDENTIALS, S3Server, s3_server


@pytest.fixture(autouse=True)
def credentials(monkeypatch):
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def server():
    with s3_server() as server:
        yield server


@pytest.fixture
async def store(server: S3Server) -> AsyncIterator[S3Store]:
    store = S3Store(Bucket.of(server.url()))
    yield store
    await store.close()


async def test_a_big_file_goes_and_comes_in_parts(store, tmp_path, server):
    source = tmp_path / "big"
    source.write_bytes(bytes(range(256)) * (2 * PART_BYTES // 256) + b"the end")
    await store.put("doc/big.bin", source)
    found = server.client().head_object(Bucket=BUCKET, Key="ours/doc/big.bin")
    assert found["ETag"].endswith('-3"')
    async with store.local("doc/big.bin") as path:
        assert path.read_bytes() == source.read_bytes()
        assert path.suffix == ".bin"
    assert not path.exists()


async def test_stores_of_two_prefixes_do_not_meet(store, server):
    other = S3Store(Bucket.of(server.url("others")))
    await store.put("doc/a", b"ours")
    await other.put("doc/a", b"theirs")
    assert await other.delete("doc") == 1
    assert await store.read("doc/a") == b"ours"
    await other.close()


async def test_many_files_are_deleted_page_by_page(store, monkeypatch):
    monkeypatch.setattr("consumers.knowledge.files.s3.AT_ONCE", 2)
    for number in range(5):
        await store.put(f"doc/{number}", b"x")
    assert await store.delete("doc") == 5


async def test_an_upload_that_nobody_finished_is_no_file_and_goes_after_a_day(store, server, monkeypatch):
    where = {"Bucket": BUCKET, "Key": "ours/doc/half"}
    begun = server.client().create_multipart_upload(**where)
    server.client().upload_part(**where, UploadId=begun["UploadId"], PartNumber=1, Body=b"x")
    assert not await store.exists("doc/half")
    with monkeypatch.context() as patched:  # the server says of every upload that it began in 2010
        patched.setattr("consumers.knowledge.files.s3.ABANDONED", timedelta(days=100_000))
        assert await store.tidy() == 0
    assert await store.tidy() == 1
    assert await store.tidy() == 0


async def test_what_goes_wrong_is_said_and_no_secret_is_told(server, monkeypatch):
    nowhere = S3Store(Bucket.of("s3://files?endpoint_url=http://127.0.0.1:9"))
    monkeypatch.setattr(nowhere._client.meta.config, "connect_timeout", 1)
    no_bucket = S3Store(Bucket.of(server.url(bucket="absent")))
    for store, said in ((nowhere, "cannot be reached"), (no_bucket, "NoSuchBucket")):
        with pytest.raises(FileStoreError, match=said) as failed:
            await store.put("doc/a", b"x")
        assert "test-secret" not in str(failed.value)
        assert not isinstance(failed.value, FileMissing)
        await store.close()


async def test_a_bucket_that_is_full_is_said_to_be(store, monkeypatch):
    def full(**_):
        raise ClientError({"Error": {"Code": "XMinioStorageFull", "Message": "full"}}, "PutObject")

    monkeypatch.setattr(store._client, "put_object", full)
    with pytest.raises(FileStoreFull, match="no room for doc/a"):
        await store.put("doc/a", b"x")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://bucket?endpoint=http://a.test", "'endpoint' is no option"),
        ("s3://key:secret@bucket/", "STREAMLANE_FILES_URL"),
        ("http://bucket/", "STREAMLANE_FILES_URL"),
        ("s3:///prefix", "STREAMLANE_FILES_URL"),
        ("s3://bucket?endpoint_url=nonsense", "files_url"),
    ],
)
def test_an_address_that_makes_no_sense_is_refused_without_being_repeated(url, said):
    with pytest.raises(ConfigurationError, match=said) as refused:
        files_of(load(files_url=url))
    assert "secret" not in str(refused.value)


def test_a_bucket_is_named_with_its_prefix_and_place():
    url = "s3://bucket/a/b/?endpoint_url=https://s3.example.com:9000&region=eu-west-1"
    assert Bucket.of(url) == Bucket("bucket", "a/b/", "https://s3.example.com:9000", "eu-west-1")
    assert Bucket.of("s3://bucket") == Bucket("bucket")
    settings: Settings = load(files_url=url)
    assert files_of(settings).where == "s3://bucket/a/b/ at https://s3.example.com:9000"
