"""Both stores: files are there completely or not at all, and never outside."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from consumers.knowledge.files.s3 import Bucket, S3Store
from consumers.knowledge.files.store import (
    FileMissing,
    FileStore,
    FileStoreError,
    FolderStore,
    KeyRefused,
    checked_key,
    file_key,
)
from pipeline.errors import is_outage

from tests.support.buckets import CREDENTIALS, S3Server, s3_server


@pytest.fixture
def s3(monkeypatch) -> Iterator[S3Server]:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with s3_server() as server:
        yield server


@pytest.fixture(params=["folder", "s3"])
async def store(request, tmp_path: Path) -> AsyncIterator[FileStore]:
    if request.param == "folder":
        yield FolderStore(tmp_path / "files")
        return
    bucket = S3Store(Bucket.of(request.getfixturevalue("s3").url()))
    yield bucket
    await bucket.close()


@pytest.fixture
def files(request, store, tmp_path) -> Callable[[], list[str]]:
    """All that lies in the store, by its key."""
    if isinstance(store, FolderStore):
        return lambda: files_in(tmp_path / "files")
    server = request.getfixturevalue("s3")
    return lambda: [key.removeprefix("ours/") for key in server.names()]


def files_in(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


async def test_bytes_come_back_under_their_key(store):
    await store.put("doc/a.bin", b"\x00\xff" * 10)
    assert await store.read("doc/a.bin") == b"\x00\xff" * 10
    assert await store.exists("doc/a.bin")


async def test_a_local_file_is_copied_and_may_vanish_afterwards(store, tmp_path):
    source = tmp_path / "source.txt"
    source.write_bytes(b"words" * 500_000)
    await store.put("doc/copy", source)
    source.unlink()
    async with store.local("doc/copy") as path:
        assert path.read_bytes() == b"words" * 500_000


async def test_putting_again_replaces(store):
    await store.put("doc/a", b"old and longer")
    await store.put("doc/a", b"new")
    assert await store.read("doc/a") == b"new"


async def test_what_is_not_there_is_named(store):
    with pytest.raises(FileMissing, match="doc/absent"):
        await store.read("doc/absent")
    with pytest.raises(FileMissing, match="doc/absent"):
        async with store.local("doc/absent"):
            pass
    assert not await store.exists("doc/absent")


async def test_a_prefix_is_no_file(store):
    await store.put("doc/a", b"1")
    assert not await store.exists("doc")
    with pytest.raises(FileMissing):
        await store.read("doc")
    with pytest.raises(FileMissing):
        await store.read("doc/a/below")


async def test_delete_takes_everything_below_and_nothing_beside(store, files):
    for key in ("doc/a", "doc/pages/1", "doc/pages/2", "doc2/a", "single"):
        await store.put(key, b"x")
    assert await store.delete("doc") == 3
    assert await store.delete("doc") == 0
    assert await store.delete("single") == 1
    assert files() == ["doc2/a"]


async def test_deleting_one_file_leaves_its_siblings(store):
    await store.put("doc/a", b"1")
    await store.put("doc/b", b"2")
    assert await store.delete("doc/a") == 1
    assert await store.read("doc/b") == b"2"


@pytest.mark.parametrize(
    "key",
    [
        "",
        "..",
        ".",
        "../outside",
        "doc/../../outside",
        "/etc/passwd",
        "doc//a",
        "doc/",
        "doc/.hidden",
        ".incoming/a",
        "doc\\a",
        "doc/a\n",
        "doc/a\x00b",
        "до/к",
        "x" * 201,
        "/".join("abcdefghi"),
    ],
)
async def test_a_key_cannot_lead_outside(store, key):
    for use in (store.put(key, b"x"), store.read(key), store.exists(key), store.delete(key)):
        with pytest.raises(KeyRefused, match="not a file key"):
            await use
    with pytest.raises(KeyRefused):
        async with store.local(key):
            pass


def test_the_same_bytes_of_an_owner_have_the_same_key(tmp_path):
    source = tmp_path / "x"
    source.write_bytes(b"hello")
    key = file_key("doc1", b"hello", "Отчёт за май.PDF")
    assert key == file_key("doc1", source, "other.pdf")
    assert key.startswith("doc1/2cf24dba5fb0a30e")
    assert key.endswith(".pdf")
    assert file_key("doc2", b"hello", "a.pdf") != key
    assert file_key("doc1", b"hello!", "a.pdf") != key


@pytest.mark.parametrize("name", ["", "noext", "a.", "a.<>", "a.tar gz", "x." + "y" * 50, "../../etc.p/sswd"])
def test_a_strange_name_gives_no_strange_key(name):
    assert checked_key(file_key("doc", b"1", name)).count(".") == 0


async def test_writers_of_one_key_leave_one_whole_file(store, files):
    bodies = [bytes([n]) * 300_000 for n in range(8)]
    await asyncio.gather(*(store.put("doc/a", body) for body in bodies))
    assert await store.read("doc/a") in bodies
    assert files() == ["doc/a"]


async def test_a_source_that_cannot_be_read_is_not_blamed_on_the_store(store, files, tmp_path):
    with pytest.raises(FileNotFoundError):
        await store.put("doc/a", tmp_path / "vanished")
    with pytest.raises(IsADirectoryError):
        await store.put("doc/a", tmp_path)
    assert files() == []


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path):
    script = f"""
import asyncio, resource
from pathlib import Path
from consumers.knowledge.files.store import FileStoreFull, FolderStore
store = FolderStore(Path({str(tmp_path / "files")!r}))
asyncio.run(store.put("doc/small", b"x" * 1000))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    asyncio.run(store.put("doc/small", b"y" * 200_000))
except FileStoreFull as error:
    print("full:", error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith("full: no room for doc/small: free space")
    assert files_in(tmp_path / "files") == ["doc/small"]
    assert (tmp_path / "files/doc/small").read_bytes() == b"x" * 1000


def test_a_writer_that_is_killed_leaves_no_file_and_its_rest_is_swept(tmp_path):
    root = tmp_path / "files"
    script = f"""
import asyncio, os, sys
from pathlib import Path
from consumers.knowledge.files.store import FolderStore
store = FolderStore(Path({str(root)!r}))
os.fsync = lambda _: os.kill(os.getpid(), 9)
asyncio.run(store.put("doc/a", b"x" * 1000))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=False)
    assert done.returncode == -9
    [rest] = files_in(root)
    assert rest.startswith(".incoming/")
    FolderStore(root)
    assert files_in(root) == [rest], "a young file may belong to a living writer"
    os.utime(root / rest, (1, 1))
    FolderStore(root)
    assert files_in(root) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(FileStoreError, match="taken"):
        FolderStore(tmp_path / "taken")


async def test_a_folder_that_is_not_there_is_a_store_that_is_away_and_not_one_without_files(tmp_path):
    store, root = FolderStore(tmp_path / "files"), tmp_path / "files"
    await store.put("doc/a", b"a")
    root.rename(tmp_path / "gone")
    for ask in (
        lambda: store.read("doc/a"),
        lambda: store.exists("doc/a"),
        lambda: store.delete("doc"),
        lambda: store.put("doc/b", b"b"),
    ):
        with pytest.raises(FileStoreError, match="is not there: mount it") as failed:
            await ask()
        assert is_outage(failed.value)
    assert not root.exists()
    (tmp_path / "gone").rename(root)
    assert await store.read("doc/a") == b"a"
