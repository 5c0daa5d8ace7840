"""What `ingest` says of its files in the end: one by one for a script, alike ones together for a person."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

from rich.markup import escape

from consumers.commands.terminal import emit, out, shown
from consumers.knowledge.documents.documents import Entry
from consumers.knowledge.progress.fates import Fate
from contracts.knowledge import OPEN, ParseStatus, SpanCode

FEW: Final = 3
"""Files of one fate that are named."""
SKIPPED: Final = "skipped"
TRY_AGAIN: Final = " (unchanged since then; --retry tries again)"

_ALWAYS: Final = frozenset({ParseStatus.COMPLETED, ParseStatus.FAILED})


@dataclass(frozen=True, slots=True)
class Outcome:
    """One file and how it fared. `entry` None: it could not even be read. `named`: it was asked for by its name."""

    path: str
    fate: Fate
    entry: Entry | None
    named: bool = True

    @property
    def status(self) -> str:
        """The state of the document; a file of another kind that was met in a folder is only skipped."""
        if self.fate.code == SpanCode.DOCREADER_UNSUPPORTED and not self.named:
            return SKIPPED
        return self.fate.status.value


def report(kb_name: str, outcomes: Sequence[Outcome], seconds: float, *, as_json: bool) -> None:
    """Say how each file fared."""
    counts = Counter(outcome.status for outcome in outcomes)
    skipped = counts.pop(SKIPPED, 0)
    unchanged = sum(outcome.entry is Entry.UNCHANGED for outcome in outcomes)
    chunks = sum(outcome.fate.chunks for outcome in outcomes)
    if as_json:
        totals: dict[str, Any] = {
            "documents": len(outcomes) - skipped,
            **{s.value: counts[s.value] for s in ParseStatus if counts[s.value] or s in _ALWAYS},
            "skipped": skipped,
            "unchanged": unchanged,
            "chunks": chunks,
            "seconds": round(seconds, 2),
        }
        emit({"kb": kb_name, "documents": [_described(outcome) for outcome in outcomes], "totals": totals})
        return
    for line in _lines(outcomes):
        out.print(escape(line))
    said = ", ".join(f"{counts[s.value]} {s.value}" for s in ParseStatus if counts[s.value]) or "none"
    note = f" ({unchanged} unchanged since last time)" if unchanged else ""
    left_out = f"; {skipped} other files skipped" if skipped else ""
    out.print(
        f"{len(outcomes) - skipped} documents in {kb_name!r}: {said}{note}{left_out}; {chunks} chunks, {seconds:.1f} s"
    )


def _lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """A line for each file of which there is something to say; of many alike the first ones and how many more."""
    alike: dict[tuple[str, str], list[str]] = {}
    for outcome in outcomes:
        for remark in _remarks(outcome):
            alike.setdefault(remark, []).append(outcome.path)
    for (word, reason), paths in alike.items():
        because = f": {shown(reason)}" if reason else ""
        first = paths if len(paths) <= FEW + 1 else paths[:FEW]
        yield from (f"{word}  {shown(path)}{because}" for path in first)
        if more := paths[len(first) :]:
            yield f"{word}  … and {len(more)} more {_kinds(more)}{because}"


def _remarks(outcome: Outcome) -> Iterator[tuple[str, str]]:
    fate = outcome.fate
    if outcome.status == SKIPPED or fate.status in {ParseStatus.FAILED, ParseStatus.CANCELLED}:
        again = TRY_AGAIN if outcome.entry is Entry.HOPELESS and outcome.status != SKIPPED else ""
        yield outcome.status, f"{fate.error}{again}"
    elif fate.status in OPEN:
        yield "queued", ""
    for warning in fate.warnings:
        yield "warning", warning


def _kinds(paths: Sequence[str]) -> str:
    """What the names of files end with, the most frequent first: "of type .pyc, .so"."""
    counted = Counter(PurePath(path).suffix or "none" for path in paths)
    return f"of type {', '.join(shown(suffix, 20) for suffix, _ in counted.most_common(FEW))}" + (
        ", …" if len(counted) > FEW else ""
    )


def _described(outcome: Outcome) -> dict[str, Any]:
    fate = outcome.fate
    return {
        "path": outcome.path,
        "status": outcome.status,
        "error": fate.error or None,
        "chunks": fate.chunks,
        "warnings": list(fate.warnings),
        "outcome": outcome.entry.value if outcome.entry else "unreadable",
    }
