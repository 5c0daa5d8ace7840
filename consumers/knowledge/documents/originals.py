"""Originals: the files of documents as they came in. Documents of the same content share one."""

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.tables.knowledge import Knowledge
from pipeline.store.tables import database_identity


async def hold(session: AsyncSession, *, alone: bool = False) -> None:
    """Until the end of this transaction no original is removed, or, `alone`, no document comes in. It is the last thing that
    a transaction locks.
    """
    await session.execute(select(database_identity.c.id).with_for_update(read=not alone))


async def is_used(session: AsyncSession, file_key: str) -> bool:
    """Whether any document has this file."""
    return (
        await session.scalar(select(Knowledge.id).where(Knowledge.file_key == file_key).limit(1)) is not None
    )
