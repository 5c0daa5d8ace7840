"""Who may talk to Redis, and which Redis is believed: logins, rights, certificates."""

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from contracts.fences import EVERYTHING
from contracts.jobs import Scope
from contracts.states import JobState
from pipeline.backends.redis.broker import RedisBroker
from pipeline.broker import Broker, ReclaimPolicy, Retention
from pipeline.config import load
from pipeline.errors import ConfigurationError, StoreUnavailable
from pipeline.records import Progress, WorkerBeat
from structlog.testing import capture_logs

from tests.support.hand import QUEUE, Hand, new, news, state
from tests.support.redis_server import PROGRAM, RedisServer, free_port
from tests.support.redis_topologies import Cluster, Sentinel
from tests.support.waiting import wait_until

DOCS = Path(__file__).parents[2] / "docs" / "redis.md"
TENANT = Scope("tenant", "7")
ANYBODY = "default on nopass ~* &* +@all"


def documented_rights() -> str:
    """The rights that docs/redis.md asks for."""
    (line,) = (line for line in DOCS.read_text().splitlines() if line.startswith("ACL SETUSER streamlane"))
    return line.removeprefix("ACL SETUSER streamlane").replace(">password", ">secret")


@asynccontextmanager
async def opened(url: str, **settings: Any) -> AsyncIterator[RedisBroker]:
    store = await RedisBroker.open(load(redis_url=url, **settings))
    try:
        yield store
    finally:
        await store.close()


async def use_everything(store: Broker) -> None:
    """Call every method of the port; what they do is tested elsewhere."""
    hand, heard = Hand(store), asyncio.Event()
    unlisten = store.on_signal(heard.set)
    await store.enqueue([*news(4, scopes=(TENANT,)), new(delay_ms=1), new(delay_ms=60_000)])
    first, second = await hand.take(2)
    assert await hand.renewing([first]) == ["held"]
    assert len(await store.held(hand.name, [QUEUE])) == 2
    assert await store.report(first, Progress(1, 2, "half"))
    assert await hand.settle(first) is JobState.COMPLETED
    assert await store.release([second]) == 1
    await store.promote()
    await store.reclaim(ReclaimPolicy())
    await store.heartbeat(WorkerBeat("w", "host", 1, 1, "running", ()), 5000)
    assert len(await store.workers()) == 1
    await store.prune(Retention())
    assert await store.wait_for_work(["default"], 1)
    assert not await store.wait_for_work(["wiki"], 0.05)
    assert await store.lock("page", "me", 1000)
    assert await store.unlock("page", "me")
    await store.pause("low")
    await asyncio.wait_for(heard.wait(), 5)
    assert await store.remember("place", "here") == "here"
    assert len(await store.queue_stats()) > 5
    assert await store.has_queued(TENANT)
    assert await store.queued_ids("tenant") == {"7"}
    assert (await store.tasks("default", JobState.PENDING, cursor=None, limit=9)).records
    assert await store.job(second.job_id)
    await store.cancel([second.job_id])
    await store.cancel_scope(TENANT, EVERYTHING)
    await store.delete(second.job_id)
    await store.purge("default")
    assert await store.dead_letters(["default"], 5) == []
    await store.forget("w")
    assert await state(store, second.job_id) is JobState.CANCELLED
    unlisten()


@pytest.fixture
def guarded() -> Iterator[RedisServer]:
    """A server whose only useful user has the rights of the docs; another may only read and write."""
    users = (
        f"streamlane {documented_rights()}",
        "weak on >secret ~sl:* +@read +@write +@connection +info",
        "elsewhere on >secret ~other:* &* +@all",
        ANYBODY,
    )
    server = RedisServer(users=users)
    try:
        yield server.start()
    finally:
        server.close()


def login(server: RedisServer, user: str, password: str = "secret") -> str:
    return f"redis://{user}:{password}@{server.host}:{server.port}/0"


def login_of(topology: Cluster | Sentinel) -> str:
    return topology.url.replace("//", "//streamlane:secret@")


async def test_the_rights_in_the_docs_are_enough(guarded: RedisServer) -> None:
    with capture_logs() as said:
        async with opened(login(guarded, "streamlane"), redis_wait_replicas=0) as store:
            await use_everything(store)
    assert said == []
    async with opened(login(guarded, "streamlane"), redis_wait_replicas=1) as store:
        with pytest.raises(StoreUnavailable, match="0 of 1 replicas"):
            await store.enqueue([new()])


@pytest.mark.parametrize("user", ["weak", "elsewhere"])
async def test_a_user_with_too_few_rights_is_told_where_they_are_listed(
    guarded: RedisServer, user: str
) -> None:
    with pytest.raises(StoreUnavailable, match=r"may not do that; docs/redis\.md"):
        async with opened(login(guarded, user)) as store:
            await store.enqueue([new()])


async def test_a_user_who_may_run_no_scripts_is_told_so_at_the_start(guarded: RedisServer) -> None:
    with pytest.raises(StoreUnavailable, match=r"may not do that; docs/redis\.md"):
        async with opened(login(guarded, "weak")):
            pass


async def test_a_user_who_may_not_listen_for_hints_is_told_once(guarded: RedisServer) -> None:
    def refusals() -> int:
        return sum(int(one["count"]) for one in client.acl_log() if "subscribe" in str(one["object"]))

    with guarded.client() as client, capture_logs() as said:
        client.execute_command("ACL", "SETUSER", "streamlane", "-subscribe")
        async with opened(login(guarded, "streamlane")) as store:
            store.on_signal(lambda: None)
            await wait_until(lambda: refusals() > 3, describe="it tries again and again")
    (told,) = said
    assert told["event"].startswith("listening for hints failed")
    assert "docs/redis.md" in told["error"]


async def test_a_wrong_password_is_told_without_repeating_it(guarded: RedisServer) -> None:
    with pytest.raises(StoreUnavailable, match="user or password are wrong") as refused:
        async with opened(login(guarded, "streamlane", "gu3ss")):
            pass
    assert "gu3ss" not in str(refused.value)


async def test_a_missing_password_is_asked_for() -> None:
    server = RedisServer(requirepass="secret").start()
    try:
        with pytest.raises(StoreUnavailable, match="STREAMLANE_REDIS_URL"):
            async with opened(server.url):
                pass
    finally:
        server.close()


async def test_rights_taken_away_meanwhile_stop_nothing_for_ever(guarded: RedisServer) -> None:
    async with opened(login(guarded, "streamlane")) as store:
        await store.enqueue([new()])
        with guarded.client() as client:
            client.execute_command("ACL", "SETUSER", "streamlane", "-@scripting")
            with pytest.raises(StoreUnavailable, match=r"docs/redis\.md"):
                await store.claim("c", [("default", 1)])
            client.execute_command("ACL", "SETUSER", "streamlane", "+@scripting")
        assert len(await store.claim("c", [("default", 1)])) == 1


@dataclass(frozen=True)
class Authority:
    """Vouches for servers."""

    folder: Path
    ca: Path

    def vouch(self, *names: str) -> dict[str, Any]:
        """Return the TLS settings of a server that has these names."""
        key, asked, cert, extensions = (
            self.folder / f"server.{kind}" for kind in ("key", "csr", "pem", "ext")
        )
        extensions.write_text(
            f"subjectAltName={','.join(names)}\nbasicConstraints=CA:FALSE\nkeyUsage=digitalSignature\n"
            "extendedKeyUsage=serverAuth,clientAuth\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
        )
        openssl("req", "-newkey", "ec", *EC, "-keyout", key, "-out", asked, "-subj", "/CN=server")
        openssl(
            "x509", "-req", "-in", asked, "-CA", self.ca, "-CAkey", self.folder / "ca.key", "-CAcreateserial",
            "-days", 2, "-extfile", extensions, "-out", cert,
        )  # fmt: skip
        return {
            "tls_cert_file": str(cert),
            "tls_key_file": str(key),
            "tls_ca_cert_file": str(self.ca),
            "tls_auth_clients": "no",
        }


EC = ("-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def openssl(*words: object) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


def authority(folder: Path) -> Authority:
    folder.mkdir()
    key, ca = folder / "ca.key", folder / "ca.pem"
    usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
    openssl(
        "req",
        "-x509",
        "-newkey",
        "ec",
        *EC,
        "-keyout",
        key,
        "-out",
        ca,
        "-subj",
        "/CN=ours",
        "-days",
        2,
        *usage,
    )
    return Authority(folder, ca)


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """Our own authority, and a server program that knows TLS."""
    program = shutil.which("redis-server")
    if program is None or shutil.which("openssl") is None:
        pytest.skip("no redis-server with TLS, or no openssl: apt-get install redis-server openssl")
    monkeypatch.setenv(PROGRAM, program)
    return authority(tmp_path / "ours")


@pytest.fixture
def theirs(tmp_path: Path) -> Authority:
    return authority(tmp_path / "theirs")


class Secure(RedisServer):
    """A server that speaks TLS on a port of its own, and plainly with the test."""

    def __init__(self, **settings: Any) -> None:
        self.tls_port = free_port()
        super().__init__(tls_port=self.tls_port, **settings)

    @property
    def secure_url(self) -> str:
        return f"rediss://{self.host}:{self.tls_port}/0"


@pytest.fixture
def secure(ours: Authority) -> Iterator[Secure]:
    server = Secure(**ours.vouch("IP:127.0.0.1"))
    try:
        server.start()
        yield server
    finally:
        server.close()


async def test_everything_works_over_tls_with_the_right_authority(secure: Secure, ours: Authority) -> None:
    with capture_logs() as said:
        async with opened(secure.secure_url, redis_ca_file=ours.ca) as store:
            await use_everything(store)
    assert said == []


async def test_a_server_that_another_authority_vouches_for_is_refused(
    secure: Secure, theirs: Authority
) -> None:
    for settings in ({"redis_ca_file": theirs.ca}, {}):
        with pytest.raises(StoreUnavailable, match="not trusted: STREAMLANE_REDIS_CA_FILE"):
            async with opened(secure.secure_url, **settings):
                pass


async def test_a_plain_connection_to_tls_and_tls_to_a_plain_one_say_which_to_write(
    secure: Secure, ours: Authority
) -> None:
    for url, hint in (
        (
            f"redis://{secure.host}:{secure.tls_port}",
            "it wants TLS: write rediss://… in STREAMLANE_REDIS_URL",
        ),
        (
            f"rediss://{secure.host}:{secure.port}",
            "it speaks without TLS: write redis://… in STREAMLANE_REDIS_URL",
        ),
        (f"clusters://{secure.host}:{secure.port}", "it speaks without TLS: write cluster://… in"),
        (f"sentinel://{secure.host}:{secure.tls_port}/main", "it wants TLS: write sentinels://… in"),
    ):
        with pytest.raises(StoreUnavailable, match=hint):
            async with asyncio.timeout(10), opened(url, redis_ca_file=ours.ca):
                pass


async def test_verification_can_be_skipped_and_is_warned_about(secure: Secure) -> None:
    with capture_logs() as said:
        async with opened(secure.secure_url, redis_skip_verify=True) as store:
            await use_everything(store)
    (warning,) = said
    assert "STREAMLANE_REDIS_SKIP_VERIFY" in warning["event"]
    assert warning["log_level"] == "warning"


async def test_a_file_of_authorities_that_is_not_there_is_named(secure: Secure, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"STREAMLANE_REDIS_CA_FILE.*nowhere\.pem"):
        async with opened(secure.secure_url, redis_ca_file=tmp_path / "nowhere.pem"):
            pass


async def test_a_file_without_authorities_is_named(secure: Secure, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    for text in ("", "no certificate"):
        empty.write_text(text)
        with pytest.raises(
            ConfigurationError, match=r"STREAMLANE_REDIS_CA_FILE: no certificate .*empty\.pem"
        ):
            async with opened(secure.secure_url, redis_ca_file=empty):
                pass


async def test_a_server_with_another_name_is_believed_only_under_that_name(ours: Authority) -> None:
    server = Secure(**ours.vouch("DNS:redis.internal"))
    try:
        server.start()
        for wrong in (None, "other.internal"):
            with pytest.raises(StoreUnavailable, match="STREAMLANE_REDIS_SERVER_NAME"):
                async with opened(server.secure_url, redis_ca_file=ours.ca, redis_server_name=wrong):
                    pass
        settings = {"redis_ca_file": ours.ca, "redis_server_name": "redis.internal"}
        async with opened(server.secure_url, **settings) as store:
            await use_everything(store)
    finally:
        server.close()


@pytest.mark.slow
async def test_sentinels_and_what_they_watch_are_believed_under_that_name(ours: Authority) -> None:
    tls = ours.vouch("DNS:redis.internal")
    settings = {"redis_ca_file": ours.ca, "redis_server_name": "redis.internal"}
    async with Sentinel(tls=tls) as sentinel, opened(sentinel.url, **settings) as store:
        await use_everything(store)


@pytest.mark.slow
async def test_the_nodes_of_a_cluster_are_believed_under_that_name(ours: Authority) -> None:
    tls = ours.vouch("DNS:redis.internal")
    settings = {"redis_ca_file": ours.ca, "redis_server_name": "redis.internal"}
    async with Cluster(tls=tls) as cluster, opened(cluster.url, **settings) as store:
        await use_everything(store)


@pytest.mark.slow
async def test_the_rights_in_the_docs_are_enough_in_a_cluster() -> None:
    users = (f"streamlane {documented_rights()} +cluster|slots", ANYBODY)
    assert "`+cluster|slots`" in DOCS.read_text()
    async with Cluster(users=users) as cluster, opened(login_of(cluster)) as store:
        await use_everything(store)


@pytest.mark.slow
async def test_the_rights_in_the_docs_are_enough_at_sentinels() -> None:
    there = "+@connection +sentinel|masters"
    assert f"`{there}`" in DOCS.read_text()
    async with Sentinel() as sentinel:
        for servers, rights in (
            (sentinel.servers, documented_rights()),
            (sentinel.sentinels, f"on >secret {there}"),
        ):
            for server in servers:
                with server.client() as client:
                    client.execute_command("ACL", "SETUSER", "streamlane", *rights.split())
        async with opened(login_of(sentinel)) as store:
            await use_everything(store)
