"""`streamlane worker`: a process that does nothing but work."""

from consumers.commands.session import session
from consumers.lanes import HANDLERS
from contracts.payloads import AWAITING_HANDLER
from contracts.topology import POOLS, Lane, UnknownNameError, pools_of


def pools_named(names: list[str]) -> tuple[str, ...]:
    """Return the pools of these lanes and pools, each once.

    Raises UnknownNameError naming the nearest one there is.
    """
    pools: list[str] = []
    for name in names:
        if name in POOLS:
            pools.append(name)
        elif name in set(Lane):
            pools += pools_of(Lane(name))
        else:
            raise UnknownNameError("lane or pool", name, [lane.value for lane in Lane] + list(POOLS))
    return tuple(dict.fromkeys(pools))


async def worker(names: list[str]) -> int:
    """Work until told to stop; return the exit code."""
    pools = pools_named(names)
    async with session() as opened:
        return await opened.pipeline.serve(
            pools=pools,
            handlers=HANDLERS,
            services=opened.services,
            awaiting=AWAITING_HANDLER,
            duties=opened.services.duties,
        )
