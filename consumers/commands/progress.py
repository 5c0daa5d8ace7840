"""A progress bar for each stage of the document pipeline, read from the queues."""

from types import TracebackType
from typing import Final, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from consumers.commands.terminal import err
from pipeline import Pipeline

STAGES: Final = {
    "default": "parse and index",
    "multimodal": "read pictures",
    "postprocess": "fan out",
    "summary": "summarise and tag",
    "question": "ask questions",
    "graph": "link into a graph",
}


class Stages:
    """Shows bars on a terminal; elsewhere one line whenever a stage is through."""

    def __init__(self, pipeline: Pipeline, documents: int) -> None:
        self._pipeline = pipeline
        self._documents = documents
        self._before: dict[str, int] | None = None
        self._through: set[str] = set()
        self._bars: dict[str, TaskID] = {}
        self._progress = Progress(
            TextColumn("{task.description:>18}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=err,
        )

    def __enter__(self) -> Self:
        if err.is_terminal:
            self._progress.start()
        else:
            err.print(f"{self._documents} files")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if err.is_terminal:
            self._progress.stop()

    async def look(self) -> None:
        """Read the queues and redraw."""
        stats = {stat.name: stat for stat in await self._pipeline.inspector.queues()}
        if self._before is None:
            self._before = {name: stat.processed + stat.failed for name, stat in stats.items()}
        for name, label in STAGES.items():
            stat = stats[name]
            done = stat.processed + stat.failed - self._before[name]
            total = done + stat.size
            if total == 0:
                continue
            if err.is_terminal:
                bar = self._bars.get(name)
                if bar is None:
                    bar = self._bars[name] = self._progress.add_task(label, total=total)
                self._progress.update(bar, completed=done, total=total)
            elif stat.size == 0 and name not in self._through:
                self._through.add(name)
                err.print(f"{label}: {done} done")
