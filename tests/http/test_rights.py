"""Who may do what: every endpoint with every capability, and no tenant ever reaches another's jobs."""

from typing import Any

import pytest
from contracts.outcomes import Skip
from contracts.states import JobState
from pipeline.store.keys import Capability

from tests.http.conftest import document

ADMIN = "/api/v1/system/admin"
KNOWLEDGE = "/api/v1/knowledge"
ATTACHED = "/api/v1/sessions/{session_id}/attachments"
FAQ = "/api/v1/knowledge-bases/{id}/faq"
TASKS = "/api/v1/tasks"
SOURCE = "/api/v1/sources/{source_id}"
BASES = "/api/v1/knowledge-bases"
OF_BASE = f"{BASES}/{{id}}"
WIKI = f"{OF_BASE}/wiki/pages"
MEMORY = "/api/v1/memory"
PERSON = f"{MEMORY}/subjects/{{subject_id}}"
TURNS = "/api/v1/sessions/{session_id}/messages"
READ = frozenset({Capability.SYSTEM_RUNTIME_READ, Capability.SYSTEM_RUNTIME_MANAGE})
MANAGE = frozenset({Capability.SYSTEM_RUNTIME_MANAGE})
TENANTS = f"{ADMIN}/tenants"
TENANCY = frozenset({Capability.SYSTEM_TENANTS_MANAGE})
AUDIT = frozenset({Capability.SYSTEM_AUDIT_READ})
WRITE = frozenset({Capability.KNOWLEDGE_WRITE})
LOOK = WRITE | {Capability.KNOWLEDGE_READ}

OPEN = {("GET", "/healthz"), ("GET", "/readyz"), ("POST", f"{ADMIN}/session"), ("DELETE", f"{ADMIN}/session")}
"""Asks for no key: health, and what is done with a password and a cookie."""
ALL_TENANTS = {
    ("GET", f"{ADMIN}/runtime/queues"): READ,
    ("GET", f"{ADMIN}/runtime/workers"): READ,
    ("GET", f"{ADMIN}/runtime/history"): READ,
    ("DELETE", f"{ADMIN}/runtime/queues/{{queue}}/archived"): MANAGE,
    ("POST", f"{ADMIN}/runtime/queues/{{queue}}/pause"): MANAGE,
    ("POST", f"{ADMIN}/runtime/queues/{{queue}}/resume"): MANAGE,
    ("GET", f"{ADMIN}/runtime/scopes/{{kind}}"): READ,
    ("GET", f"{ADMIN}/runtime/scopes/{{kind}}/{{id}}"): READ,
    ("POST", f"{ADMIN}/runtime/scopes/{{kind}}/{{id}}/cancel"): MANAGE,
    ("POST", TENANTS): TENANCY,
    ("GET", TENANTS): TENANCY,
    ("DELETE", f"{TENANTS}/{{tenant}}"): TENANCY,
    ("POST", f"{TENANTS}/{{tenant}}/restore"): TENANCY,
}
ONE_TENANT = {
    ("GET", f"{ADMIN}/runtime/queues/{{queue}}/tasks"): READ,
    ("GET", f"{ADMIN}/runtime/tasks/{{task_id}}"): READ,
    ("POST", f"{ADMIN}/runtime/queues/{{queue}}/tasks/{{task_id}}/actions/{{action}}"): MANAGE,
    ("POST", f"{ADMIN}/runtime/queues/{{queue}}/actions/{{action}}"): MANAGE,
    ("GET", f"{ADMIN}/runtime/dead-letters"): READ,
    ("GET", f"{ADMIN}/runtime/dead-letters/{{id}}"): READ,
    ("DELETE", f"{ADMIN}/runtime/dead-letters/{{id}}"): MANAGE,
    ("POST", f"{ADMIN}/runtime/dead-letters/{{id}}/replay"): MANAGE,
    ("POST", f"{ADMIN}/runtime/dead-letters/replay"): MANAGE,
    ("POST", f"{ADMIN}/runtime/dead-letters/delete"): MANAGE,
    ("GET", f"{ADMIN}/audit-log"): AUDIT,
    ("GET", WIKI): LOOK,
    ("GET", f"{WIKI}/{{slug}}"): LOOK,
    ("GET", KNOWLEDGE): LOOK,
    ("GET", f"{KNOWLEDGE}/{{id}}"): LOOK,
    ("GET", f"{KNOWLEDGE}/{{id}}/spans"): LOOK,
    ("GET", f"{KNOWLEDGE}/{{id}}/chunks"): LOOK,
    ("GET", f"{KNOWLEDGE}/{{id}}/download"): LOOK,
    ("POST", f"{KNOWLEDGE}/{{id}}/cancel-parse"): WRITE,
    ("POST", f"{KNOWLEDGE}/{{id}}/reparse"): WRITE,
    ("DELETE", f"{KNOWLEDGE}/{{id}}"): WRITE,
    ("POST", f"{KNOWLEDGE}/batch/{{action}}"): WRITE,
    ("POST", BASES): WRITE,
    ("GET", BASES): LOOK,
    ("GET", f"{BASES}/{{id}}"): LOOK,
    ("PATCH", f"{BASES}/{{id}}"): WRITE,
    ("POST", f"{BASES}/{{id}}/knowledge"): WRITE,
    ("POST", f"{BASES}/{{id}}/search"): LOOK,
    ("POST", "/api/v1/search"): LOOK,
    ("POST", f"{BASES}/{{id}}/ask"): LOOK,
    ("POST", f"{BASES}/{{id}}/manual"): WRITE,
    ("PUT", f"{KNOWLEDGE}/{{id}}/manual"): WRITE,
    ("GET", f"{KNOWLEDGE}/{{id}}/tables"): LOOK,
    ("POST", ATTACHED): WRITE,
    ("GET", ATTACHED): LOOK,
    ("DELETE", f"{ATTACHED}/{{id}}"): WRITE,
    ("POST", f"{FAQ}/import"): WRITE,
    ("POST", f"{FAQ}/import/file"): WRITE,
    ("GET", "/api/v1/faq/import/progress/{task_id}"): LOOK,
    ("GET", "/api/v1/faq/import/progress/{task_id}/failed.csv"): LOOK,
    ("GET", f"{FAQ}/entries"): LOOK,
    ("POST", f"{FAQ}/entries"): WRITE,
    ("GET", f"{FAQ}/entries/{{entry_id}}"): LOOK,
    ("PUT", f"{FAQ}/entries/{{entry_id}}"): WRITE,
    ("POST", f"{FAQ}/entries/delete"): WRITE,
    ("POST", f"{FAQ}/search"): LOOK,
    ("POST", f"{BASES}/{{id}}/reembed"): WRITE,
    ("POST", f"{BASES}/{{id}}/curate"): WRITE,
    ("GET", f"{BASES}/{{id}}/graph"): LOOK,
    ("GET", f"{BASES}/{{id}}/graph/entities"): LOOK,
    ("GET", f"{BASES}/{{id}}/graph/entities/{{entity_id}}"): LOOK,
    ("GET", f"{MEMORY}/settings"): LOOK,
    ("PATCH", f"{MEMORY}/settings"): WRITE,
    ("GET", f"{MEMORY}/subjects"): LOOK,
    ("DELETE", f"{MEMORY}/subjects"): WRITE,
    ("GET", PERSON): LOOK,
    ("PATCH", PERSON): WRITE,
    ("DELETE", PERSON): WRITE,
    ("GET", f"{PERSON}/items"): LOOK,
    ("POST", f"{PERSON}/items"): WRITE,
    ("GET", f"{PERSON}/items/{{item_id}}"): LOOK,
    ("PATCH", f"{PERSON}/items/{{item_id}}"): WRITE,
    ("DELETE", f"{PERSON}/items/{{item_id}}"): WRITE,
    ("POST", f"{PERSON}/recall"): LOOK,
    ("GET", TURNS): LOOK,
    ("POST", TURNS): WRITE,
    ("POST", f"{BASES}/{{id}}/backups"): WRITE,
    ("GET", f"{BASES}/{{id}}/backups"): LOOK,
    ("GET", f"{BASES}/{{id}}/backups/{{backup_id}}"): LOOK,
    ("DELETE", f"{BASES}/{{id}}/backups/{{backup_id}}"): WRITE,
    ("POST", f"{BASES}/restore"): WRITE,
    ("POST", f"{BASES}/{{id}}/sources"): WRITE,
    ("GET", f"{BASES}/{{id}}/sources"): LOOK,
    ("GET", SOURCE): LOOK,
    ("PATCH", SOURCE): WRITE,
    ("DELETE", SOURCE): WRITE,
    ("POST", f"{SOURCE}/sync"): WRITE,
    ("POST", f"{SOURCE}/pause"): WRITE,
    ("POST", f"{SOURCE}/resume"): WRITE,
    ("POST", f"{SOURCE}/cancel"): WRITE,
    ("GET", f"{SOURCE}/logs"): LOOK,
    ("GET", f"{SOURCE}/logs/{{log_id}}"): LOOK,
    ("GET", f"{SOURCE}/failed"): LOOK,
    ("GET", f"{SOURCE}/health"): LOOK,
    ("GET", f"{TASKS}/{{task_id}}"): LOOK,
    ("POST", f"{TASKS}/{{task_id}}/cancel"): WRITE,
    ("DELETE", OF_BASE): WRITE,
    ("GET", f"{OF_BASE}/profile"): LOOK,
    ("POST", f"{OF_BASE}/profile"): WRITE,
    ("DELETE", f"{OF_BASE}/tags/{{tag_id}}/knowledge"): WRITE,
    ("DELETE", f"{OF_BASE}/knowledge/{{knowledge_id}}/chunks/{{chunk_id}}"): WRITE,
    ("POST", "/api/v1/knowledge-bases/copy"): WRITE,
    ("GET", "/api/v1/knowledge-bases/copy/progress/{task_id}"): LOOK,
    ("POST", f"{KNOWLEDGE}/move"): WRITE,
    ("GET", f"{KNOWLEDGE}/move/progress/{{task_id}}"): LOOK,
    ("POST", f"{OF_BASE}/knowledge/batch-delete"): WRITE,
    ("POST", f"{OF_BASE}/knowledge/batch-reparse"): WRITE,
}
GUARDED = ALL_TENANTS | ONE_TENANT
PARTS = {
    "backup_id": "b1",
    "queue": "default",
    "task_id": "unheard-of",
    "action": "delete",
    "kind": "session",
    "id": "7",
    "slug": "a",
    "tenant": "7",
    "entry_id": "e1",
    "entity_id": "e1",
    "subject_id": "anna",
    "item_id": "i1",
    "session_id": "s1",
    "tag_id": "t",
    "knowledge_id": "k",
    "chunk_id": "c",
    "source_id": "s1",
    "log_id": "l1",
}
QUESTION = {"question": "why?", "answers": ["because"]}


BODIES = {
    ("POST", TENANTS): {"name": "a"},
    ("POST", "/api/v1/knowledge-bases/copy"): {"source_id": "a", "target_id": "b"},
    ("POST", f"{KNOWLEDGE}/move"): {"knowledge_ids": ["7"], "source_kb_id": "a", "target_kb_id": "b"},
    ("POST", f"{OF_BASE}/knowledge/batch-delete"): {"ids": ["7"]},
    ("POST", f"{OF_BASE}/knowledge/batch-reparse"): {"ids": ["7"]},
    ("POST", BASES): {"name": "b"},
    ("PATCH", f"{BASES}/{{id}}"): {},
    ("POST", f"{BASES}/{{id}}/search"): {"query": "a"},
    ("POST", "/api/v1/search"): {"query": "a", "knowledge_base_ids": ["7"]},
    ("POST", f"{BASES}/{{id}}/ask"): {"question": "a"},
    ("POST", f"{BASES}/{{id}}/manual"): {"title": "a", "content": "b"},
    ("PUT", f"{KNOWLEDGE}/{{id}}/manual"): {"title": "a", "content": "b"},
    ("POST", f"{BASES}/{{id}}/sources"): {"name": "s", "kind": "folder"},
    ("PATCH", SOURCE): {},
    ("POST", f"{SOURCE}/sync"): {},
    ("POST", f"{FAQ}/import"): {"entries": [QUESTION]},
    ("POST", f"{FAQ}/entries"): QUESTION,
    ("PUT", f"{FAQ}/entries/{{entry_id}}"): QUESTION,
    ("POST", f"{FAQ}/entries/delete"): {"ids": ["7"]},
    ("POST", f"{FAQ}/search"): {"query": "why?"},
    ("POST", f"{BASES}/{{id}}/reembed"): {"model": "hashing-1"},
    ("POST", f"{BASES}/{{id}}/curate"): {},
    ("PATCH", f"{MEMORY}/settings"): {},
    ("PATCH", PERSON): {"enabled": True},
    ("POST", f"{PERSON}/items"): {"text": "a"},
    ("PATCH", f"{PERSON}/items/{{item_id}}"): {},
    ("POST", f"{PERSON}/recall"): {"query": "a"},
    ("POST", TURNS): {"subject_id": "anna", "role": "user", "content": "a"},
    ("POST", f"{BASES}/restore"): {"backup_id": "b"},
}


async def ask(client, endpoint, headers=None):
    method, path = endpoint
    body: Any = {"ids": []} if "dead-letters" in path else {"task_ids": []}
    if path.startswith(KNOWLEDGE):
        body = {"ids": ["7"]} if "batch" in path else {}
    body = BODIES.get(endpoint, body)
    extra: Any = {"json": body} if method in {"POST", "PATCH", "PUT"} else {}
    if path == BASES or path.startswith((MEMORY, "/api/v1/sessions/")):
        extra["params"] = {"tenant_id": 1}
    parts = PARTS | ({"action": "reparse"} if path.startswith(KNOWLEDGE) else {})
    return await client.request(method, path.format(**parts), headers=headers, **extra)


async def test_every_endpoint_is_in_these_tables(client):
    said = (await client.get("/openapi.json")).json()["paths"]
    found = {(method.upper(), path) for path, methods in said.items() for method in methods}
    assert found == OPEN | set(GUARDED)


@pytest.mark.parametrize("endpoint", GUARDED, ids=" ".join)
async def test_an_endpoint_opens_to_its_capabilities_alone(client, key, endpoint):
    assert (await ask(client, endpoint)).status_code == 401
    for capability in Capability:
        status = (await ask(client, endpoint, await key(capability))).status_code
        if capability in GUARDED[endpoint]:
            assert status in {200, 201, 404, 409, 415}
        else:
            assert status == 403


@pytest.mark.parametrize("endpoint", ALL_TENANTS, ids=" ".join)
async def test_what_concerns_all_tenants_is_not_for_a_key_of_one(client, key, endpoint, audited):
    answer = await ask(client, endpoint, await key(*Capability, tenant=1))
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert [deed.outcome for deed in await audited()] == (["denied"] if endpoint[0] != "GET" else [])


CHANGES = [one for one in GUARDED if one[0] != "GET" and GUARDED[one] != LOOK]


@pytest.mark.parametrize("endpoint", CHANGES, ids=" ".join)
async def test_who_is_refused_a_change_is_written_down(client, key, endpoint, audited):
    await ask(client, endpoint, await key(Capability.SYSTEM_RUNTIME_READ))
    (deed,) = await audited()
    assert (deed.outcome, deed.actor_role) == ("denied", "platform_api_key")
    ours = endpoint[1].startswith("/api/v1/system/")
    assert deed.action.startswith("system." if ours else ("knowledge.", "kb."))
    assert next(iter(GUARDED[endpoint])) in deed.details["error"]


@pytest.fixture
async def two(pipeline, hand):
    """An archived and a waiting job of each of two tenants, by tenant."""
    dead = {}
    for tenant in (1, 2):
        dead[tenant] = (await pipeline.enqueue(document(tenant, "b", "k"))).id
        (delivery,) = await hand.take()
        await hand.settle(delivery, Skip("no use"))
    waiting = {tenant: (await pipeline.enqueue(document(tenant, "b", "k"))).id for tenant in dead}
    return {tenant: (dead[tenant], waiting[tenant]) for tenant in dead}


@pytest.fixture
async def tenant_2(client, key):
    client.headers.update(await key(*Capability, tenant=2))
    return client


async def test_a_listing_shows_a_tenant_its_own_jobs(tenant_2, two):
    url = f"{ADMIN}/runtime/queues/default/tasks"
    for params in ({}, {"scope": "knowledge:k"}, {"scope": "tenant:1"}):
        for state, place in (("archived", 0), ("pending", 1)):
            said = (await tenant_2.get(url, params={"state": state} | params)).json()
            own = [] if "tenant:1" in params.values() else [two[2][place]]
            assert [task["id"] for task in said["tasks"]] == own


async def test_a_listing_does_not_tell_a_tenant_how_many_jobs_others_have(tenant_2, pipeline):
    await pipeline.enqueue_many([document(1, "b", f"k{n}") for n in range(3)])
    for scope in ("tenant:1", "knowledge_base:b"):
        params = {"scope": scope, "page_size": 1}
        said = (await tenant_2.get(f"{ADMIN}/runtime/queues/default/tasks", params=params)).json()
        assert said == {"available": True, "tasks": [], "page_size": 1, "has_more": False}


async def test_another_tenants_job_is_as_one_that_is_not_there(tenant_2, two, pipeline):
    dead, waiting = two[1]
    for job in (dead, waiting):
        answer = await tenant_2.get(f"{ADMIN}/runtime/tasks/{job}")
        assert (answer.status_code, answer.json()["code"]) == (404, "task_not_found")
        for action in ("cancel", "run_now", "delete"):
            answer = await tenant_2.post(f"{ADMIN}/runtime/queues/default/tasks/{job}/actions/{action}")
            assert (answer.status_code, answer.json()["code"]) == (409, "task_gone")
    assert (await pipeline.inspector.job(dead)).state is JobState.ARCHIVED
    assert (await pipeline.inspector.job(waiting)).state is JobState.PENDING


async def test_a_bulk_action_of_a_tenant_touches_its_own_jobs(tenant_2, two, pipeline):
    url = f"{ADMIN}/runtime/queues/default/actions/delete"
    named = await tenant_2.post(url, json={"task_ids": [two[1][0]]})
    assert named.json()["effects"] == {two[1][0]: "not_found"}
    for scope in ("", "knowledge:k", "tenant:1"):
        await tenant_2.post(url, json={"state": "archived", "scope": scope})
    assert await pipeline.broker.job(two[2][0]) is None
    assert (await pipeline.inspector.job(two[1][0])).state is JobState.ARCHIVED


async def test_a_tenants_cancel_where_the_document_is_gone_leaves_others_alone(tenant_2, two, pipeline):
    own, other = two[2][1], two[1][1]
    answer = await tenant_2.post(f"{ADMIN}/runtime/queues/default/tasks/{own}/actions/cancel")
    assert answer.json() == {"success": True}
    assert await pipeline.broker.job(own) is None
    assert (await pipeline.inspector.job(other)).state is JobState.PENDING
    later = (await pipeline.enqueue(document(1, "b", "k"))).id
    assert (await pipeline.inspector.job(later)).state is JobState.PENDING


async def test_a_tenant_reads_of_the_audit_log_what_its_own_keys_did(client, key, two):
    url = f"{ADMIN}/runtime/queues/default/tasks/{{}}/actions/delete"
    keys = {tenant: await key(*Capability, tenant=tenant) for tenant in (1, 2)}
    for tenant, headers in keys.items():
        await client.post(url.format(two[tenant][0]), headers=headers)
    said = (await client.get(f"{ADMIN}/audit-log", headers=keys[2])).json()
    assert [(row["tenant_id"], row["target_id"]) for row in said["logs"]] == [(2, two[2][0])]
    everything = (await client.get(f"{ADMIN}/audit-log", headers=await key(*Capability))).json()
    assert len(everything["logs"]) == 2


async def test_the_audit_log_is_read_page_by_page_and_narrowed(operator):
    for queue in ("default", "wiki", "low"):
        await operator.post(f"{ADMIN}/runtime/queues/{queue}/pause")
    url = f"{ADMIN}/audit-log"
    first = (await operator.get(url, params={"page_size": 2})).json()
    assert [row["target_id"] for row in first["logs"]] == ["low", "wiki"]
    rest = (await operator.get(url, params={"cursor": first["next_cursor"]})).json()
    assert [row["target_id"] for row in rest["logs"]] == ["default"]
    for narrowed in ({"target_id": "wiki"}, {"action": "system.queue_paused"}, {"outcome": "success"}):
        assert (await operator.get(url, params=narrowed)).json()["logs"]
    assert (await operator.get(url, params={"outcome": "denied"})).json()["logs"] == []
