"""`streamlane documents write` and `tables`."""

from rich.markup import escape
from sqlalchemy import select

from consumers.commands.session import session
from consumers.commands.terminal import FAILED, OK, emit, out
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.documents import manual
from consumers.knowledge.tables.data import TableSummary
from consumers.knowledge.tables.knowledge import Knowledge
from pipeline.errors import ConfigurationError


async def write(title: str, content: str, kb_name: str, document: str, as_json: bool, *, tenant: int) -> int:
    """Publish what was written; return the exit code."""
    content = content.encode("utf-8", "replace").decode().replace("\0", " ")
    if not content.strip():
        raise ConfigurationError("there is nothing to publish: the text is empty")
    if len(content.encode()) > manual.LONGEST:
        raise ConfigurationError(
            f"it has more than {manual.LONGEST} bytes: `streamlane ingest` takes it as a file"
        )
    writing = manual.Writing(title[:200], content)
    async with session(tenant=tenant) as opened:
        services = opened.services
        if document:
            step, _ = await manual.rewrite(services, tenant, document, writing)
            if not step.ok:
                raise ConfigurationError(
                    f"no document {document!r} that was written by hand and is not being deleted"
                )
            ident, attempt = document, step.attempt + 1
        else:
            async with services.outbox.transaction() as sql:
                kb = await ensure_base(sql, tenant, kb_name)
            ident, _ = await manual.write(services, kb.id, writing)
            attempt = 1
    if as_json:
        emit({"id": ident, "attempt": attempt})
    else:
        out.print(f"{ident}: any worker reads it (`streamlane worker background`)", markup=False)
    return OK


async def show_tables(document: str, as_json: bool, *, tenant: int) -> int:
    """Print what the tables of a document hold; return the exit code."""
    async with session(tenant=tenant) as opened, opened.services.database.read() as sql:
        found = await sql.get(Knowledge, document)
        if found is None or found.tenant_id != tenant:
            raise ConfigurationError(f"no document {document!r} (any more)")
        of = select(TableSummary).where(TableSummary.knowledge_id == document)
        rows = (await sql.scalars(of.order_by(TableSummary.position))).all()
    if as_json:
        names = ("name", "rows", "columns", "description", "method")
        emit({"id": document, "tables": [{name: getattr(row, name) for name in names} for row in rows]})
    else:
        out.print(escape("\n\n".join(row.description for row in rows) or "no table is described (yet)"))
    return OK if rows else FAILED
