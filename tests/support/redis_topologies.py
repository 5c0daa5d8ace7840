"""Sentinel and Cluster as tests start them: plain processes on the loopback, with limits short enough to wait for."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Self

from redis.exceptions import RedisError

from tests.support.redis_server import RedisServer, free_port
from tests.support.waiting import wait_until

SERVICE: Final = "mymaster"
DOWN_MS: Final = 400
"""Silence after which a server counts as lost."""
SLOTS: Final = 16384


def asked_at(server: RedisServer) -> int:
    """Return the port at which a product asks this server."""
    return int(server._settings.get("tls-port", server.port))


class Watcher(RedisServer):
    """One sentinel."""

    def __init__(
        self, primary: int, quorum: int, *, name: str = "sentinel", down_ms: int = DOWN_MS, **settings: Any
    ) -> None:
        super().__init__(name=name)
        self._settings = {
            "bind": self.host,
            **{key.replace("_", "-"): str(settings[key]) for key in settings},
        }
        lines = [
            f"sentinel monitor {SERVICE} {self.host} {primary} {quorum}",
            f"sentinel down-after-milliseconds {SERVICE} {down_ms}",
            f"sentinel failover-timeout {SERVICE} 2000",
        ]
        (self.folder / "sentinel.conf").write_text("\n".join(lines) + "\n")

    def configuration(self) -> list[str]:
        return [str(self.folder / "sentinel.conf"), "--sentinel"]


class Sentinel:
    """A primary, a replica, and three sentinels that agree by two. An async context manager. With the settings of `tls` all of
    them are named and asked at ports for that; a test asks at the plain ones.
    """

    def __init__(self, *, tls: Mapping[str, str] | None = None, **settings: Any) -> None:
        secure: dict[str, Any] = {} if tls is None else {**tls, "tls_replication": "yes"}
        self._secure = bool(secure)

        def ports() -> dict[str, Any]:
            return {"tls_port": free_port()} if secure else {}

        own = ports()
        first = RedisServer(**settings, **secure, **own)
        self._port = int(own.get("tls_port", first.port))
        followed = f"{first.host} {self._port}"
        self.servers = [first, RedisServer(replicaof=followed, **settings, **secure, **ports())]
        self.sentinels = [Watcher(self._port, 2, **secure, **ports()) for _ in range(3)]

    async def __aenter__(self) -> Self:
        for server in (*self.servers, *self.sentinels):
            server.start()
        await wait_until(self._complete, describe="the sentinels know each other and the replica", timeout=30)
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in (*self.sentinels, *self.servers):
            server.close()

    @property
    def url(self) -> str:
        """Where the sentinels are, for `STREAMLANE_REDIS_URL`."""
        places = ",".join(f"{one.host}:{asked_at(one)}" for one in self.sentinels)
        return f"sentinel{'s' if self._secure else ''}://{places}/{SERVICE}/0"

    @property
    def primary(self) -> RedisServer:
        """What the sentinels name now."""
        port = self._ask("GET-MASTER-ADDR-BY-NAME", SERVICE)[1]
        return next(one for one in self.servers if asked_at(one) == int(port))

    @property
    def replica(self) -> RedisServer:
        """The other one."""
        primary = self.primary
        return next(one for one in self.servers if one is not primary)

    async def failover(self) -> RedisServer:
        """Let the replica become the primary, in peace; return it. For the other way: `primary.kill()` and `promoted`."""
        before = self.primary
        self._ask("FAILOVER", SERVICE)
        return await self.promoted(before)

    async def promoted(self, before: RedisServer) -> RedisServer:
        """Return the new primary, once there is one that says so itself."""

        def other() -> RedisServer | None:
            with suppress(RedisError):
                if (now := self.primary) is not before:
                    with now.client() as client:
                        return now if client.role()[0] == "master" else None
            return None

        return await wait_until(other, describe="there is a new primary", timeout=30)

    def _complete(self) -> bool:
        for sentinel in self.sentinels:
            with sentinel.client() as client:
                known = client.sentinel_master(SERVICE)
            if int(known["num-other-sentinels"]) < 2 or int(known["num-slaves"]) < 1:
                return False
        with self.servers[1].client() as client:
            return bool(client.role()[3] == "connected")

    def _ask(self, *words: str) -> Any:
        with self.sentinels[0].client() as client:
            return client.execute_command("SENTINEL", *words)


class Cluster:
    """Three primaries that share the slots. An async context manager. `tls` as for Sentinel."""

    def __init__(self, *, tls: Mapping[str, str] | None = None, **settings: Any) -> None:
        secure: dict[str, Any] = {} if tls is None else {**tls, "tls_cluster": "yes"}
        self._secure = bool(secure)

        def node() -> RedisServer:
            ports: dict[str, Any] = {
                "cluster_port": free_port(),
                **({"tls_port": free_port()} if secure else {}),
            }
            return RedisServer(
                cluster_enabled="yes", cluster_node_timeout=1000, **ports, **secure, **settings
            )

        self.servers = [node() for _ in range(3)]

    async def __aenter__(self) -> Self:
        first, *_ = [server.start() for server in self.servers]
        share = -(-SLOTS // len(self.servers))
        for number, server in enumerate(self.servers):
            with server.client() as client:
                last = min((number + 1) * share, SLOTS) - 1
                client.execute_command("CLUSTER", "ADDSLOTSRANGE", number * share, last)
                bus = first._settings["cluster-port"]
                client.execute_command("CLUSTER", "MEET", first.host, asked_at(first), bus)
        await self.complete()
        return self

    async def complete(self) -> None:
        """Return when every node serves: some seconds after all have been restarted."""
        await wait_until(self._complete, describe="every node serves the whole cluster", timeout=30)

    async def __aexit__(self, *_: object) -> None:
        for server in self.servers:
            server.close()

    @property
    def url(self) -> str:
        """Where the nodes are, for `STREAMLANE_REDIS_URL`."""
        places = ",".join(f"{one.host}:{asked_at(one)}" for one in self.servers)
        return f"cluster{'s' if self._secure else ''}://{places}"

    def home_of(self, key: str) -> RedisServer:
        """Return the node that has this key."""
        with self.servers[0].client() as client:
            slot = client.execute_command("CLUSTER", "KEYSLOT", key)
            for first, last, (_, port, *_), *_ in client.execute_command("CLUSTER", "SLOTS"):
                if first <= slot <= last:
                    return next(one for one in self.servers if one.port == port)
        raise LookupError(f"no node has slot {slot}")

    def move(self, key: str, to: RedisServer) -> None:
        """Give the slot of this key, and all that lies in it, to another node."""
        source = self.home_of(key)
        with source.client() as leaving, to.client() as taking:
            slot = leaving.execute_command("CLUSTER", "KEYSLOT", key)
            ids = {
                one: one_client.execute_command("CLUSTER", "MYID")
                for one, one_client in ((source, leaving), (to, taking))
            }
            taking.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])
            leaving.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[to])
            while keys := leaving.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 1000):
                leaving.execute_command("MIGRATE", to.host, to.port, "", 0, 5000, "KEYS", *keys)
            for server in (to, source, *(one for one in self.servers if one not in (to, source))):
                with server.client() as client:
                    client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", ids[to])

    def _complete(self) -> bool:
        for server in self.servers:
            with server.client() as client:
                said = client.execute_command("CLUSTER", "INFO")
                nodes = client.execute_command("CLUSTER", "SLOTS")
            if "cluster_state:ok" not in str(said) or len(nodes) != len(self.servers):
                return False
        return True
