"""Files sent into a base over HTTP: taken in once, refused for what is told, and followed until they can be found."""

import pytest
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
    assert (await operator.post(url, content=b"a", headers={"content-type": "text/plain"})).status_code == 415
