"""The store of a base over HTTP, from the call to what it does: embedded anew, in order, backed up and restored."""

import io
import zipfile

import pytest
from consumers.knowledge.embedding.hashing import HashingEmbedder
from consumers.knowledge.tables.knowledge import KnowledgeBase
from consumers.knowledge.upkeep import reembedding
from pipeline.store.keys import Capability

from tests.support.shelves import ANIMALS, Shelf
from tests.support.waiting import wait_until

BASES = "/api/v1/knowledge-bases"


@pytest.fixture
async def base(operator, pipeline, services):
    """A base with a document in its index."""
    kb_id = (await operator.post(BASES, json={"name": "animals"}, params={"tenant_id": 1})).json()["id"]
    async with services.database.read() as sql:
        kb = await sql.get_one(KnowledgeBase, kb_id)
    await Shelf(pipeline, services, kb).write("one", *ANIMALS)
    return f"{BASES}/{kb_id}"


async def ended(operator, answer):
    assert answer.status_code == 202, answer.text
    task_id = answer.json()["task_id"]

    async def over():
        said = (await operator.get(f"/api/v1/tasks/{task_id}")).json()
        return said if said["status"] not in {"pending", "processing"} else None

    return await wait_until(over, describe="the task has ended", timeout=60)


async def first(operator, base, query="otters asleep"):
    answer = (await operator.post(f"{base}/search", json={"query": query})).json()
    assert "notice" not in answer
    return answer["hits"][0]["text"]


async def test_a_base_is_embedded_anew_and_found_as_before(operator, base, at_work, audited):
    before = await first(operator, base)
    asked = {"model": HashingEmbedder.MODEL, "dimension": 300}
    answer = await operator.post(f"{base}/reembed", json=asked)
    assert (await operator.post(f"{base}/reembed", json=asked)).status_code == 409
    async with at_work("ks"):
        assert (await ended(operator, answer))["status"] == "completed"
    assert (await operator.get(base)).json()["embedding_dimension"] == 300
    assert await first(operator, base) == before
    assert "knowledge.base_reembedded" in [deed.action for deed in await audited()]
    again = await operator.post(f"{base}/reembed", json=asked)
    assert (again.status_code, again.json()["code"]) == (409, "action_not_allowed")


async def test_a_model_that_is_not_there_is_refused_and_says_what_to_set(operator, base):
    answer = await operator.post(f"{base}/reembed", json={"model": "unheard-of", "dimension": 3})
    assert (answer.status_code, answer.json()["code"]) == (400, "model_unavailable")
    assert "STREAMLANE_EMBEDDING_BASE_URL" in answer.json()["error"]


async def test_a_cancel_keeps_the_index_that_serves(operator, base, services, at_work):
    answer = await operator.post(f"{base}/reembed", json={"model": HashingEmbedder.MODEL})
    task_id = answer.json()["task_id"]
    assert (await operator.post(f"/api/v1/tasks/{task_id}/cancel")).json()["effect"] == "done"
    before = await first(operator, base)
    async with at_work("ks"):

        async def clean() -> bool:
            async with services.database.transaction() as sql:
                return not await reembedding.drop_left_over(sql, services.search, base.rpartition("/")[2])

        await wait_until(clean, describe="nothing of the new index is left")
    assert await first(operator, base) == before


async def test_the_graph_is_put_into_order(operator, base, at_work):
    async with at_work("ks"):
        said = await ended(operator, await operator.post(f"{base}/curate", json={"dry_run": True}))
    assert said["message"].startswith("would be: 0 names merged")


async def test_a_backup_is_made_listed_saved_and_restored_from_both_its_id_and_its_archive(
    operator, base, at_work
):
    before = await first(operator, base)
    async with at_work("ks"):
        backup_id = (await ended(operator, await operator.post(f"{base}/backups")))["task_id"]
        (kept,) = (await operator.get(f"{base}/backups")).json()["backups"]
        assert (kept["id"], kept["documents"]) == (backup_id, 1)
        archive = (await operator.get(f"{base}/backups/{backup_id}")).content
        assert "manifest.json" in zipfile.ZipFile(io.BytesIO(archive)).namelist()
        again = await operator.post(f"{BASES}/restore", json={"backup_id": backup_id, "name": "again"})
        assert (await ended(operator, again))["status"] == "completed"
        files = {"file": ("backup.zip", archive, "application/zip")}
        sent = await operator.post(f"{BASES}/restore", files=files, params={"tenant_id": 1, "name": "sent"})
        assert (await ended(operator, sent))["status"] == "completed"
        for answer in (again, sent):
            assert await first(operator, f"{BASES}/{answer.json()['knowledge_base_id']}") == before
        bad = {"file": ("backup.zip", damaged(archive), "application/zip")}
        refused = await operator.post(f"{BASES}/restore", files=bad, params={"tenant_id": 1, "name": "bad"})
        said = await ended(operator, refused)
        assert (said["status"], "damaged" in said["error"]) == ("failed", True)
        cut = {"file": ("backup.zip", archive[:-99], "application/zip")}
        refused = await operator.post(f"{BASES}/restore", files=cut, params={"tenant_id": 1, "name": "cut"})
        assert (refused.status_code, refused.json()["code"]) == (400, "archive_refused")
        for taken in (
            await operator.post(f"{BASES}/restore", json={"backup_id": backup_id}),
            await operator.post(f"{BASES}/restore", files=files, params={"tenant_id": 1}),
        ):
            assert (taken.status_code, taken.json()["code"]) == (409, "name_taken")
    assert (await operator.delete(f"{base}/backups/{backup_id}")).status_code == 200
    assert (await operator.get(f"{base}/backups")).json()["backups"] == []
    assert (await operator.get(f"{base}/backups/{backup_id}")).json()["code"] == "backup_not_found"


def damaged(archive: bytes) -> bytes:
    """Change a byte within the first entry."""
    at = archive.index(b"PK\x03\x04", 1) - 40
    return archive[:at] + bytes([archive[at] ^ 0xFF]) + archive[at + 1 :]


async def test_the_backup_of_another_tenant_is_not_there(client, operator, key, base, at_work):
    async with at_work("ks"):
        backup_id = (await ended(operator, await operator.post(f"{base}/backups")))["task_id"]
    client.headers.update(await key(*Capability, tenant=2))
    for answer in (
        await client.get(f"{base}/backups"),
        await client.get(f"{base}/backups/{backup_id}"),
        await client.delete(f"{base}/backups/{backup_id}"),
        await client.post(f"{BASES}/restore", json={"backup_id": backup_id}),
    ):
        assert answer.status_code == 404
