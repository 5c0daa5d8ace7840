"""A document over HTTP: what it is, what it is made of, and its original."""

import pytest
from pipeline.store.keys import Capability

from tests.http.conftest import BASES

KNOWLEDGE = "/api/v1/knowledge"
TEXT = "# Leases\n\n" + "".join(
    f"## Part {n}\n\nA lease is a promise that job {n} stays with its worker. The worker renews the lease of job {n} every "
    f"three seconds. The reclaimer takes job {n} from a worker that was lost.\n\n"
    for n in range(12)
)


@pytest.fixture
async def sent(operator, base):
    """A document that was sent: its id."""

    async def sent(name: str = "leases.md", text: str = TEXT, **settings) -> str:
        kb = await base(name, **settings)
        answer = await operator.post(f"{BASES}/{kb}/knowledge", files={"file": (name, text)})
        return str(answer.json()["knowledge"][0]["id"])

    return sent


@pytest.mark.usefixtures("working")
async def test_a_document_says_what_it_is_and_what_was_made_of_it(operator, sent, ended):
    ident = await sent(extract_graph=False)
    said = await ended(ident)
    assert (said["kind"], said["file_type"], said["file_size"]) == ("file", "md", len(TEXT))
    assert said["summary_status"] == "completed"
    assert "lease" in said["summary"]
    assert said["questions"] > 0
    assert said["tags"] == []

    pages, cursor = [], None
    while True:
        params = {"page_size": 2} | ({"cursor": cursor} if cursor else {})
        page = (await operator.get(f"{KNOWLEDGE}/{ident}/chunks", params=params)).json()
        pages += page["chunks"]
        cursor = page.get("next_cursor")
        if not page["has_more"]:
            break
    assert [one["position"] for one in pages] == list(range(said["chunks"]))
    assert TEXT[pages[1]["start"] : pages[1]["end"]] == pages[1]["text"]
    assert sum(len(one["questions"]) for one in pages) == said["questions"]
    of_pictures = await operator.get(f"{KNOWLEDGE}/{ident}/chunks", params={"kind": "ocr"})
    assert of_pictures.json()["chunks"] == []


async def test_an_original_is_saved_and_never_shown(operator, sent):
    for name in ("page.html", 'qu"ote; x=1.txt', "лебедь.md"):
        ident = await sent(name, f"<script>alert('{name}')</script>")
        answer = await operator.get(f"{KNOWLEDGE}/{ident}/download")
        assert answer.content.decode() == f"<script>alert('{name}')</script>"
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["x-content-type-options"] == "nosniff"
        disposition = answer.headers["content-disposition"]
        assert disposition.startswith("attachment; ")
        assert '"; x=1' not in disposition


async def test_a_document_of_an_address_has_no_original_yet(operator, base):
    kb = await base()
    answer = await operator.post(f"{BASES}/{kb}/knowledge", json={"url": "http://a.test/b"})
    ident = answer.json()["knowledge"][0]["id"]
    assert (await operator.get(f"{KNOWLEDGE}/{ident}")).json()["kind"] == "url"
    answer = await operator.get(f"{KNOWLEDGE}/{ident}/download")
    assert (answer.status_code, answer.json()["code"]) == (404, "no_original")


async def test_another_tenants_document_has_neither_chunks_nor_an_original(client, key, sent):
    ident = await sent()
    theirs = await key(*Capability, tenant=2)
    for what in ("chunks", "download"):
        answer = await client.get(f"{KNOWLEDGE}/{ident}/{what}", headers=theirs)
        assert (answer.status_code, answer.json()["code"]) == (404, "knowledge_not_found")


async def test_a_place_that_is_none_is_refused(operator, sent):
    ident = await sent()
    for cursor in ("x", "text.", "text.-1", "text.9999999999", "words.1"):
        answer = await operator.get(f"{KNOWLEDGE}/{ident}/chunks", params={"cursor": cursor})
        assert (answer.status_code, answer.json()["code"]) == (400, "runtime_task_cursor_invalid")
