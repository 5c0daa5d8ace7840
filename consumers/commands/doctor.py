"""`streamlane doctor`: the settings in force, and whether what this process needs is there."""

import asyncio
import shutil
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.markup import escape

from consumers.commands.terminal import FAILED, OK, emit, out, shown, table
from consumers.extras import KNOWLEDGE, OCR
from contracts.identity import new_id
from contracts.states import JobState
from pipeline import Pipeline, Settings
from pipeline.errors import StoreUnavailable

if TYPE_CHECKING:
    from consumers.services import Services

LOW_DISK_MB: Final = 500
LATER: Final = "nothing that was accepted is lost; it is read again once this works"
ADOPTED: Final = "what still waits for documents of the former one ends without them; stop the processes that have that one open"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. `advice` says what to do when it is not well."""

    what: str
    well: bool
    said: str
    advice: str = ""


async def doctor(as_json: bool, *, adopting: bool) -> int:
    """Print the settings and what was found; return the exit code. `adopting`: first let the queue belong to this database."""
    settings = Settings.read()
    findings = [_python(), await _room(settings)]
    async with AsyncExitStack() as opened:
        try:
            pipeline = await opened.enter_async_context(Pipeline.open(settings=settings))
        except StoreUnavailable as error:
            findings.append(_absent(error))
        else:
            findings += [await _queue(pipeline), *await _documents(opened, pipeline, adopting=adopting)]
            settings = pipeline.settings  # with what is stored, where the database could say so
    well = all(finding.well for finding in findings)
    if as_json:
        emit(
            {
                "settings": dict(settings.shown()),
                "findings": [
                    {"what": f.what, "ok": f.well, "said": f.said, "advice": f.advice or None}
                    for f in findings
                ],
                "ok": well,
            }
        )
        return OK if well else FAILED
    table(
        ("setting", "value"), [(Settings.variable(name), value) for name, value in settings.shown().items()]
    )  # fmt: skip
    out.print()
    for finding in findings:
        mark = "[green]ok[/green]" if finding.well else "[red]not ok[/red]"
        out.print(f"{mark}  {finding.what}: {escape(shown(finding.said))}")
        if finding.advice:
            out.print(f"    {escape(finding.advice)}")
    return OK if well else FAILED


def _python() -> Finding:
    return Finding("python", sys.version_info >= (3, 11), sys.version.split()[0])


async def _queue(pipeline: Pipeline) -> Finding:
    try:
        await pipeline.broker.ping()
        found = await pipeline.broker.condition()
        stats = await pipeline.inspector.queues()
    except StoreUnavailable as error:
        return _absent(error)
    waiting, archived = sum(stat.size for stat in stats), sum(stat.archived for stat in stats)
    said = (
        f"{pipeline.broker.where} can be read and written ({', '.join(found.facts) or 'no more is known'});"
    )
    said += f" {waiting} jobs not ended, {archived} {JobState.ARCHIVED.value}"
    why = "see why: streamlane jobs list --state archived" if archived else ""
    return Finding(
        "queue", not found.danger, said, "; ".join(filter(None, (found.danger, found.advice, why)))
    )


def _absent(error: StoreUnavailable) -> Finding:
    return Finding("queue", False, str(error), LATER)


async def _documents(opened: AsyncExitStack, pipeline: Pipeline, *, adopting: bool) -> list[Finding]:
    if KNOWLEDGE.absent:
        return [Finding("documents", True, "not read, searched or asked here", KNOWLEDGE.how)]
    try:
        found = await _database(opened, pipeline, adopting=adopting)
    except StoreUnavailable as error:
        found = [Finding("database", False, str(error), LATER)]
    return [*found, await _model(pipeline.settings), _pictures()]


async def _database(opened: AsyncExitStack, pipeline: Pipeline, *, adopting: bool) -> list[Finding]:
    from consumers.database import adopt, open_database
    from consumers.services import open_services

    adopted = []
    if adopting:
        async with open_database(pipeline.settings) as database:
            await adopt(pipeline, database)
            adopted = [Finding("adopted", True, f"the queue belongs to {database.name} now", ADOPTED)]
    services = await opened.enter_async_context(open_services(pipeline))
    return [*adopted, await _outbox(services), await _files(services)]


async def _room(settings: Settings) -> Finding:
    folder = settings.data_dir.absolute()
    there = next(one for one in (folder, *folder.parents) if one.exists())  # nothing was written yet, perhaps
    free = (await asyncio.to_thread(shutil.disk_usage, there)).free >> 20
    return Finding(
        "disk",
        free >= LOW_DISK_MB,
        f"{free} MB free for {settings.data_dir}",
        "free some space" if free < LOW_DISK_MB else "",
    )


async def _outbox(services: "Services") -> Finding:
    waiting, age_ms = await services.outbox.waiting()
    late = age_ms > 60_000
    said = f"{services.database.name}; {waiting} jobs wait to be sent" + (
        f", the oldest for {age_ms // 1000} s" if waiting else ""
    )
    return Finding("database", not late, said, "any running worker sends them" if late else "")


async def _files(services: "Services") -> Finding:
    from consumers.knowledge.files.store import FileStoreError

    store, key, said = services.files, f"doctor/{new_id()}", b"Is the store of files there?"
    try:
        await store.put(key, said)
        whole = await store.read(key) == said
        await store.delete(key)
    except FileStoreError as error:
        return Finding("files", False, str(error), "documents cannot be sent or read until this works")
    return Finding(
        "files", whole, f"{store.where} can be {'written and read' if whole else 'written, not read'}"
    )


async def _model(settings: Settings) -> Finding:
    from consumers.knowledge.embedding.embedder import EmbeddingError
    from consumers.knowledge.embedding.embedders import Embedders

    embedders = Embedders(settings)
    embedder = embedders.default
    said = f"{embedder.model}, {embedder.dimension} dimensions"
    try:
        await embedder.embed(["Is the encoder there?"])
    except EmbeddingError as problem:
        return Finding("embeddings", False, f"{said}: {problem}", "new documents cannot be embedded")
    finally:
        await embedders.close()
    return Finding("embeddings", True, said)


def _pictures() -> Finding:
    if OCR.absent:
        return Finding("pictures", True, "words in them are not read", OCR.how)
    return Finding("pictures", True, "words in them are read")
