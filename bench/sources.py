"""A folder of many small files: a full run, then changes, deletions and renames, an incremental run, and a look for drift.
The first argument is how many files. Their documents are registered and not parsed, which measures the harvester; as many as the
second argument says are brought in once more with all that documents get.
"""

import asyncio
import os
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.measure import report, report_header
from consumers.handlers import sync
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.tables.sources import DataSource, SyncLog
from consumers.lanes import HANDLERS
from consumers.services import Services, open_services
from consumers.sources import registry, runs
from consumers.sources.registry import NewSource
from consumers.sources.runs import COUNTS, Wish
from contracts.payloads.maintenance import KnowledgeListDelete
from contracts.sources import SyncMode
from pipeline import Handler, Pipeline
from pipeline.testing import drain

FILES, CHANGED, DELETED, RENAMED, WHOLE = 5_000, 50, 20, 10, 300
REMOVING = [one for one in HANDLERS if one.payload is KnowledgeListDelete]


async def harvested(
    pipeline: Pipeline,
    services: Services,
    source: DataSource,
    mode: SyncMode,
    handlers: Sequence[Handler] = (*sync.HANDLERS, *REMOVING),
) -> SyncLog:
    """Run a source to its end, and say how long that took and what it came to."""
    began = time.perf_counter()
    async with services.outbox.transaction() as session:
        run_id = await runs.open_run(session, source, Wish(mode=mode))
    await drain(pipeline, handlers, services=services, timeout=3600)
    took = time.perf_counter() - began
    async with services.database.read() as session:
        run = await session.get_one(SyncLog, run_id)
    found = {name: getattr(run, name) for name in COUNTS if getattr(run, name)}
    rate = f"{sum(found.values()) / took * 60:,.0f} items a minute" if mode is SyncMode.FULL else ""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    report(f"{source.name}, {mode}: {took:.1f} s", f"{run.state} {found}", f"{rate} {peak} MB at most", None)
    return run


def written(folder: Path, files: int) -> list[Path]:
    """Make a folder of files of 1 KB."""
    folder.mkdir()
    names = [folder / f"{n:05}.txt" for n in range(files)]
    for at, path in enumerate(names):
        path.write_text(f"Paper {at}. " + "It says something of its own. " * 30)
    return names


async def named(services: Services, folder: Path) -> DataSource:
    """Name a folder as the source of a base."""
    new = NewSource(name=folder.name, kind="folder", config={"path": str(folder)})
    async with services.database.transaction() as session:
        source = await registry.create(session, await ensure_base(session, 1, folder.name), new)
    if source is None:
        raise LookupError("the base is not empty")
    return source


async def measure(folder: Path, files: int, whole: int) -> None:
    """Harvest a folder, what changed in it, and another with all that its documents get."""
    names = written(folder / "papers", files)
    opening = Pipeline.open(data_dir=folder / "data", source_folders=str(folder))
    async with opening as pipeline, open_services(pipeline) as services:
        source = await named(services, folder / "papers")
        await harvested(pipeline, services, source, SyncMode.FULL)
        for path in names[:CHANGED]:
            path.write_text(f"{path.read_text()} Revised.")
        for path in names[CHANGED : CHANGED + DELETED]:
            path.unlink()
        for path in names[CHANGED + DELETED : CHANGED + DELETED + RENAMED]:
            path.rename(path.with_name(f"new-{path.name}"))
        await harvested(pipeline, services, source, SyncMode.INCREMENTAL)
        run = await harvested(pipeline, services, source, SyncMode.RECONCILE)
        report("drift afterwards", str(run.detail["drift"]), "none", None)
    written(folder / "parsed", whole)
    opening = Pipeline.open(data_dir=folder / "data-parsed", source_folders=str(folder))
    async with opening as pipeline, open_services(pipeline) as services:
        source = await named(services, folder / "parsed")
        await harvested(pipeline, services, source, SyncMode.FULL, HANDLERS)


def main(arguments: list[str]) -> None:
    os.environ.pop("STREAMLANE_REDIS_URL", None)
    report_header()
    report("load of the machine", " ".join(f"{one:.1f}" for one in os.getloadavg()), "", None)
    files, whole = (int(one) for one in [*arguments, *map(str, (FILES, WHOLE)[len(arguments) :])])
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        asyncio.run(measure(Path(folder), files, whole))
