"""Files sent into a base over HTTP: taken in once, refused for what is told, and followed until they can be found."""

from dataclasses import replace
from ipaddress import ip_network
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from consumers.handlers.documents import process_document
from contracts.payloads.documents import DocumentProcess
from contracts.states import JobState
from pipeline import Retry
from pipeline.store.keys import Capability

from tests.http.conftest import BASES

TEXT = b"# Deliveries\n\nA delivery is one entry of a stream. Whoever loses the lease of a delivery loses the job.\n"
FEW = {"ask_questions": False, "extract_graph": False}


def form(*files):
    return [("file", (name, data, "application/octet-stream")) for name, data in files]


@pytest.fixture
def send(operator):
    async def send(kb, *files, **extra):
        return await operator.post(f"{BASES}/{kb}/knowledge", files=form(*files), **extra)

    return send


@pytest.mark.usefixtures("working")
async def test_a_file_that_is_sent_is_found_and_answers(operator, base, send, ended):
    kb = await base(**FEW)
    answer = await send(kb, ("delivery.md", TEXT))
    assert answer.status_code == 202
    (sent,) = answer.json()["knowledge"]
    assert (sent["name"], sent["duplicate"]) == ("delivery.md", False)
    assert (await ended(sent["id"]))["parse_status"] == "completed"

    hits = (await operator.post(f"{BASES}/{kb}/search", json={"query": "lease of a delivery"})).json()["hits"]
    assert (hits[0]["knowledge_id"], hits[0]["title"], hits[0]["position"]) == (sent["id"], "Deliveries", 0)
    question = {"question": "What happens to whoever loses the lease of a delivery?"}
    said = (await operator.post(f"{BASES}/{kb}/ask", json=question)).json()
    assert "loses the job" in said["answer"]
    assert said["citations"][0]["knowledge_id"] == sent["id"]


async def test_the_same_content_comes_in_once(send, base):
    kb, other = await base("one"), await base("two")
    first = (await send(kb, ("a.md", TEXT))).json()["knowledge"][0]
    again = await send(kb, ("b.md", TEXT))
    assert (again.status_code, again.json()["duplicate"]) == (200, True)
    there = again.json()["knowledge"][0]
    assert (there["id"], there["name"]) == (first["id"], "a.md")
    elsewhere = await send(other, ("a.md", TEXT))
    assert elsewhere.status_code == 202
    assert elsewhere.json()["knowledge"][0]["id"] != first["id"]


async def test_several_files_come_in_together(send, base):
    answer = await send(await base(), ("a.md", TEXT), ("b.md", TEXT + b"More."))
    assert [one["name"] for one in answer.json()["knowledge"]] == ["a.md", "b.md"]


UNREADABLE = {
    "a program": b"\x7fELF" + bytes(100),
    "the file is empty": b"",
    "not supported": bytes(range(256)) * 300,
    "compressed": b"\x1f\x8b" + bytes(50),
}


async def test_what_nothing_can_read_is_refused_and_leaves_nothing(operator, send, base):
    kb = await base()
    for said, data in UNREADABLE.items():
        answer = await send(kb, ("fine.md", TEXT), ("bad.bin", data))
        assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_file")
        assert answer.json()["error"].startswith("bad.bin: ")
        assert said in answer.json()["error"]
    listed = (await operator.get("/api/v1/knowledge", params={"knowledge_base_id": kb})).json()
    assert listed["knowledge"] == []


FORM = "multipart/form-data; boundary=x"
PART = b'--x\r\nContent-Disposition: form-data; name="file"'
SENSELESS = [
    (b"--x\r\nnonsense", FORM),
    (PART + b'; filename="a"\r\n\r\nab', FORM),
    (b"--x--\r\n", FORM),
    (b"--x--\r\n", "multipart/form-data"),
    (PART + b"\r\n\r\nb\r\n--x--\r\n", FORM),
    (b"", "multipart/form-data; boundary=" + "x" * 300),
]


async def test_a_form_that_makes_no_sense_is_refused(operator, base):
    url = f"{BASES}/{await base()}/knowledge"
    for body, kind in SENSELESS:
        answer = await operator.post(url, content=body, headers={"content-type": kind})
        assert answer.status_code == 400


async def test_nobody_else_is_read(client, base, key, services):
    """An upload of a caller without a key, or to a base of another tenant, is not read at all."""
    url = f"{BASES}/{await base(tenant=1)}/knowledge"
    read = 0

    async def body():
        nonlocal read
        for _ in range(100):
            read += 1
            yield b"x" * 65_536

    kind = {"content-type": "multipart/form-data; boundary=x"}
    stranger = await client.post(url, content=body(), headers=kind | {"X-API-Key": "slk_no_key"})
    other = await client.post(url, content=body(), headers=kind | await key(*Capability, tenant=2))
    looker = await client.post(url, content=body(), headers=kind | await key(Capability.KNOWLEDGE_READ))
    assert [stranger.status_code, other.status_code, looker.status_code] == [401, 404, 403]
    assert read <= 3
    big = str((services.settings.max_file_mb + 2) << 20)
    longer = await client.post(
        url, content=body(), headers=kind | await key(*Capability) | {"content-length": big}
    )
    assert (longer.status_code, longer.json()["code"]) == (413, "too_large")
    assert read <= 4


@pytest.mark.usefixtures("working")
async def test_passages_are_chunks_as_they_are(operator, base, ended, send):
    kb = await base(**FEW)
    given = {"title": "Two rules", "passages": ["A fence has a cut.", "A\0 lease has an end."]}
    url = f"{BASES}/{kb}/knowledge"
    answer = await operator.post(url, json=given)
    assert answer.status_code == 202
    (sent,) = answer.json()["knowledge"]
    assert (await ended(sent["id"]))["chunks"] == 2
    again = await operator.post(url, json=given)
    assert (again.status_code, again.json()["knowledge"][0]["id"]) == (200, sent["id"])
    hits = (await operator.post(f"{BASES}/{kb}/search", json={"query": "lease end"})).json()["hits"]
    assert (hits[0]["title"], hits[0]["position"]) == ("Two rules", 1)
    assert "A  lease has an end." in hits[0]["text"]


SENSELESS_JSON = [
    (422, b"{}"),
    (422, b"nonsense"),
    (422, b'{"passages": []}'),
    (422, b'{"passages": [""]}'),
    (400, b'{"passages": [" "]}'),
    (422, b'{"url": 7}'),
    (422, b'{"url": "http://a.test/", "passages": ["a"]}'),
    (400, b'{"url": "ftp://a.test/"}'),
    (400, b'{"url": "http://name:word@a.test/"}'),
]


async def test_json_that_makes_no_sense_is_refused(operator, base):
    url = f"{BASES}/{await base()}/knowledge"
    for status, body in SENSELESS_JSON:
        answer = await operator.post(url, content=body, headers={"content-type": "application/json"})
        assert (answer.status_code, body) == (status, body)
    assert (await operator.post(url, json={})).json()["error"].startswith('send {"url": ')
    assert (await operator.post(url, content=b"a", headers={"content-type": "text/plain"})).status_code == 415


@pytest.mark.usefixtures("working")
async def test_several_bases_of_a_tenant_are_searched_at_once(operator, base, send, ended):
    one, two = await base("one", **FEW), await base("two", **FEW)
    for kb, text in ((one, TEXT), (two, b"# Herons\n\nA heron stands in the reeds and waits for a fish.\n")):
        sent = (await send(kb, ("a.md", text))).json()["knowledge"][0]
        await ended(sent["id"])
    for query, kb in (("a heron in the reeds", two), ("the lease of a delivery", one)):
        asked = {"query": query, "knowledge_base_ids": [one, two], "limit": 3}
        hits = (await operator.post("/api/v1/search", json=asked)).json()["hits"]
        assert hits[0]["knowledge_base_id"] == kb
    other = await base("three", tenant=2)
    mixed = await operator.post("/api/v1/search", json={"query": "a", "knowledge_base_ids": [one, other]})
    assert (mixed.status_code, mixed.json()["code"]) == (400, "several_tenants")


async def test_an_upload_is_taken_in_while_the_queue_is_away(
    operator, send, base, pipeline, services, away_after
):
    kb = await base()
    with away_after(0, "enqueue"):
        answer = await send(kb, ("a.md", TEXT))
        assert (answer.status_code, answer.json()["delivery"]) == (202, "pending")
    await services.outbox.relay(older_than_ms=0)
    (record,) = (await pipeline.inspector.tasks("default", JobState.PENDING)).records
    assert answer.json()["knowledge"][0]["id"] in record.job.data


async def test_a_host_that_cannot_be_reached_is_tried_again_and_said(operator, base, services):
    kb = await base()
    answer = await operator.post(f"{BASES}/{kb}/knowledge", json={"url": "http://127.0.0.1:9/page"})
    job = DocumentProcess(
        tenant_id=1,
        knowledge_base_id=kb,
        knowledge_id=answer.json()["knowledge"][0]["id"],
        attempt=1,
        url="http://127.0.0.1:9/page",
    )
    let_in = services.settings.model_copy(update={"outbound_networks": (ip_network("127.0.0.0/8"),)})
    ctx: Any = SimpleNamespace(
        services=replace(services, settings=let_in), job=None, log=structlog.get_logger()
    )
    with pytest.raises(Retry, match=r"127\.0\.0\.1 cannot be reached"):
        await process_document(job, ctx)
    assert (await operator.get(f"/api/v1/knowledge/{job.knowledge_id}")).json()[
        "parse_status"
    ] == "processing"
