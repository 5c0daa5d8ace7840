"""`streamlane worker`: a process that does nothing but work."""

import asyncio
from collections.abc import Callable

from consumers.commands.session import session
from consumers.commands.terminal import say
from consumers.lanes import handlers_of
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
        settings = opened.pipeline.settings
        served = [pool for pool in pools if handlers_of((pool,))]
        slots = ", ".join(f"{pool} ({settings.slots(pool)})" for pool in served) or "none"
        idle = ", ".join(pool for pool in pools if pool not in served)
        waiting = f" the jobs of {idle} wait, as nothing handles them yet;" if idle else ""
        say(
            f"works on {' '.join(names)}, pools with slots: {slots};{waiting}"
            f" the queue is {opened.pipeline.broker.where}, the data lies in {settings.data_dir.absolute()};"
            " stop with Ctrl-C"
        )
        code = await opened.pipeline.serve(
            pools=pools,
            handlers=handlers_of(pools),
            services=opened.services,
            awaiting=AWAITING_HANDLER,
            duties=opened.services.duties,
        )
    say("has stopped; what was not done is kept and runs again")
    return code


def new_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes the faster event loop, where there is one (`faststream run` takes it by itself)."""
    try:
        import uvloop
    except ImportError:  # on Windows
        return None
    return uvloop.new_event_loop
