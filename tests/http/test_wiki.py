"""The wiki over HTTP and in the dashboard: who may read it, what is shown, and that a document's words stay words."""

import re

import pytest
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.documents.documents import register
from consumers.knowledge.tables.wiki import PageKind
from consumers.knowledge.wiki.pages import Plan, known_pages, store_pages, store_sources
from consumers.knowledge.wiki.writing import Account, Draft
from consumers.services import search_of
from pipeline.http.dashboard.markup import rendered
from pipeline.store import people
from pipeline.store.keys import Capability

from tests.support.library import file

HOSTILE = (
    '<script>alert(1)</script> ![x](https://example.com/x.png) [a](javascript:alert(1)) <a href="//x">y</a>'
)


@pytest.fixture
async def kb(database):
    """A base of tenant 7 with two pages, one of them written twice."""
    index = search_of(database)
    async with database.transaction() as sql:
        base = await ensure_base(sql, 7, "notes", {"wiki": True})
        found = await register(sql, base, file("/notes/guide.md"))
        account = Account(knowledge_id=found.knowledge_id, title="Guide", file_name="guide.md")
        await store_sources(sql, base.id, found.knowledge_id, 1, {"core-pool": account})
    for text in ("An older text.[^1]", f"Of the [guide](wiki:guide-1).[^1]\n\n{HOSTILE}"):
        async with database.transaction() as sql:
            known = await known_pages(sql, base.id, ["core-pool", "guide-1"])
            body = f"# Core Pool\n\n{text}\n\n[^1]: [Guide](wiki:guide-1) › Basics\n"
            drafts = {"core-pool": Draft("Core Pool", body, text), "guide-1": Draft("Guide", "# Guide\n", "")}
            kinds = {"core-pool": PageKind.TOPIC, "guide-1": PageKind.DOCUMENT}
            plans = [
                Plan(slug=slug, kind=kinds[slug], folder="topics", known=known.get(slug), draft=draft,
                     body=draft.body, method="extractive")
                for slug, draft in drafts.items()
            ]  # fmt: skip
            await store_pages(sql, index, base.id, plans)
    yield base
    await index.close()


def path(kb, slug=""):
    return f"/api/v1/knowledge-bases/{kb.id}/wiki/pages" + (f"/{slug}" if slug else "")


@pytest.fixture
async def reader(client, key):
    client.headers.update(await key(Capability.KNOWLEDGE_READ, tenant=7))
    return client


async def test_the_pages_of_a_base_are_listed_page_by_page(reader, kb):
    first = (await reader.get(path(kb), params={"page_size": 1})).json()
    assert [page["slug"] for page in first["pages"]] == ["core-pool"]
    assert first["has_more"]
    second = (await reader.get(path(kb), params={"cursor": first["next_cursor"]})).json()
    assert [page["slug"] for page in second["pages"]] == ["guide-1"]
    assert not second["has_more"]


async def test_a_page_has_its_text_sources_and_versions(reader, kb):
    found = (await reader.get(path(kb, "core-pool"))).json()
    assert found["body"].startswith("# Core Pool\n\nOf the [guide](wiki:guide-1).")
    assert [source["source"] for source in found["sources"]] == ["/notes/guide.md"]
    assert [one["version"] for one in found["versions"]] == [2, 1]
    older = (await reader.get(path(kb, "core-pool"), params={"version": 1})).json()
    assert "An older text." in older["body"]


async def test_what_is_not_there_is_not_found(reader, kb):
    for where in (
        path(kb, "nothing"),
        "/api/v1/knowledge-bases/nothing/wiki/pages",
        path(kb, "core-pool") + "?version=9",
    ):
        answer = await reader.get(where)
        assert answer.status_code == 404
        assert answer.json()["code"] in {"wiki_page_not_found", "knowledge_base_not_found"}


async def test_another_tenant_and_a_key_without_the_right_see_nothing(client, key, kb):
    foreign = await key(Capability.KNOWLEDGE_READ, tenant=8)
    assert (await client.get(path(kb), headers=foreign)).status_code == 404
    assert (await client.get(path(kb, "core-pool"), headers=foreign)).status_code == 404
    assert (await client.get(path(kb), headers=await key(Capability.SYSTEM_AUDIT_READ))).status_code == 403
    assert (await client.get(path(kb))).status_code == 401


@pytest.fixture
async def visitor(client, database, monkeypatch):
    monkeypatch.setattr(people, "COST", 2**4)
    async with database.transaction() as sql:
        await people.add(sql, "ann", people.hashed("correct horse"))
    await client.post("/sign-in", data={"name": "ann", "password": "correct horse", "back": "/"})
    return client


async def test_the_dashboard_leads_from_the_bases_to_a_page_and_its_sources(visitor, kb):
    assert "notes" in (await visitor.get("/wiki")).text
    assert f'href="/wiki/{kb.id}/core-pool"' in (await visitor.get(f"/wiki/{kb.id}")).text
    page = (await visitor.get(f"/wiki/{kb.id}/core-pool")).text
    assert f'href="/wiki/{kb.id}/guide-1"' in page
    assert 'href="#source-1"' in page
    assert "Version 2" in page
    document = re.search(r'href="(/documents/[^"]+)"', page)
    assert document is not None
    assert f'href="/wiki/{kb.id}/core-pool"' in (await visitor.get(document[1])).text
    assert "An older text." in (await visitor.get(f"/wiki/{kb.id}/core-pool?version=1")).text
    visitor.headers["accept-language"] = "ru"
    assert "Составлено по" in (await visitor.get(f"/wiki/{kb.id}/core-pool")).text


async def test_words_of_a_document_are_never_markup(visitor, kb):
    page = (await visitor.get(f"/wiki/{kb.id}/core-pool")).text
    article = page[page.index("<article") : page.index("</article>")]
    assert "<script" not in article
    assert "<img" not in article
    assert "javascript:" not in re.findall(r'href="([^"]*)"', article)
    assert '<a href="//x"' not in article
    assert "&lt;script&gt;" in article


@pytest.mark.parametrize(
    "where",
    ["/wiki/nothing", "/wiki/nothing/core-pool", "/wiki/{id}/nothing", "/wiki/{id}/core-pool?version=7"],
)
async def test_a_page_that_is_gone_says_so(visitor, kb, where):
    answer = await visitor.get(where.format(id=kb.id))
    assert answer.status_code == 404
    assert "no such wiki page" in answer.text


def test_a_mark_of_a_footnote_that_is_not_there_stays_a_word():
    text, notes = rendered("a[^1] b[^2]\n\n[^1]: [x](wiki:y)", lambda slug: f"/wiki/k/{slug}")
    assert '<a href="#source-1">1</a>' in text
    assert "[2]" in text
    assert [(number, str(note)) for number, note in notes] == [(1, '<a href="/wiki/k/y">x</a>')]
