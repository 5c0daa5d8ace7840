"""Kind git: the files of a repository as a branch has them, over https, http or from a folder.

It is the program `git` that speaks with the repository, for a process of its own can be limited and killed, and fetches no
more than one commit. It is told the checked address of the host (which takes git 2.37), follows no redirects, and runs nothing of the repository.
"""

import asyncio
import base64
import json
import os
import re
import shutil
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final

from pydantic import Field, SecretStr

from consumers.knowledge.documents.ingesting import printable
from consumers.outbound import checked_address, resolve_checked
from consumers.sources.connector import (
    Config,
    Connector,
    Content,
    Item,
    Kind,
    Page,
    SourceError,
    Surroundings,
    listing,
)
from consumers.sources.folder import Patterns, admitted_folder, allowed_folder
from pipeline import Settings

FILE: Final = "file://"
LIMIT_S: Final = 900.0
LOOK_S: Final = 0.5
OLDEST: Final = (2, 37)
"""The first version that knows http.curloptResolve; older ones pass over it and look the host up by themselves."""
_FILES: Final = ("100644", "100755")


class GitConfig(Config):
    """Which files: those of a `branch` (by itself the one that the repository shows first), below the folder `under`."""

    url: Annotated[str, Field(min_length=1, max_length=4096)]
    branch: Annotated[str, Field(pattern=r"^([A-Za-z0-9_][A-Za-z0-9._/-]{0,254})?$")] = ""
    under: Annotated[str, Field(max_length=1024)] = ""
    include: Patterns = ()
    exclude: Patterns = ()
    max_mb: Annotated[int, Field(ge=1, le=100_000, description="most that the repository may bring")] = 2048


class GitCredentials(Config):
    """A name and a token, or password, for https."""

    username: SecretStr = SecretStr("")
    token: SecretStr = SecretStr("")


class Repository:
    """One repository, fetched when it is first looked into."""

    def __init__(self, config: GitConfig, credentials: GitCredentials, around: Surroundings) -> None:
        self._config, self._credentials, self._around = config, credentials, around
        self._bare = around.folder / "repository"
        self._fetching = asyncio.Lock()
        self._limit = around.settings.max_file_mb << 20

    async def changes(self, cursor: str) -> AsyncIterator[Page]:
        """See `Connector`. The cursor has the commit that was listed, and the path behind which the listing goes on."""
        was: Mapping[str, str] = json.loads(cursor) if cursor else {}
        after, head = was.get("after", ""), await self._head()
        if was.get("commit") == head and not after:
            return
        commit = was["commit"] if after else head  # what moved meanwhile is listed by the next run
        await self._fetched()
        for page in listing(await self._items(), after):
            said = {"commit": commit} | ({"after": page.cursor} if page.cursor else {})
            yield replace(page, cursor=json.dumps(said))

    async def fetch(self, item: Item, into: Path, stamp: str) -> Content:  # noqa: ARG002 - what is here is not fetched again
        """See `Connector`."""
        await self._fetched()
        name = f"FETCH_HEAD:{item.id}"
        size = int(await self._git("cat-file", "-s", name) or 0)
        if size > self._limit:
            raise SourceError(f"it has {size >> 20} MB, the limit is {self._limit >> 20}")
        await self._git("cat-file", "blob", name, into=into)
        return Content()

    async def health(self) -> str:
        """See `Connector`."""
        return f"its head is {(await self._head())[:12]}"

    async def _head(self) -> str:
        ref = f"refs/heads/{self._config.branch}" if self._config.branch else "HEAD"
        said = await self._git("ls-remote", "--", await self._address(), ref, remote=True)
        if not said:
            raise SourceError(f"it has no branch {self._config.branch or '(it is empty)'}")
        return said.split()[0]

    async def _fetched(self) -> None:
        async with self._fetching:
            if self._bare.is_dir():
                return
            coming = self._bare.with_suffix(".coming")
            shutil.rmtree(coming, ignore_errors=True)
            await self._git("init", "--quiet", "--bare", str(coming), inside=False)
            ref = f"refs/heads/{self._config.branch}" if self._config.branch else "HEAD"
            address = await self._address()
            fetch = (
                "-C",
                str(coming),
                "fetch",
                "--quiet",
                "--depth=1",
                "--no-tags",
                "--no-recurse-submodules",
            )
            await self._git(*fetch, "--", address, ref, remote=True, grows=coming)
            coming.rename(self._bare)

    async def _items(self) -> list[Item]:
        listed = self._around.folder / "tree"
        where = ("--", self._config.under) if self._config.under else ()
        await self._git("ls-tree", "-r", "-z", "FETCH_HEAD", *where, into=listed)
        return await asyncio.to_thread(self._read, listed)

    def _read(self, listed: Path) -> list[Item]:
        items, config = [], self._config
        for entry in listed.read_bytes().decode("utf-8", "surrogateescape").split("\0"):
            about, _, path = entry.partition("\t")
            if not about.startswith(_FILES):  # a link, or another repository
                continue
            wanted = not config.include or any(fnmatch(path, one) for one in config.include)
            if wanted and not any(fnmatch(path, one) for one in config.exclude):
                name = printable(PurePosixPath(path).name)
                items.append(Item(printable(path), name, about.split()[2]))
        return sorted(items, key=lambda item: item.id)

    async def _address(self) -> str:
        url = self._config.url
        if url.startswith(FILE):
            return FILE + str(await asyncio.to_thread(_folder, url, self._around.settings))
        return str(checked_address(url))

    async def _options(self, *, remote: bool) -> dict[str, str]:
        """Return what git is told through its environment, where nobody sees it."""
        said = {
            "core.hooksPath": os.devnull,
            "credential.helper": "",
            "gc.auto": "0",
            "http.followRedirects": "false",
            "http.proxy": "",
            "http.lowSpeedLimit": "1",
            "http.lowSpeedTime": "60",
            "safe.directory": "*",
        }
        if remote and not self._config.url.startswith(FILE):
            await self._refuse_old()
            url = checked_address(self._config.url)
            port = url.port or (443 if url.scheme == "https" else 80)
            found = [
                f"[{one}]" if ":" in one else one
                for one in await resolve_checked(self._around.settings, url.host, port)
            ]
            said["http.curloptResolve"] = f"{url.host}:{port}:{','.join(found)}"
            user, token = (
                one.get_secret_value() for one in (self._credentials.username, self._credentials.token)
            )
            if token:
                secret = base64.b64encode(f"{user or 'git'}:{token}".encode()).decode()
                said["http.extraHeader"] = f"Authorization: Basic {secret}"
        return said

    async def _refuse_old(self) -> None:
        said = (await self._git("version", inside=False)).split()
        found = said[2] if len(said) > 2 else "of no version"
        if tuple(int(part) for part in re.findall(r"\d+", found)[:2]) < OLDEST:
            raise SourceError(
                f"git {found} on the machine of this worker is too old: 2.37 is the first that keeps to a checked address"
            )

    async def _git(
        self,
        *arguments: str,
        into: Path | None = None,
        remote: bool = False,
        inside: bool = True,
        grows: Path | None = None,
    ) -> str:
        """Run git; return what it says, or write that to a file. Raises SourceError."""
        options = await self._options(remote=remote)
        env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self._around.folder),
            "LC_ALL": "C",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ALLOW_PROTOCOL": "file" if self._config.url.startswith(FILE) else "http:https",
            "GIT_CONFIG_COUNT": str(len(options)),
        }
        for at, (key, value) in enumerate(options.items()):
            env |= {f"GIT_CONFIG_KEY_{at}": key, f"GIT_CONFIG_VALUE_{at}": value}
        where = ("-C", str(self._bare)) if inside and not remote else ()
        with await asyncio.to_thread(
            (into or self._around.folder / f"said-{id(arguments)}").open, "w+b"
        ) as out:
            try:
                process = await asyncio.create_subprocess_exec(
                    *("git", *where, *arguments),
                    env=env,
                    cwd=self._around.folder,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=out,
                    stderr=asyncio.subprocess.PIPE,
                    start_new_session=True,
                )
            except FileNotFoundError:
                raise SourceError(
                    "the program git is not on the machine of this worker: install it"
                ) from None
            try:
                complaint = await self._ended(process, grows)
            finally:
                if process.returncode is None:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    await process.wait()
            if process.returncode:
                raise SourceError(f"git cannot read it: {_last_line(complaint)}")
            if into is not None:
                return ""
            out.seek(0)
            return out.read(1 << 20).decode("utf-8", "replace").strip()

    async def _ended(self, process: asyncio.subprocess.Process, grows: Path | None) -> bytes:
        """Wait for a git to end, and for no longer than it may take, in time and in space. Raises SourceError."""
        reading = asyncio.create_task(_read_all(process))
        try:
            async with asyncio.timeout(LIMIT_S):
                while not reading.done():
                    await asyncio.wait([reading], timeout=LOOK_S)
                    if grows and await asyncio.to_thread(_size, grows) > self._config.max_mb << 20:
                        raise SourceError(f"it brings more than the {self._config.max_mb} MB of max_mb")
            return reading.result()
        except TimeoutError:
            raise SourceError(f"git did not end within {LIMIT_S:g} s") from None
        finally:
            reading.cancel()


async def _read_all(process: asyncio.subprocess.Process) -> bytes:
    complaint = b""
    while process.stderr and (part := await process.stderr.read(65_536)):
        complaint = (complaint + part)[-65_536:]
    await process.wait()
    return complaint


def _size(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += Path(place, name).stat().st_size
    return total


def _last_line(complaint: bytes) -> str:
    said = [line for line in complaint.decode("utf-8", "replace").splitlines() if line.strip()]
    return said[-1][:500] if said else "it does not say why"


def _folder(url: str, settings: Settings) -> Path:
    return allowed_folder(settings, url.removeprefix(FILE))


def _admit(config: GitConfig, settings: Settings) -> None:
    if config.url.startswith(FILE):
        admitted_folder(settings, config.url.removeprefix(FILE))
    else:
        checked_address(config.url)


@asynccontextmanager
async def _connect(config: GitConfig, credentials: Any, around: Surroundings) -> AsyncIterator[Connector]:
    yield Repository(config, credentials, around)


GIT: Final = Kind("git", "the files of a repository", GitConfig, _connect, GitCredentials, _admit)
