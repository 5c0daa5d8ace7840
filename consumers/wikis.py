"""Gives the HTTP service our wikis."""

from collections.abc import Sequence

from consumers.knowledge.bases.knowledge_bases import shown_base
from consumers.knowledge.tables.profiles import StoredProfile
from consumers.knowledge.wiki import showing
from pipeline import Database
from pipeline.http.wikis import Portrait, WikiHome, WikiPage, WikiSource, WikiText


class StoredWikis:
    """Implements `pipeline.http.wikis.Wikis`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def bases(self, tenant_id: int | None = None) -> Sequence[WikiHome]:
        """See the protocol."""
        async with self._database.read() as sql:
            found = await showing.wikis(sql, tenant_id)
        return [WikiHome(base.id, base.name, base.tenant_id, pages) for base, pages in found]

    async def base(self, base_id: str, tenant_id: int | None = None) -> WikiHome | None:
        """See the protocol."""
        async with self._database.read() as sql:
            base = await shown_base(sql, base_id, tenant_id)
        return WikiHome(base.id, base.name, base.tenant_id) if base else None

    async def portrait(self, base_id: str) -> Portrait | None:
        """See the protocol."""
        async with self._database.read() as sql:
            found = await sql.get(StoredProfile, base_id)
        if found is None or not found.gist:
            return None
        return Portrait(
            gist=found.gist,
            topics=found.topics,
            questions=found.typical_questions,
            documents=int(found.stats.get("document_count", 0)),
            method=found.method,
            error=found.error,
            generated_at=found.generated_at or 0,
        )

    async def pages(self, base_id: str, after: str = "", limit: int | None = None) -> Sequence[WikiPage]:
        """See the protocol."""
        async with self._database.read() as sql:
            return [_page(one) for one in await showing.pages_of(sql, base_id, after, limit)]

    async def page(self, base_id: str, slug: str, version: int | None = None) -> WikiText | None:
        """See the protocol."""
        async with self._database.read() as sql:
            found = await showing.shown_page(sql, base_id, slug, version)
        if found is None:
            return None
        sources = [WikiSource(one.knowledge_id, one.title, one.source) for one in found.sources]
        versions = [(one.number, one.created_at) for one in found.versions]
        return WikiText(_page(found.page), found.body, sources, versions)

    async def about(self, document_id: str) -> Sequence[tuple[str, str, str]]:
        """See the protocol."""
        async with self._database.read() as sql:
            return await showing.pages_about(sql, document_id)


def _page(listed: showing.Listed) -> WikiPage:
    return WikiPage(
        slug=listed.slug,
        title=listed.title,
        kind=listed.kind.value,
        folder=listed.folder,
        lead=listed.lead,
        method=listed.method,
        version=listed.version,
        updated_at=listed.updated_at,
    )
