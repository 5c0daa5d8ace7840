"""`streamlane attachments`: files of a chat, attached, listed and removed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape

from consumers.commands.session import session
from consumers.commands.terminal import FAILED, OK, emit, out, shown
from consumers.knowledge.answers import attachments
from consumers.knowledge.documents.uploading import file_name
from consumers.knowledge.tables.attachments import Attachment
from pipeline.errors import ConfigurationError


async def add(session_id: str, files: Sequence[Path], as_json: bool, *, tenant: int) -> int:
    """Attach files; return the exit code."""
    async with session(tenant=tenant) as opened:
        services = opened.services
        try:
            sent = [
                await attachments.attach(
                    services.outbox,
                    services.files,
                    attachments.Sent(
                        tenant_id=tenant,
                        session_id=session_id,
                        name=file_name(path.name),
                        path=path,
                        kept_hours=services.settings.chat_attachment_ttl_hours,
                    ),
                )
                for path in files
            ]
        except attachments.TooMany:
            most = attachments.MOST_OF_SESSION
            raise ConfigurationError(f"a session has at most {most} files: remove some") from None
    if as_json:
        emit({"session": session_id, "ids": sent})
    else:
        for ident, path in zip(sent, files, strict=True):
            out.print(f"{ident}  {escape(shown(path.name))}")
    return OK


async def listed(session_id: str, as_json: bool, *, tenant: int) -> int:
    """Print the files of a session; return the exit code."""
    async with session(tenant=tenant) as opened, opened.services.database.read() as sql:
        rows = await attachments.of_session(sql, tenant, session_id)
    if as_json:
        emit({"session": session_id, "attachments": [_facts(row) for row in rows]})
    else:
        for row in rows:
            why = f": {escape(shown(row.error_message, 200))}" if row.error_message else ""
            out.print(f"{row.id}  {row.status}  {escape(shown(row.file_name))}{why}")
        if not rows:
            out.print("no file in this session")
    return OK


async def remove(session_id: str, ids: Sequence[str], as_json: bool, *, tenant: int) -> int:
    """Remove files of a session; return the exit code."""
    async with session(tenant=tenant) as opened:
        services = opened.services
        gone = [
            ident
            for ident in ids
            if await attachments.remove(services.outbox, services.files, tenant, session_id, ident)
        ]
    if as_json:
        emit({"session": session_id, "removed": gone})
    else:
        out.print(f"{len(gone)} of {len(ids)} removed")
    return OK if len(gone) == len(ids) else FAILED


def _facts(row: Attachment) -> dict[str, Any]:
    names = ("id", "file_name", "file_size", "status", "error_message", "warnings", "expires_at")
    return {name: getattr(row, name) for name in names}
