"""`streamlane scheduler` and `streamlane housekeeping`: what has to be done beside the jobs."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from consumers.api import stop_asked
from consumers.commands.session import session
from consumers.commands.terminal import FAILED, OK, emit, out, say, table
from consumers.lanes import HANDLERS
from consumers.sweeping import Swept


async def scheduler() -> int:
    """Do the periodic duties until told to stop, and work on nothing; return the exit code."""
    with stop_asked() as asked:
        async with session() as opened:
            services, pipeline = opened.services, opened.pipeline
            on = (
                "every five minutes"
                if pipeline.settings.housekeeping_enabled
                else "never (it is switched off)"
            )
            say(
                f"sends what the outbox holds, records deaths, hands lost jobs on, and looks for what got stuck {on};"
                f" the queue is {pipeline.broker.where}; stop with Ctrl-C"
            )
            async with pipeline.tending(handlers=HANDLERS, services=services, duties=services.duties):
                await asked.wait()
    say("has stopped; workers do the same beside their jobs")
    return OK


async def housekeeping(as_json: bool, *, dry: bool) -> int:
    """Look for what got stuck now; with `dry`, only say what would be done. Return the exit code."""
    async with session() as opened:
        swept = await opened.services.housekeeping.sweep(dry=dry)
    if swept is None:
        say("another process is at it; it repeats itself every five minutes")
        return FAILED
    if as_json:
        emit(_told(swept, dry=dry))
        return OK
    if swept.deeds:
        rows = [(deed.document, deed.verdict, deed.message) for deed in swept.deeds]
        table(("document", "would" if dry else "did", "because"), rows)
    for sentence in _sentences(swept):
        out.print(sentence, markup=False, soft_wrap=True)
    return OK


def _told(swept: Swept, *, dry: bool) -> Mapping[str, Any]:
    return asdict(swept) | {
        "deferred": {str(why): count for why, count in swept.deferred.items()},
        "dry_run": dry,
    }


def _sentences(swept: Swept) -> list[str]:
    found = [f"left alone: {count}, {why}" for why, count in swept.deferred.items()]
    counts = {
        "wikis told that they have work": swept.wikis,
        "attempts with open spans": swept.attempts_closed,
        "slots of ended documents": swept.slots_closed,
        "dead letters and audit entries whose time was over": swept.forgotten,
    }
    found += [f"{what}: {count}" for what, count in counts.items() if count]
    return found or ([] if swept.deeds else ["nothing is stuck"])
