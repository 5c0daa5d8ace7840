"""How far files have come, stage by stage: bars on a terminal, lines elsewhere. Read from the documents themselves."""

import asyncio
import time
from collections.abc import Collection
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from consumers.commands.terminal import err
from consumers.knowledge.progress.fates import headway
from contracts.knowledge import SlotKind
from pipeline import Database
from pipeline.errors import StreamlaneError

TAKING_IN: Final = "taking in"
PARSING: Final = "parse and index"
SLOTS: Final = {
    SlotKind.IMAGE: "read pictures",
    SlotKind.SUMMARY: "summarise",
    SlotKind.QUESTION: "ask questions",
    SlotKind.GRAPH: "link into a graph",
    SlotKind.WIKI: "write the wiki",
}
LOOK_S: Final = 0.5
RESTS: Final = 20
"""Times as long as a look took, so that one at thousands of documents takes nothing from their jobs."""
SAY_S: Final = 10.0
"""Between two lines about one stage, where there is no terminal."""


class Stages:
    """Shown while its block runs, and once more at its end. Tell it what was taken in; with `enrichments` it also
    looks up how far the documents have come.
    """

    def __init__(self, database: Database, files: int, enrichments: Collection[SlotKind]) -> None:
        self._database = database
        self._files = files
        self._enrichments = enrichments
        self._taken = self._refused = 0
        self._idents: list[str] = []
        self._bars: dict[str, TaskID] = {}
        self._said: dict[str, tuple[float, int]] = {}
        self._progress = Progress(
            TextColumn("{task.description:>18}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
            console=err,
        )

    async def __aenter__(self) -> Self:
        if err.is_terminal:
            self._progress.start()
        else:
            err.print(f"{self._files} files")
        self._show(TAKING_IN, 0, self._files)
        self._looking = asyncio.create_task(self._look())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._looking.cancel()
        try:
            await asyncio.wait([self._looking])
            if error is None:
                await self._draw()
        finally:
            if err.is_terminal:
                self._progress.stop()

    def took(self, idents: list[str], refused: int) -> None:
        """Count files that were taken in as documents, and others that could not be."""
        self._idents += idents
        self._refused += refused
        self._taken += len(idents) + refused
        self._show(TAKING_IN, self._taken, self._files)

    async def _look(self) -> None:
        while True:
            begun = time.monotonic()
            with suppress(StreamlaneError):  # whoever does the work says so
                await self._draw()
            await asyncio.sleep(max(LOOK_S, RESTS * (time.monotonic() - begun)))

    async def _draw(self) -> None:
        if not (self._idents and self._enrichments):
            return
        async with self._database.read() as sql:
            now = await headway(sql, self._idents)
        documents = self._files - self._refused
        self._show(PARSING, now.parsed, documents)
        for kind, label in SLOTS.items():
            waiting, parts = now.waiting.get(kind, (0, 0))
            if waiting or label in self._said or kind in self._enrichments:
                through = now.parsed if kind is SlotKind.IMAGE else now.handed_over
                self._show(label, max(0, through - waiting), documents, parts if parts > waiting else 0)

    def _show(self, label: str, done: int, total: int, parts: int = 0) -> None:
        note = f"{parts} parts left" if parts else ""
        if err.is_terminal:
            if label not in self._bars:
                self._bars[label] = self._progress.add_task(label, total=total, note="")
            self._progress.update(self._bars[label], completed=done, total=total, note=note)
            self._said[label] = (0.0, done)
            return
        now = time.monotonic()
        at, said = self._said.setdefault(label, (now, 0))
        if done != said and (done == total or now - at >= SAY_S):
            self._said[label] = (now, done)
            err.print(f"{label}: {done} of {total}{f' ({note})' if note else ''}")
