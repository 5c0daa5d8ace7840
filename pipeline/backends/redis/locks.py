"""Locks with a width and a fencing number."""

from pipeline.backends.redis.keys import Keys
from pipeline.backends.redis.scripts import script
from pipeline.backends.redis.server import Server


async def lock(server: Server, keys: Keys, name: str, owner: str, ttl_ms: int, width: int) -> int | None:
    """Take or renew a place; see `Broker.lock`."""
    number: int | None = await server.run(script("take_lock"), keys.lock(name), owner, ttl_ms, width)
    return number


async def unlock(server: Server, keys: Keys, name: str, owner: str) -> bool:
    """Give a place back; False when it was not ours (any more)."""
    return bool(await server.run(script("free_lock"), keys.lock(name), owner))
