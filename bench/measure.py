"""What every bench needs: job types, percentiles, and one line a figure beside its budget."""

import statistics
from collections.abc import Sequence

from contracts.jobs import JobPayload


class Noop(JobPayload, type="bench:noop", queue="default", max_retry=0):
    """Nothing to do; as large as a usual payload."""

    n: int
    pad: str = "x" * 250


class Scoped(JobPayload, type="bench:scoped", queue="default", max_retry=0):
    """Belongs to a tenant and to a document."""

    n: int
    tenant_id: int
    knowledge_id: str


class Hold(JobPayload, type="bench:hold", queue="default", max_retry=0):
    """Write down a start, then wait to be killed; once more, and it is done."""

    diary: str


class Slow(JobPayload, type="bench:slow", queue="chat_attachment", max_retry=0):
    """Takes its slot for a moment."""

    n: int


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of all are at most."""
    ordered = sorted(values)
    return ordered[min(round(share * len(ordered)), len(ordered) - 1)]


def report(what: str, found: str, budget: str, ratio: float | None) -> None:
    """One line: what was measured, what was found, what it must be, and how far it is from that (1 is the budget)."""
    shown = "" if ratio is None else f"{ratio:6.2f}"
    print(f"{what:<48} {found:<38} {budget:<22} {shown}", flush=True)


def report_header() -> None:
    report("what", "found", "budget", None)
    print("-" * 118, flush=True)


def spread(seconds: Sequence[float]) -> str:
    """p50, p99 and the largest, in milliseconds."""
    middle, most, worst = statistics.median(seconds), percentile(seconds, 0.99), max(seconds)
    return f"p50 {middle * 1000:.1f}  p99 {most * 1000:.1f}  max {worst * 1000:.1f} ms"
