"""Addresses given over HTTP: fetched by a worker, tried again while that may help, and never where nobody may look."""

import pytest
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from tests.http.conftest import BASES
from tests.support.web import LOOPBACK, Web, served

PAGE = """<html><head><title>Leases &amp; fences</title></head><body><nav>Home Impressum</nav>
<main><h1>Leases</h1><p>A lease ends when nobody renews it.</p></main></body></html>"""
FEW = {"ask_questions": False, "extract_graph": False}

pytestmark = pytest.mark.usefixtures("working")


@pytest.fixture
async def web():
    async with served() as web:
        yield web


@pytest.fixture
def own_networks(monkeypatch):
    """The loopback may be called."""
    monkeypatch.setenv("STREAMLANE_OUTBOUND_NETWORKS", LOOPBACK)


@pytest.fixture
def pipeline(own_networks, pipeline):
    return pipeline


@pytest.fixture
def bring(operator, base, ended):
    """Send an address; return its document once it has ended."""

    async def bring(address: str):
        kb = await base(address, **FEW)
        answer = await operator.post(f"{BASES}/{kb}/knowledge", json={"url": address})
        assert answer.status_code == 202
        return await ended(answer.json()["knowledge"][0]["id"])

    return bring


async def test_a_page_becomes_a_document_of_its_words(operator, web: Web, bring):
    web.pages["/leases"] = HTMLResponse(PAGE)
    document = await bring(web.at("/leases#top"))
    assert (document["parse_status"], document["name"]) == ("completed", "Leases & fences")
    assert document["source"] == web.at("/leases")
    hits = await operator.post(
        f"{BASES}/{document['knowledge_base_id']}/search", json={"query": "who renews a lease"}
    )
    text = hits.json()["hits"][0]["text"]
    assert "nobody renews it" in text
    assert "Impressum" not in text


async def test_an_address_comes_in_once_and_is_fetched_again_by_another_parse(operator, web, bring, ended):
    web.pages["/a"] = PlainTextResponse("A first word about leases.")
    document = await bring(web.at("/a"))
    again = await operator.post(
        f"{BASES}/{document['knowledge_base_id']}/knowledge", json={"url": web.at("/a#x")}
    )
    assert (again.status_code, again.json()["duplicate"]) == (200, True)
    assert again.json()["knowledge"][0]["id"] == document["id"]
    web.pages["/a"] = PlainTextResponse("Another word about fences.")
    await operator.post(f"/api/v1/knowledge/{document['id']}/reparse")
    assert (await ended(document["id"]))["file_size"] == len("Another word about fences.")
    assert len(web.asked) == 2


async def test_what_an_answer_says_of_its_letters_counts(operator, web: Web, bring):
    said = "Аренда кончается, когда никто её не продлевает."
    web.pages["/ru"] = Response(said.encode("koi8-r"), media_type="text/plain; charset=koi8-r")
    document = await bring(web.at("/ru"))
    hits = await operator.post(f"{BASES}/{document['knowledge_base_id']}/search", json={"query": "аренда"})
    assert hits.json()["hits"][0]["text"] == said


async def test_what_is_not_there_fails_at_once_and_says_so(web: Web, bring):
    document = await bring(web.at("/nowhere"))
    assert document["parse_status"] == "failed"
    assert document["error_message"] == "127.0.0.1 answered with status 404"
    assert len(web.asked) == 1


async def test_a_host_that_is_busy_is_asked_again(web: Web, bring):
    answers = iter(
        [PlainTextResponse("busy", 503, {"Retry-After": "0"}), PlainTextResponse("Now it is there.")]
    )

    async def page(_request):
        return next(answers)

    web.pages["/a"] = page
    assert (await bring(web.at("/a")))["parse_status"] == "completed"


async def test_no_address_leads_inside(web: Web, bring):
    web.pages["/in"] = RedirectResponse("http://169.254.169.254/latest/meta-data/")
    for address in ("http://169.254.169.254/latest/meta-data/", "http://[::ffff:10.0.0.1]/", web.at("/in")):
        document = await bring(address)
        assert document["parse_status"] == "failed"
        assert "network that users may not have called" in document["error_message"]


async def test_an_address_that_no_index_of_a_database_takes_is_refused(operator, base):
    odd = "/".join(f"{number:x}" for number in range(10**12, 10**12 + 500))
    sent = {"url": f"https://a.example/{odd}"}
    answer = await operator.post(f"{BASES}/{await base('b', **FEW)}/knowledge", json=sent)
    assert (answer.status_code, answer.json()["code"]) == (400, "address_refused")
