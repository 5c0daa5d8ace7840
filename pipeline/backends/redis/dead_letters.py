"""Deaths that nobody has recorded yet."""

from collections.abc import Mapping, Sequence
from typing import Final

from contracts.states import ArchiveReason
from contracts.topology import by_home
from pipeline.backends.redis.keys import Keys, homes
from pipeline.backends.redis.records import fields
from pipeline.backends.redis.scripts import script
from pipeline.backends.redis.server import Server, joined
from pipeline.broker import DeadLetter

AT_ONCE: Final = 300


async def oldest(
    server: Server, keys: Keys, queues: Sequence[str], limit: int, *, tended: bool = False
) -> list[DeadLetter]:
    """Return the oldest deaths in these queues."""
    stream = "dead:tended" if tended else "dead"
    said = await joined(
        _oldest(server, keys.prefix(name), stream, some, limit) for name, some in by_home(queues, str).items()
    )
    letters = [letter for some in said for letter in some]
    return sorted(letters, key=lambda letter: letter.died_at)[:limit]


async def tend(server: Server, keys: Keys, death_ids: Sequence[str]) -> None:
    """Note that only their rows are missing."""
    await _each_home(server, keys, "tend_dead", death_ids)


async def forget(server: Server, keys: Keys, death_ids: Sequence[str]) -> None:
    """Remove deaths that were recorded."""
    await _each_home(server, keys, "forget_dead", death_ids)


async def _each_home(server: Server, keys: Keys, name: str, death_ids: Sequence[str]) -> None:
    """Their ids do not say where they are."""
    for first in range(0, len(death_ids), AT_ONCE):
        some = death_ids[first : first + AT_ONCE]
        await joined(server.run(script(name), keys.prefix(one), *some) for one in homes())


async def _oldest(
    server: Server, prefix: str, stream: str, queues: Sequence[str], limit: int
) -> list[DeadLetter]:
    letters: list[DeadLetter] = []
    after = ""
    while len(letters) < limit:
        after, found = await server.run(
            script("list_dead"), prefix, limit - len(letters), after, stream, *queues
        )
        letters += [_letter(fields(flat)) for flat in found]
        if not after:
            break
    return letters


def _letter(found: Mapping[str, str]) -> DeadLetter:
    return DeadLetter(
        death_id=found["death_id"],
        queue=found["queue"],
        job_id=found["id"],
        record={name: found[name] for name in ("id", "type", "data", "opts")},
        reason=ArchiveReason(found["reason"]),
        error=found["error"],
        died_at=int(found["died_at"]),
    )
