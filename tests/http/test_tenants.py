"""Tenants over HTTP: put away with all they have, and taken back with all of it."""

import pytest
from contracts.knowledge import ParseStatus
from contracts.states import JobState
from pipeline.store.keys import Capability

from tests.http.conftest import BASES

TENANTS = "/api/v1/system/admin/tenants"
KNOWLEDGE = "/api/v1/knowledge"


async def test_a_tenant_is_made_and_listed(operator, base):
    made = await operator.post(TENANTS, json={"name": "Acme"})
    assert (made.status_code, made.json()["name"]) == (201, "Acme")
    given = await operator.post(TENANTS, json={"name": "Other", "id": 40})
    assert given.json()["id"] == 40
    assert (await operator.post(TENANTS, json={"name": "Next"})).json()["id"] == 41
    assert (await operator.post(TENANTS, json={"name": "x", "id": 40})).json()["code"] == "tenant_taken"
    await base("b", tenant=40)
    listed = (await operator.get(TENANTS)).json()["tenants"]
    assert [(one["name"], one["knowledge_bases"]) for one in listed] == [
        ("Acme", 0),
        ("Other", 1),
        ("Next", 0),
    ]


async def test_a_deleted_tenant_is_not_served(client, operator, key, base):
    kb = await base("b", tenant=2)
    theirs = await key(*Capability, tenant=2)
    assert (await client.get(f"{BASES}/{kb}", headers=theirs)).status_code == 200
    gone = await operator.delete(f"{TENANTS}/2")
    assert gone.json() == {"id": 2, "already": False, "delivery": "done"}
    assert (await client.get(f"{BASES}/{kb}", headers=theirs)).status_code == 401
    assert (await operator.get(f"{BASES}/{kb}")).status_code == 404
    assert (await operator.get(BASES, params={"tenant_id": 2})).json() == {"knowledge_bases": []}
    refused = [
        await operator.post(BASES, params={"tenant_id": 2}, json={"name": "c"}),
        await operator.post(f"{BASES}/{kb}/knowledge", files={"file": ("a.txt", b"a")}),
        await operator.post(f"{BASES}/{kb}/search", json={"query": "a"}),
        await operator.get(f"{BASES}/{kb}/wiki/pages"),
    ]
    assert [answer.status_code for answer in refused] == [404] * 4
    assert (await operator.delete(f"{TENANTS}/2")).json()["already"] is True
    await operator.post(f"{TENANTS}/2/restore")
    assert (await client.get(f"{BASES}/{kb}", headers=theirs)).status_code == 200


async def test_its_jobs_go_and_what_was_under_way_is_parsed_again_when_it_is_back(
    operator, base, pipeline, ended, audited
):
    kb, other = await base("b", tenant=2, ask_questions=False), await base("b", tenant=3)
    sent = {
        tenant: (await operator.post(f"{BASES}/{one}/knowledge", files={"file": ("a.txt", b"Leases end.")}))
        .json()["knowledge"][0]["id"]
        for tenant, one in ((2, kb), (3, other))
    }  # fmt: skip
    await operator.delete(f"{TENANTS}/2")
    waiting = (await pipeline.inspector.tasks("default", JobState.PENDING)).records
    assert [record.job.scopes[0].id for record in waiting if record.job.type == "document:process"] == ["3"]
    back = (await operator.post(f"{TENANTS}/2/restore")).json()
    assert back == {"id": 2, "reparsed": 1, "delivery": "done"}
    (again,) = (await pipeline.inspector.tasks("low", JobState.PENDING)).records
    assert (again.job.type, sent[2] in again.job.data) == ("knowledge:list_reparse", True)
    assert (await operator.get(f"{KNOWLEDGE}/{sent[2]}")).json()["parse_status"] == ParseStatus.PENDING
    assert [deed.action for deed in await audited()][:2] == [
        "system.tenant_restored",
        "system.tenant_deleted",
    ]


async def test_what_is_no_tenant_or_not_deleted_is_said(operator):
    assert (await operator.delete(f"{TENANTS}/9")).status_code == 404
    assert (await operator.post(f"{TENANTS}/9/restore")).status_code == 404
    await operator.post(TENANTS, json={"name": "a", "id": 9})
    answer = await operator.post(f"{TENANTS}/9/restore")
    assert (answer.status_code, answer.json()["code"]) == (409, "not_deleted")


@pytest.mark.parametrize("body", [{}, {"name": ""}, {"name": "a", "id": 0}, {"name": "a", "more": 1}])
async def test_a_tenant_that_makes_no_sense_is_refused(operator, body):
    assert (await operator.post(TENANTS, json=body)).status_code == 422


async def test_with_the_queue_away_a_tenant_is_put_away_all_the_same(operator, base, away_after):
    await base("b", tenant=2)
    with away_after(0, "cancel_scope"):
        assert (await operator.delete(f"{TENANTS}/2")).json()["delivery"] == "pending"


async def test_a_tenant_of_the_greatest_id_leaves_room_for_the_next_one(operator, base):
    await base("b", 2**63 - 1)
    made = await operator.post(TENANTS, json={"name": "next"})
    assert (made.status_code, made.json()["id"] < 2**53) == (201, True)
