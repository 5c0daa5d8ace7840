"""Whether Redis can be used: read, written, and set so that it forgets nothing by itself."""

from typing import Any, Final

import structlog

from pipeline.backends.redis.keys import Keys
from pipeline.backends.redis.scripts import script
from pipeline.backends.redis.server import Server
from pipeline.broker import Condition
from pipeline.errors import ConfigurationError, StreamlaneError

OLDEST: Final = (7, 0)
PROBE_MS: Final = 60_000
KEEPING: Final = "noeviction"
FORGETFUL: Final = (
    "Redis deletes keys when its memory is full, waiting jobs among them: set maxmemory-policy noeviction"
)
FLEETING: Final = "jobs that wait are lost when the Redis server ends: set appendonly yes, unless they may be"

log = structlog.get_logger(component="redis")


async def probe(server: Server, keys: Keys) -> None:
    """Raise StoreUnavailable unless Redis can be written and read, by scripts too: every transition is one."""
    await server.run(script("probe_store"), keys.probe)
    await server.call("SET", keys.probe, "1", "PX", PROBE_MS)


async def look_at_settings(server: Server, *, verified: bool = True) -> None:
    """Refuse a server that is too old, and warn of settings under which jobs may vanish.

    Raises ConfigurationError, StoreUnavailable. A user who may not ask for them is told so in the log.
    """
    if not verified:
        log.warning(
            "whoever answers is trusted as Redis: unset STREAMLANE_REDIS_SKIP_VERIFY outside of trials"
        )
    try:
        info = await _settings(server)
    except StreamlaneError as error:
        log.warning("the server's settings cannot be seen", error=str(error))
        return
    version = tuple(int(part) for part in info.get("redis_version", "7.0").split(".")[:2])
    if version < OLDEST:
        raise ConfigurationError(
            f"Redis {info['redis_version']} is too old: use Redis 7.0 or Valkey 7.2, or newer"
        )
    if (policy := info.get("maxmemory_policy", KEEPING)) != KEEPING:
        log.warning(FORGETFUL, policy=policy)


async def condition(server: Server) -> Condition:
    """Return how the server is set. Raises StoreUnavailable; what this user may not see is said instead of the facts."""
    try:
        info = await _settings(server)
    except StreamlaneError as error:
        await server.call("PING")
        return Condition(advice=f"the server's settings cannot be seen: {error}")
    valkey = info.get("valkey_version")
    policy, appends = info.get("maxmemory_policy", KEEPING), info.get("aof_enabled") == "1"
    facts = (
        f"Valkey {valkey}" if valkey else f"Redis {info.get('redis_version', 'of an unknown version')}",
        f"maxmemory-policy {policy}",
        "append-only file" if appends else "no append-only file",
    )
    return Condition(facts, FORGETFUL if policy != KEEPING else "", "" if appends else FLEETING)


async def _settings(server: Server) -> dict[str, str]:
    sections = [fields(await server.info(name)) for name in ("server", "memory", "persistence")]
    return {name: value for section in sections for name, value in section.items()}


def fields(info: Any) -> dict[str, str]:
    """Read a section of INFO."""
    if isinstance(info, dict):
        return {str(name): str(value) for name, value in info.items()}
    lines = (line.split(":", 1) for line in str(info).splitlines() if ":" in line)
    return {name: value.strip() for name, value in lines}
