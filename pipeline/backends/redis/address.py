"""Where Redis is, and how it is reached: one server, Sentinel or Cluster, by URL.

redis://user:password@host:6379/0   rediss:// with TLS   unix:///path/of.sock?db=0
sentinel://user:password@host1:26379,host2:26379/<service>/0    sentinels:// with TLS
cluster://user:password@host1:7000,host2:7001                   clusters:// with TLS
"""

import ssl
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pipeline.config import Settings
from pipeline.errors import ConfigurationError

PORTS: Final = {
    "redis": 6379,
    "rediss": 6379,
    "sentinel": 26379,
    "sentinels": 26379,
    "cluster": 6379,
    "clusters": 6379,
}

ESCAPES: Final = "in a password / is written %2F, ? %3F and # %23"


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed URL. `kind` is redis, sentinel or cluster; `options` are what a connection is told beside its host;
    `server_name` is what the certificate must say where that is not the host.
    """

    kind: str
    hosts: tuple[tuple[str, int], ...]
    options: dict[str, Any]
    service: str = ""
    path: str = ""
    server_name: str = ""

    @property
    def database(self) -> int:
        """The number of the database."""
        return int(self.options.get("db", 0))

    def __str__(self) -> str:
        """Return the URL without user and password."""
        if self.path:
            return f"unix://{self.path}?db={self.database}"
        hosts = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)
        parts = (
            hosts,
            *([self.service] if self.service else []),
            *([str(self.database)] * (self.kind != "cluster")),
        )
        return f"{self.kind}{'s' if self.options.get('ssl') else ''}://{'/'.join(parts)}"


def parse(settings: Settings) -> Address:
    """Read `redis_url` and what belongs to it. Raises ConfigurationError without repeating the password."""
    if settings.redis_url is None:
        raise ConfigurationError("STREAMLANE_REDIS_URL is not set")
    try:
        url = urlsplit(settings.redis_url.get_secret_value())
    except ValueError:
        raise _wrong("it is no URL, as in redis://localhost:6379/0") from None
    options: dict[str, Any] = {}
    place = url.netloc
    if "@" in place:
        login, place = place.rsplit("@", 1)
        user, _, password = login.partition(":")
        options |= {"username": unquote(user) or None, "password": unquote(password) or None}
    if url.scheme == "unix":
        query = dict(pair.split("=", 1) for pair in url.query.split("&") if "=" in pair)
        return Address("redis", (), options | {"db": _database(query.get("db", "0"))}, path=unquote(url.path))
    if url.scheme not in PORTS:
        raise _wrong(f"unknown scheme {url.scheme!r}; there are unix, {', '.join(sorted(PORTS))}")
    kind = url.scheme.removesuffix("s") if url.scheme not in {"redis", "rediss"} else "redis"
    if url.scheme.endswith("ss") or (url.scheme.endswith("s") and kind != "redis"):
        options |= _tls(settings)
    hosts = tuple(_host(one, PORTS[url.scheme]) for one in place.split(",") if one)
    if not hosts:
        raise _wrong("it names no host, as in redis://localhost:6379/0")
    if kind == "redis" and len(hosts) > 1:
        raise _wrong("one server has one host; several belong to sentinel:// or cluster://")
    parts = [part for part in url.path.split("/") if part]
    service = ""
    if kind == "sentinel":
        if not parts:
            raise _wrong("it names no service, as in sentinel://host:26379/mymaster/0")
        service = parts.pop(0)
    if parts[1:] or url.query or url.fragment:
        raise _wrong(f"nothing comes after the database; {ESCAPES}")
    if kind == "cluster" and parts and parts != ["0"]:
        raise _wrong("a cluster has no databases but 0")
    if kind != "cluster":
        options["db"] = _database(parts[0] if parts else "0")
    return Address(kind, hosts, options, service, server_name=settings.redis_server_name or "")


def _tls(settings: Settings) -> dict[str, Any]:
    if settings.redis_skip_verify:
        return {"ssl": True, "ssl_cert_reqs": "none", "ssl_check_hostname": False}
    ca = settings.redis_ca_file
    if ca is not None and not ca.is_file():
        raise ConfigurationError(f"STREAMLANE_REDIS_CA_FILE: there is no file {ca}")
    try:
        if ca is not None:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(ca)
    except OSError as error:
        raise ConfigurationError(
            f"STREAMLANE_REDIS_CA_FILE: no certificate can be read from {ca}, which has to hold some in PEM ({error})"
        ) from None
    return {
        "ssl": True,
        "ssl_cert_reqs": "required",
        "ssl_check_hostname": True,
        "ssl_ca_certs": str(ca) if ca else None,
        "ssl_min_version": ssl.TLSVersion.TLSv1_2,
    }


def _host(text: str, port: int) -> tuple[str, int]:
    if text.startswith("["):
        name, _, rest = text[1:].partition("]")
        number = rest.removeprefix(":")
    else:
        name, _, number = text.partition(":")
    if number and not (number.isdecimal() and 0 < int(number) < 65536):
        raise _wrong(f"a port is a number from 1 to 65535; {ESCAPES}")
    return unquote(name), int(number or port)


def _database(text: str) -> int:
    if not text.isdecimal():
        raise _wrong(f"a database is a number; {ESCAPES}")
    return int(text)


def _wrong(problem: str) -> ConfigurationError:
    return ConfigurationError(f"STREAMLANE_REDIS_URL: {problem}")
