"""The document pipeline inside the test: an open session and documents worked to their end."""

from collections.abc import Iterable
from pathlib import Path

from consumers.commands.ingest import bring_in
from consumers.commands.report import Outcome
from consumers.commands.session import POOLS, Session
from consumers.lanes import HANDLERS
from consumers.services import open_services
from pipeline import Handler, Pipeline

LIMIT_S = 60


async def ingest(*paths: Path, kb: str = "test", handlers: Iterable[Handler] = HANDLERS) -> list[Outcome]:
    """Bring files into a base and wait until each has ended."""
    handlers = tuple(handlers)
    ours = {handler.payload.spec.type for handler in handlers}  # other tests register types of their own
    async with (
        Pipeline.open() as pipeline,
        open_services(pipeline) as services,
        pipeline.workers(
            pools=POOLS,
            handlers=handlers,
            services=services,
            only=ours,
            duties=services.duties,
        ),
    ):
        opened = Session(pipeline, services)
        return await bring_in(opened, kb, paths, wait=True, limit=LIMIT_S, quiet=True)


def write(folder: Path, **texts: str) -> list[Path]:
    """Write files; ``a_md`` becomes ``a.md``."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, text in texts.items():
        path = folder / name.replace("_", ".")
        path.write_text(text)
        paths.append(path)
    return paths
