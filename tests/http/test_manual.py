"""Knowledge written by hand: published, found, written anew, removed."""

import pytest
from consumers.knowledge.bases.knowledge_bases import ensure_base
from pipeline.store.keys import Capability

from tests.support.waiting import wait_until

KNOWLEDGE = "/api/v1/knowledge"
OPENING = {
    "title": "Opening hours",
    "content": "# Opening hours\n\nThe library opens at nine and closes at six.",
}
CLOSED = {
    "title": "Opening hours",
    "content": "# Opening hours\n\nThe library is closed for rebuilding until May.",
}


@pytest.fixture
async def base(services):
    async with services.outbox.transaction() as sql:
        return f"/api/v1/knowledge-bases/{(await ensure_base(sql, 1, 'hours')).id}"


async def settled(operator, knowledge_id, attempt=1):
    async def over():
        said = (await operator.get(f"{KNOWLEDGE}/{knowledge_id}")).json()
        ended = said["attempt"] == attempt and said["parse_status"] in {"completed", "failed"}
        return said if ended else None

    return await wait_until(over, describe="the document has ended", timeout=60)


async def found(operator, base, query="when does the library open"):
    hits = (await operator.post(f"{base}/search", json={"query": query})).json()["hits"]
    return " ".join(hit["text"] for hit in hits)


@pytest.mark.usefixtures("working")
async def test_what_is_written_by_hand_is_found_and_what_it_said_before_is_not(operator, base):
    made = (await operator.post(f"{base}/manual", json=OPENING)).json()
    assert (made["attempt"], made["delivery"]) == (1, "done")
    assert (await settled(operator, made["id"]))["parse_status"] == "completed"
    hits = (await operator.post(f"{base}/search", json={"query": "when does the library open"})).json()[
        "hits"
    ]
    assert ("opens at nine" in hits[0]["text"], hits[0]["source"]) == (True, "Opening hours")
    again = await operator.put(f"{KNOWLEDGE}/{made['id']}/manual", json=CLOSED)
    assert again.json()["attempt"] == 2
    assert (await settled(operator, made["id"], 2))["parse_status"] == "completed"
    said = await found(operator, base)
    assert "rebuilding" in said
    assert "opens at nine" not in said


async def test_written_anew_before_it_was_read_only_the_last_is_read(operator, base, at_work):
    made = (await operator.post(f"{base}/manual", json=OPENING)).json()
    await operator.put(f"{KNOWLEDGE}/{made['id']}/manual", json=CLOSED)
    async with at_work("core", "postprocess", "enrichment"):
        await settled(operator, made["id"], 2)
    assert "opens at nine" not in await found(operator, base)


@pytest.mark.parametrize(
    "said",
    [
        {"title": "a", "content": " \n"},
        {"title": " ", "content": "b"},
        {"title": "a", "content": "ё" * 300_000},
    ],
)
async def test_what_cannot_be_published_is_refused(operator, base, said):
    answer = await operator.post(f"{base}/manual", json=said)
    assert answer.status_code == 400


async def test_nobody_writes_in_the_base_or_the_document_of_another_tenant(client, operator, key, base):
    made = (await operator.post(f"{base}/manual", json=OPENING)).json()
    client.headers.update(await key(*Capability, tenant=2))
    assert (await client.post(f"{base}/manual", json=OPENING)).status_code == 404
    assert (await client.put(f"{KNOWLEDGE}/{made['id']}/manual", json=CLOSED)).status_code == 404
