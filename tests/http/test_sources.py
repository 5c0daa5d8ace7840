"""Sources over HTTP: from the call that makes one to the documents that its run brings, and everything in between."""

import os

import pytest
from contracts.payloads import AWAITING_HANDLER
from pipeline.store.keys import Capability

from tests.support.harvest import write
from tests.support.waiting import wait_until

BASES = "/api/v1/knowledge-bases"
SOURCES = "/api/v1/sources"


@pytest.fixture(autouse=True)  # before anything is opened
def papers(tmp_path, monkeypatch):
    monkeypatch.setenv("STREAMLANE_SOURCE_FOLDERS", str(tmp_path / "papers"))
    write(tmp_path / "papers", {"a.md": "# The first paper", "b.md": "# The second paper"})
    return tmp_path / "papers"


@pytest.fixture
def source(papers, operator, base):
    """Make a folder source; return its address."""

    async def make(kb="", **more):
        body = {"name": "papers", "kind": "folder", "config": {"path": str(papers)}, **more}
        answer = await operator.post(f"{BASES}/{kb or await base()}/sources", json=body)
        assert answer.status_code == 201, answer.text
        return f"{SOURCES}/{answer.json()['id']}"

    return make


async def ran(operator, address, **wanted):
    """Run a source and wait for its end; return what is said of the run."""
    answer = await operator.post(f"{address}/sync", json=wanted)
    assert answer.status_code == 202, answer.text

    async def look():
        said = (await operator.get(f"{address}/logs/{answer.json()['log_id']}")).json()
        return said if said["state"] != "running" else None

    return await wait_until(look, describe="the run has ended", timeout=60)


def test_its_type_has_a_handler():
    assert "datasource:sync" not in AWAITING_HANDLER


async def test_a_run_brings_documents_and_the_next_one_what_changed(
    papers, operator, base, source, working, audited
):
    kb = await base()
    address = await source(kb)
    run = await ran(operator, address)
    assert (run["state"], run["created"], run["trigger"], run["mode"]) == (
        "success",
        2,
        "manual",
        "incremental",
    )

    async def completed():
        said = (await operator.get("/api/v1/knowledge", params={"knowledge_base_id": kb})).json()["knowledge"]
        return said if {one["parse_status"] for one in said} == {"completed"} else None

    found = await wait_until(completed, describe="the documents are there", timeout=60)
    assert {one["source"].partition(":")[2] for one in found} == {"a.md", "b.md"}
    write(papers, {"c.md": "# The third paper"})
    (papers / "a.md").unlink()
    run = await ran(operator, address)
    assert (run["created"], run["deleted"], run["unchanged"]) == (1, 1, 1)
    logs = (await operator.get(f"{address}/logs", params={"page_size": 1})).json()
    assert (len(logs["logs"]), logs["has_more"]) == (1, True)
    after = {"page_size": 1, "cursor": logs["next_cursor"]}
    older = (await operator.get(f"{address}/logs", params=after)).json()
    assert (older["logs"][0]["created"], older["has_more"]) == (2, False)
    said = (await operator.get(f"{address}/health")).json()
    assert (said["health"]["ok"], said["items"]["synced"], said["running"]) == (True, 2, None)
    assert [one.action for one in await audited()][:2] == ["knowledge.source_synced"] * 2


async def test_credentials_are_taken_and_never_given_back(operator, base, audited):
    body = {"name": "b", "kind": "s3", "config": {"endpoint": "https://s3.example.org", "bucket": "papers"}}
    body["credentials"] = {"access_key": "reader", "secret_key": "hunter2"}
    kb = await base()
    made = await operator.post(f"{BASES}/{kb}/sources", json=body)
    assert made.json()["credentials"] == {"access_key": "set (6 chars)", "secret_key": "set (7 chars)"}
    address = f"{SOURCES}/{made.json()['id']}"
    changed = await operator.patch(
        address, json={"credentials": {"access_key": "other", "secret_key": "hunter2"}}
    )
    wrong = await operator.patch(address, json={"credentials": {"password": "hunter2"}})
    assert (changed.status_code, wrong.status_code) == (200, 400)
    listed = await operator.get(f"{BASES}/{kb}/sources")
    said = [made.text, changed.text, wrong.text, listed.text, (await operator.get(address)).text]
    assert not any("hunter2" in text for text in [*said, str(await audited())])


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "attic"},
        {"config": {"path": "/etc"}},
        {"config": {}},
        {"cron": "now"},
        {"cron": "@daily", "timezone": "Mars"},
        {"mode": "partial-resync"},
        {"kind": "web", "config": {"start": "file:///etc/passwd"}},
        {"kind": "git", "config": {"url": "ext::sh -c id"}},
    ],
)
async def test_what_cannot_be_is_refused_when_it_is_made(wrong, papers, operator, base):
    body = {"name": "s", "kind": "folder", "config": {"path": str(papers)}, **wrong}
    assert (await operator.post(f"{BASES}/{await base()}/sources", json=body)).status_code == 400


async def test_a_schedule_is_set_and_taken_away(operator, source):
    address = await source(cron="30 2 * * *", timezone="Europe/Berlin")
    assert (await operator.get(address)).json()["next_run_at"]
    changed = await operator.patch(address, json={"cron": "", "name": "others"})
    assert (changed.json()["next_run_at"], changed.json()["name"]) == (None, "others")


async def test_one_run_at_a_time_and_none_of_what_is_paused(operator, base, source):
    kb = await base()
    address = await source(kb)
    assert (await operator.post(f"{address}/sync", json={"mode": "partial-resync"})).status_code == 400
    assert (await operator.post(f"{address}/cancel")).status_code == 409
    assert (await operator.post(f"{address}/sync", json={})).status_code == 202
    for method, path, body in (
        ("POST", "/sync", {}),
        ("PATCH", "", {"config": {"path": "/"}}),
        ("DELETE", "", None),
    ):
        assert (await operator.request(method, f"{address}{path}", json=body)).status_code in {400, 409}
    assert (await operator.get(f"{address}/health")).json()["running"]
    stopped = await operator.post(f"{address}/cancel")
    assert (stopped.status_code, stopped.json()["effect"]) == (200, "done")
    assert (await operator.get(f"{address}/logs", params={"state": "canceled"})).json()["logs"]
    assert (await operator.post(f"{address}/pause")).json()["status"] == "paused"
    refused = await operator.post(f"{address}/sync", json={})
    assert (refused.status_code, refused.json()["code"]) == (409, "source_not_active")
    assert (await operator.post(f"{address}/resume")).json()["status"] == "active"
    assert (
        await operator.post(f"{BASES}/{kb}/sources", json={"name": "papers", "kind": "web"})
    ).status_code in {
        400,
        409,
    }


async def test_a_source_leaves_its_documents_or_takes_them_along(operator, base, source, working):
    kb = await base()
    for with_documents, left in ((False, 2), (True, 2)):
        address = await source(kb, name=f"papers {with_documents}")
        await ran(operator, address)
        gone = await operator.delete(address, params={"with_documents": with_documents})
        assert (gone.status_code, gone.json()["effect"]) == (200, "done")

        async def look(address=address, left=left):
            there = (await operator.get(address)).status_code == 404
            said = (await operator.get("/api/v1/knowledge", params={"knowledge_base_id": kb})).json()
            return there and len(said["knowledge"]) == left

        await wait_until(look, describe="the source is gone", timeout=60)


async def test_failed_items_are_listed_and_tried_again(papers, operator, source, working):
    (papers / os.fsdecode(b"\xff.md")).write_text("no UTF-8 in its name")
    address = await source()
    assert (await ran(operator, address))["state"] == "partial"
    (item,) = (await operator.get(f"{address}/failed")).json()["items"]
    assert (item["id"], "not UTF-8" in item["error"]) == (r"\xff.md", True)
    retried = await ran(operator, address, mode="dlq-retry")
    assert (retried["state"], retried["failed"]) == ("failed", 1)


async def test_another_tenants_source_is_not_there(client, key, operator, source):
    address = await source()
    other = await key(Capability.KNOWLEDGE_WRITE, tenant=2)
    for method, path in (
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/pause"),
        ("GET", "/logs"),
        ("GET", "/health"),
    ):
        answer = await client.request(method, f"{address}{path}", headers=other)
        assert (answer.status_code, answer.json()["code"]) == (404, "source_not_found")
