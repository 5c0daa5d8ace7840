"""`streamlane doctor`: the settings in force, and whether what this process needs is there."""

import asyncio
import shutil
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.markup import escape

from consumers.commands.session import Session, session
from consumers.commands.terminal import FAILED, OK, AsJson, emit, out, run, shown, table
from consumers.knowledge.ocr import why_unread
from contracts.states import JobState
from pipeline.errors import StreamlaneError

LOW_DISK_MB: Final = 500


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. `advice` says what to do when it is not well."""

    what: str
    well: bool
    said: str
    advice: str = ""


def doctor(as_json: AsJson = False) -> None:
    """Print the settings and look whether everything works. Exit 1 when something does not."""
    run(_doctor(as_json), as_json=as_json)


async def _doctor(as_json: bool) -> int:
    async with session() as opened:
        settings = dict(opened.services.settings.shown())
        findings = [await look(opened) for look in LOOKS]
    well = all(finding.well for finding in findings)
    if as_json:
        emit(
            {
                "settings": settings,
                "findings": [
                    {"what": f.what, "ok": f.well, "said": f.said, "advice": f.advice or None}
                    for f in findings
                ],
                "ok": well,
            }
        )
        return OK if well else FAILED
    table(("setting", "value"), list(settings.items()), title="Settings")
    out.print()
    for finding in findings:
        mark = "[green]ok[/green]" if finding.well else "[red]not ok[/red]"
        out.print(f"{mark}  {finding.what}: {escape(shown(finding.said))}")
        if finding.advice:
            out.print(f"    {escape(finding.advice)}")
    return OK if well else FAILED


async def _python(_: Session) -> Finding:
    return Finding("python", sys.version_info >= (3, 11), sys.version.split()[0])


async def _queue(opened: Session) -> Finding:
    try:
        await opened.pipeline.broker.ping()
    except StreamlaneError as error:
        return Finding(
            "queue", False, str(error), "nothing that was accepted is lost; it is read again once this works"
        )
    stats = await opened.pipeline.inspector.queues()
    waiting, archived = sum(stat.size for stat in stats), sum(stat.archived for stat in stats)
    return Finding(
        "queue",
        True,
        f"readable and writable; {waiting} jobs not ended, {archived} {JobState.ARCHIVED.value}",
        "see why: streamlane jobs list --state archived" if archived else "",
    )


async def _outbox(opened: Session) -> Finding:
    waiting, age_ms = await opened.services.outbox.waiting()
    late = age_ms > 60_000
    said = f"{waiting} jobs wait to be sent" + (f", the oldest for {age_ms // 1000} s" if waiting else "")
    return Finding("database", not late, said, "any running worker sends them" if late else "")


async def _room(opened: Session) -> Finding:
    folder: Path = opened.services.settings.data_dir
    free = (await asyncio.to_thread(shutil.disk_usage, folder)).free >> 20
    return Finding(
        "disk",
        free >= LOW_DISK_MB,
        f"{free} MB free for {folder}",
        "free some space" if free < LOW_DISK_MB else "",
    )


async def _model(opened: Session) -> Finding:
    embedder = opened.services.embedder
    (vector,) = await embedder.embed(["Is the encoder there?"])
    return Finding(
        "embeddings", len(vector) == embedder.dimension, f"{embedder.model}, {len(vector)} dimensions"
    )


async def _pictures(_: Session) -> Finding:
    reason = why_unread()
    return Finding("pictures", True, reason or "words in pictures are read")


LOOKS: Final[tuple[Callable[[Session], Awaitable[Finding]], ...]] = (
    _python,
    _queue,
    _outbox,
    _room,
    _model,
    _pictures,
)
