"""`streamlane ingest`: bring files in, run their jobs here, and say how each fared."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, nullcontext
from pathlib import Path
from typing import Final

from consumers.commands.hurrying import hurry_wiki
from consumers.commands.progress import Stages
from consumers.commands.report import SKIPPED, Outcome, report
from consumers.commands.session import TENANT, Session, session
from consumers.commands.terminal import FAILED, OK, err
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.bases.settings import KnowledgeBaseSettings
from consumers.knowledge.bases.wiki_lane import switch
from consumers.knowledge.documents.documents import Registered, fail
from consumers.knowledge.documents.ingesting import Taken, find_files, printable, take_in
from consumers.knowledge.progress.fates import Fate, fates, still_open
from consumers.knowledge.tables.knowledge import KnowledgeBase
from contracts.knowledge import OPEN, ParseStatus, SlotKind
from pipeline.errors import ConfigurationError, StoreUnavailable

LOOK_S: Final = 0.2
IDLE_LOOKS: Final = 5
STRANDED: Final = (
    "nothing works on it any more: its jobs were cancelled, deleted, lost, or taken by a worker with another data folder;"
    " ingest it again"
)


async def ingest(
    paths: Sequence[Path],
    kb_name: str,
    limit: float,
    *,
    wait: bool,
    retry: bool,
    wiki: bool | None,
    as_json: bool,
    tenant: int = TENANT,
) -> int:
    """Bring files in and say how each fared; return the exit code."""
    begun = time.monotonic()
    async with AsyncExitStack() as held:
        try:
            opened = await held.enter_async_context(session(work=wait, tenant=tenant))
        except StoreUnavailable as error:
            raise StoreUnavailable(f"{error}; no document was taken in: repeat the command later") from None
        if wiki is not None:
            async with opened.services.outbox.transaction() as sql:
                kb = await ensure_base(sql, opened.tenant, kb_name)
                await switch(sql, kb, on=wiki)
        outcomes = await bring_in(opened, kb_name, paths, wait=wait, limit=limit, quiet=as_json, retry=retry)
    report(kb_name, outcomes, time.monotonic() - begun, as_json=as_json)
    bad = {ParseStatus.FAILED, ParseStatus.CANCELLED, *(OPEN if wait else ())}
    documents = [outcome for outcome in outcomes if outcome.status != SKIPPED]
    return OK if documents and not any(one.fate.status in bad for one in documents) else FAILED


async def bring_in(
    opened: Session,
    kb_name: str,
    paths: Sequence[Path],
    *,
    wait: bool,
    limit: float,
    quiet: bool,
    retry: bool = False,
) -> list[Outcome]:
    """Register every file, then, with `wait`, wait until each document has ended and nothing of it is queued.

    What could not be read and has not changed is tried again only with `retry`.
    """
    services = opened.services
    async with services.database.transaction() as sql:
        kb = await ensure_base(sql, opened.tenant, kb_name)
    found = await asyncio.to_thread(lambda: list(find_files(paths, leave_out=services.settings.data_dir)))
    if not found:
        raise ConfigurationError("there are no files to ingest (hidden files are passed over)")
    entries: list[Taken] = []
    idents: list[str] = []
    async with (
        nullcontext()
        if quiet
        else Stages(services.database, len(found), _enrichments(kb) if wait else ()) as stages
    ):
        async for taken in take_in(services, kb, found, retry=retry):
            entries += taken
            new = [entry.knowledge_id for entry in taken if isinstance(entry, Registered)]
            idents += new
            if stages is not None:
                stages.took(new, len(taken) - len(new))
        try:
            async with asyncio.timeout(limit):
                watch = Watch(opened, kb, idents)
                while wait:
                    if await watch.over():
                        break
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            err.print(f"not all documents ended within {limit:g} s; the same command goes on with them")
    async with services.database.read() as sql:
        known = await fates(sql, idents)
    return [
        Outcome(printable(str(one.path)), known[entry.knowledge_id], entry.entry, one.named)
        if isinstance(entry, Registered)
        else Outcome(printable(str(one.path)), Fate(ParseStatus.FAILED, str(entry)), None, one.named)
        for one, entry in zip(found, entries, strict=True)
    ]


def _enrichments(kb: KnowledgeBase) -> frozenset[SlotKind]:
    settings = KnowledgeBaseSettings.model_validate(kb.settings)
    wanted = {
        SlotKind.SUMMARY: True,
        SlotKind.QUESTION: settings.ask_questions,
        SlotKind.GRAPH: settings.extract_graph,
        SlotKind.WIKI: settings.wiki,
    }
    return frozenset(kind for kind, asked in wanted.items() if asked)


class Watch:
    """Looks whether documents have ended. One for which nothing is queued any more, look after look, never will:
    its jobs were cancelled or deleted, or the queue's file was lost. It is failed, so that it can be taken up again.
    """

    def __init__(self, opened: Session, kb: KnowledgeBase, knowledge_ids: Sequence[str]) -> None:
        self._opened, self._kb, self._ids = opened, kb, knowledge_ids
        self._wiki = KnowledgeBaseSettings.model_validate(kb.settings).wiki
        self._idle = 0

    async def over(self) -> bool:
        """Whether every document has ended, with nothing of the base left to do."""
        services = self._opened.services
        queued = await self._opened.pipeline.inspector.has_queued("knowledge_base", self._kb.id)
        if queued:  # to look through thousands of documents meanwhile would slow their jobs
            self._idle = 0
            if self._wiki:
                await hurry_wiki(self._opened.pipeline, self._kb.id)
            return False
        self._idle += 1
        async with services.database.read() as sql:
            open_ones = await still_open(sql, self._ids)
        if open_ones and self._idle >= IDLE_LOOKS:
            async with services.outbox.transaction() as sql:
                for ident, attempt in open_ones:
                    await fail(sql, services.search, ident, attempt, STRANDED)
        return not open_ones
