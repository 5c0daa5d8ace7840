"""What a base is about, over HTTP and by jobs that really run."""

import pytest
from consumers.knowledge.tables.knowledge import Knowledge
from contracts.payloads.enrichment import KnowledgeBaseProfile
from contracts.states import JobState
from pipeline.store import people
from pipeline.store.keys import Capability
from sqlalchemy import update

from tests.support.waiting import wait_until

BASES = "/api/v1/knowledge-bases"


@pytest.fixture
async def told(services, complete_one):
    """A base with a document that was summarised; return its id."""
    ident, kb, _ = await complete_one("ducks")
    said = (
        "Ducks swim in the Great Pond. Ducks sleep at the Great Pond. Ducks eat what grows in the Great Pond."
    )
    async with services.database.transaction() as sql:
        await sql.execute(update(Knowledge).where(Knowledge.id == ident).values(summary=said))
    return kb


async def written(operator, kb, status="ready"):
    async def look():
        answer = await operator.get(f"{BASES}/{kb}/profile")
        return answer.json() if answer.status_code == 200 and answer.json()["status"] == status else None

    return await wait_until(look, describe=f"the profile of {kb} is {status}", timeout=60)


async def test_a_person_asks_what_a_base_is_about(operator, told, maintained, audited):
    none = await operator.get(f"{BASES}/{told}/profile")
    assert (none.status_code, none.json()["code"]) == (404, "profile_not_found")
    said = (await operator.post(f"{BASES}/{told}/profile")).json()
    assert said["delivery"] == "done"
    async with maintained("enrichment"):
        profile = await written(operator, told)
    assert "Great Pond" in profile["gist"]
    assert any("Pond" in topic for topic in profile["topics"])
    assert profile["method"] == "extractive"
    assert (profile["stats"]["document_count"], profile["stats"]["profiled_count"]) == (1, 1)
    assert [deed.action for deed in await audited()] == ["knowledge.profile_requested"]


async def test_nothing_is_written_anew_of_the_same_and_a_base_without_documents_is_empty(
    operator, services, pipeline, told, maintained
):
    await operator.post(f"{BASES}/{told}/profile")
    async with maintained("enrichment"):
        first = await written(operator, told)
        again = (await operator.post(f"{BASES}/{told}/profile")).json()["job_id"]

        async def over():
            (state,) = await pipeline.broker.states([again])
            return state in {None, JobState.COMPLETED}

        await wait_until(over, describe="the second job has ended", timeout=30)
        assert await written(operator, told) == first
        async with services.database.transaction() as sql:
            await sql.execute(update(Knowledge).values(parse_status="failed"))
        await operator.post(f"{BASES}/{told}/profile")
        empty = await written(operator, told, "empty")
    assert (empty["gist"], empty["topics"], empty["stats"]["document_count"]) == ("", [], 0)


async def test_a_base_that_is_switched_off_writes_none_by_itself(operator, pipeline, told, maintained):
    job = KnowledgeBaseProfile(tenant_id=1, knowledge_base_id=told)
    receipts = [
        await pipeline.enqueue(one) for one in (job, job.model_copy(update={"knowledge_base_id": "gone"}))
    ]
    async with maintained("enrichment"):
        for receipt in receipts:
            await pipeline.wait(receipt.id, timeout=30)
    assert (await operator.get(f"{BASES}/{told}/profile")).status_code == 404


async def test_a_base_that_is_switched_on_asks_by_itself_and_the_job_waits_for_its_window(
    operator, pipeline, services, told, complete_one
):
    await operator.patch(f"{BASES}/{told}", json={"settings": {"profile": {"enabled": True}}})
    ident, _, _ = await complete_one("geese")
    await operator.delete(f"/api/v1/knowledge/{ident}")
    page = await pipeline.inspector.tasks("summary", JobState.SCHEDULED)
    (job,) = [record.job for record in page.records]
    assert (job.type, job.id.startswith(f"kb-profile:{told}:")) == ("kb:profile", True)


async def test_the_profile_of_another_tenants_base_is_not_there(client, key, told):
    client.headers.update(await key(*Capability, tenant=2))
    for answer in (await client.get(f"{BASES}/{told}/profile"), await client.post(f"{BASES}/{told}/profile")):
        assert (answer.status_code, answer.json()["code"]) == (404, "knowledge_base_not_found")


async def test_the_page_of_a_base_shows_what_it_is_about(
    operator, client, database, told, maintained, monkeypatch
):
    await operator.post(f"{BASES}/{told}/profile")
    async with maintained("enrichment"):
        await written(operator, told)
    monkeypatch.setattr(people, "COST", 2**4)
    async with database.transaction() as sql:
        await people.add(sql, "ann", people.hashed("correct horse"))
    await client.post("/sign-in", data={"name": "ann", "password": "correct horse", "back": "/"})
    page = (await client.get(f"/wiki/{told}")).text
    assert "What this base is about" in page
    assert "Great Pond" in page
