"""`index:delete`: what the index still has of passages that are gone."""

from typing import Final

from consumers.services import Services
from contracts.payloads.maintenance import IndexDelete
from pipeline import Context, Skip, on

AT_ONCE: Final = 500
"""Chunks of one transaction."""


async def delete_entries(job: IndexDelete, ctx: Context[Services]) -> None:
    """Remove the entries of deleted chunks, some in a transaction. Run twice, it finds none left."""
    services, removed = ctx.services, 0
    others = set(job.effective_engines) - {services.database.url.get_backend_name()}
    if others:
        raise Skip(f"its entries lie in {', '.join(sorted(others))}, which this worker cannot reach")
    for start in range(0, len(job.chunk_ids), AT_ONCE):
        some = job.chunk_ids[start : start + AT_ONCE]
        async with services.database.transaction() as session:
            removed += await services.search.drop_chunks(session, some)
        await ctx.progress(start + len(some), len(job.chunk_ids), "removing entries")
    ctx.log.info("entries removed", chunks=len(job.chunk_ids), entries=removed)


HANDLERS: Final = (on(IndexDelete, delete_entries),)
