"""Files attached to a chat: read, answered from, and forgotten; no other session or tenant ever sees them."""

import pytest
from consumers.knowledge.answers import attachments
from consumers.knowledge.bases.knowledge_bases import ensure_base
from pipeline.store import now_ms
from pipeline.store.keys import Capability
from sqlalchemy import text

from tests.support.waiting import wait_until

FILES = "/api/v1/sessions/s1/attachments"
LEASE = b"# Lease\n\nThe monthly rent of the flat is 12,400 crowns and is due on the third day of each month."


@pytest.fixture
async def base(services):
    async with services.outbox.transaction() as sql:
        return f"/api/v1/knowledge-bases/{(await ensure_base(sql, 1, 'chats')).id}"


@pytest.fixture
async def caller(client, key):
    client.headers.update(await key(*Capability, tenant=1))
    return client


async def attach(caller, name="lease.md", data=LEASE, url=FILES):
    answer = await caller.post(url, files={"file": (name, data)})
    assert answer.status_code == 202, answer.text
    return answer.json()["attachments"][0]["id"]


async def settled(caller, document_id):
    async def over():
        found = {one["id"]: one for one in (await caller.get(FILES)).json()["attachments"]}
        one = found[document_id]
        return one if one["status"] in {"ready", "failed"} else None

    return await wait_until(over, describe="the file is read", timeout=60)


@pytest.mark.usefixtures("working")
async def test_a_question_waits_for_an_attached_file_and_is_answered_from_it(caller, base):
    document_id = await attach(caller)
    asked = {"question": "How much is the monthly rent?", "attachments": [document_id]}
    said = (await caller.post(f"{base}/ask", json=asked)).json()
    assert "12,400" in said["answer"]
    assert (said["attachments"], said["attachments_skipped"]) == ([document_id], 0)
    assert said["citations"][0]["attachment"] == document_id
    alone = (await caller.post(f"{base}/ask", json={"question": asked["question"]})).json()
    assert "12,400" not in alone["answer"]


async def test_what_is_not_read_in_time_is_passed_over(caller, base, monkeypatch, services):
    document_id = await attach(caller)
    waited = await attachments.await_ready(services.database, 1, [document_id, "none"], 0.05)
    assert waited == attachments.Waited((), 2)


@pytest.mark.usefixtures("working")
async def test_a_file_that_cannot_be_read_says_why(caller):
    document_id = await attach(caller, "blank.txt", b" \n \n")
    said = await settled(caller, document_id)
    assert said["status"] == "failed"
    assert "blanks" in said["error_message"]


async def test_a_program_is_refused(caller):
    answer = await caller.post(FILES, files={"file": ("a.bin", b"\x7fELF" + bytes(100))})
    assert answer.status_code == 415


@pytest.mark.usefixtures("working")
async def test_a_removed_file_leaves_nothing(caller, services):
    document_id = await attach(caller)
    await settled(caller, document_id)
    assert (await caller.delete(f"{FILES}/{document_id}")).status_code == 204
    assert (await caller.delete(f"{FILES}/{document_id}")).status_code == 404
    assert (await caller.get(FILES)).json() == {"attachments": []}
    async with services.database.read() as sql:
        assert await sql.scalar(text("SELECT count(*) FROM temporary_chunks")) == 0


async def test_a_file_is_forgotten_when_its_time_is_over(caller, services, monkeypatch):
    document_id = await attach(caller)
    async with services.database.read() as sql:
        key = await sql.scalar(text("SELECT file_key FROM temporary_documents"))
    assert await services.files.exists(key)
    later = now_ms() + 25 * attachments.HOUR_MS
    monkeypatch.setattr(attachments, "now_ms", lambda: later)
    assert (await caller.get(FILES)).json() == {"attachments": []}
    await attachments.prune(services.database, services.files)
    assert not await services.files.exists(key)
    async with services.database.read() as sql:
        assert await sql.scalar(text("SELECT count(*) FROM temporary_documents")) == 0
    assert document_id


async def test_a_session_has_so_many_files_and_no_more(caller, monkeypatch):
    monkeypatch.setattr(attachments, "MOST_OF_SESSION", 1)
    await attach(caller)
    answer = await caller.post(FILES, files={"file": ("b.md", LEASE)})
    assert (answer.status_code, answer.json()["code"]) == (409, "too_many")


async def test_no_other_session_and_no_other_tenant_sees_a_file(caller, key, base, services):
    document_id = await attach(caller)
    assert (await caller.get("/api/v1/sessions/s2/attachments")).json() == {"attachments": []}
    assert (await caller.delete(f"/api/v1/sessions/s2/attachments/{document_id}")).status_code == 404
    caller.headers.update(await key(*Capability, tenant=2))
    assert (await caller.get(FILES)).json() == {"attachments": []}
    assert (await caller.delete(f"{FILES}/{document_id}")).status_code == 404
    assert (await attachments.await_ready(services.database, 2, [document_id], 0)).ready == ()
