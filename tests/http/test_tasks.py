"""The admin API: queues, jobs and what may be done to them, at the paths and with the codes of the platform."""

import asyncio

import pytest
from consumers.database import open_database
from contracts.outcomes import Skip
from contracts.payloads.maintenance import KnowledgeBaseDelete
from contracts.states import JobState
from contracts.topology import QUEUES
from pipeline.client import Enqueue
from pipeline.http import steering
from pipeline.inspector import LONGEST_PAGE
from pipeline.runtime import Pipeline
from pipeline.store import audit, keys

from tests.http.conftest import calling, document
from tests.support.jobs import Work
from tests.support.standing import let_stand

BASE = "/api/v1/system/admin/runtime"


def at(task: str, action: str, queue: str = "default") -> str:
    return f"{BASE}/queues/{queue}/tasks/{task}/actions/{action}"


async def archived(pipeline, hand, **fields):
    """A job that was given up."""
    async with open_database(pipeline.settings) as database:
        await let_stand(database, fields.get("knowledge", "k1"))
    receipt = await pipeline.enqueue(document(**fields))
    (delivery,) = await hand.take()
    await hand.settle(delivery, Skip("no <b>use</b>"))
    return receipt.id


async def test_the_overview_names_pools_and_queues_in_their_order(operator, pipeline):
    await pipeline.enqueue(document())
    said = (await operator.get(f"{BASE}/queues")).json()
    assert said["available"] is True
    assert said["parse_concurrency"] == said["upstream_concurrency"] == 8
    assert said["wiki_concurrency"] == 8
    six = ["core", "postprocess", "enrichment", "maintenance", "shared", "wiki"]
    assert [pool["name"] for pool in said["pools"]][:6] == six
    assert {p["name"]: p["queue_count"] for p in said["pools"]}["shared"] == 7
    assert [queue["name"] for queue in said["queues"]] == list(QUEUES)
    assert said["queues"][0] | {"latency_ms": 0, "memory_usage_bytes": 0} == {
        "name": "default", "pool": "core", "weight": 1, "size": 1, "pending": 1, "active": 0, "scheduled": 0,
        "retry": 0, "archived": 0, "completed": 0, "cancelled": 0, "processed": 0, "failed": 0,
        "cancelled_today": 0, "paused": False, "latency_ms": 0, "memory_usage_bytes": 0,
    }  # fmt: skip
    assert (said["model_limiter_available"], said["models"]) == (False, [])
    assert isinstance(said["timestamp"], int)


async def test_a_page_of_jobs_shows_no_payload_and_what_may_be_done(operator, pipeline):
    receipt = await pipeline.enqueue(document(file_path="secret/path"))
    said = (await operator.get(f"{BASE}/queues/default/tasks")).json()
    (task,) = said.pop("tasks")
    assert said == {"available": True, "page_size": 20, "has_more": False}
    assert task["id"] == receipt.id
    assert task["allowed_actions"] == ["cancel"]
    assert (task["tenant_id"], task["knowledge_id"]) == (1, "k1")
    assert "secret" not in str(task)


async def test_pages_follow_one_another_while_jobs_come_and_go(operator, pipeline):
    jobs = [(await pipeline.enqueue(document(knowledge=f"k{n}"))).id for n in range(5)]
    first = (await operator.get(f"{BASE}/queues/default/tasks", params={"page_size": 2})).json()
    assert first["has_more"]
    await pipeline.inspector.cancel(first["tasks"][-1]["id"])
    await pipeline.enqueue(document(knowledge="new"))
    cursor = first["next_cursor"]
    rest = (
        await operator.get(f"{BASE}/queues/default/tasks", params={"page_size": 500, "cursor": cursor})
    ).json()
    assert rest["page_size"] == 100
    assert [task["id"] for task in first["tasks"] + rest["tasks"]] == jobs[::-1]
    assert "next_cursor" not in rest


async def test_listings_are_narrowed_by_type_scope_and_error(operator, pipeline, hand):
    job = await archived(pipeline, hand)
    for narrowed in ({"type": "document:process"}, {"scope": "knowledge:k1"}, {"error": "use"}):
        found = await operator.get(f"{BASE}/queues/default/tasks", params={"state": "archived"} | narrowed)
        assert [task["id"] for task in found.json()["tasks"]] == [job]
    for narrowed in ({"type": "wiki:ingest"}, {"scope": "knowledge:k2"}, {"error": "unheard of"}):
        found = await operator.get(f"{BASE}/queues/default/tasks", params={"state": "archived"} | narrowed)
        assert found.json()["tasks"] == []


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("nowhere/tasks", 400, "unknown_task_queue"),
        ("default/tasks?state=aggregating", 400, "unknown_task_state"),
        ("default/tasks?cursor=xyz", 400, "runtime_task_cursor_invalid"),
        ("default/tasks?cursor=WzAsImRlZmF1bHQiLCJwZW5kaW5nIiwxLDFd", 409, "runtime_task_cursor_expired"),
        ("wiki/tasks?cursor=WzEsImRlZmF1bHQiLCJwZW5kaW5nIiwxLDFd", 400, "runtime_task_cursor_invalid"),
        ("default/tasks?scope=nonsense", 400, "invalid_scope"),
        ("default/tasks?page_size=many", 422, "invalid_request"),
    ],
)
async def test_a_listing_that_cannot_be_says_why(operator, path, status, code):
    answer = await operator.get(f"{BASE}/queues/{path}")
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.json()["error"]


@pytest.mark.parametrize(("asked", "given"), [(0, 20), (-5, 20), (101, 100), (7, 7)])
async def test_a_page_has_a_size_that_can_be(operator, asked, given):
    answer = await operator.get(f"{BASE}/queues/default/tasks", params={"page_size": asked})
    assert answer.json()["page_size"] == given


async def test_a_job_is_shown_with_why_it_waits_and_what_happened_to_it(operator, pipeline, hand):
    job = await archived(pipeline, hand)
    waiting = (await pipeline.enqueue(document())).id
    await pipeline.inspector.pause("default")
    detail = (await operator.get(f"{BASE}/tasks/{waiting}")).json()
    assert {"paused", "no_worker"} <= {reason["code"] for reason in detail["why"]}
    assert detail["options"]["scopes"] == ["tenant:1", "knowledge_base:b1", "knowledge:k1"]
    dead = (await operator.get(f"{BASE}/tasks/{job}")).json()
    assert dead["task"]["reason"] == "skip"
    assert dead["task"]["last_error"].endswith("no <b>use</b>")
    missing = await operator.get(f"{BASE}/tasks/unheard-of")
    assert (missing.status_code, missing.json()["code"]) == (404, "task_not_found")


async def test_an_archived_job_runs_again_or_is_deleted(operator, pipeline, hand, audited):
    job = await archived(pipeline, hand)
    assert (await operator.post(at(job, "run_now"))).json() == {"success": True}
    assert (await pipeline.inspector.job(job)).state is JobState.PENDING
    again = await operator.post(at(job, "run_now"))
    assert (again.status_code, again.json()["code"]) == (409, "action_not_allowed")
    (delivery,) = await hand.take()
    await hand.settle(delivery, Skip("still"))
    assert (await operator.post(at(job, "delete"))).status_code == 200
    gone = await operator.post(at(job, "delete"))
    assert (gone.status_code, gone.json()["code"]) == (409, "task_gone")
    deeds = [(deed.action.removeprefix("system.queue_task_"), deed.outcome) for deed in await audited()]
    assert deeds == [
        ("deleted", "denied"),
        ("deleted", "success"),
        ("run_now", "denied"),
        ("run_now", "success"),
    ]


@pytest.mark.parametrize("action", ["run_now", "delete"])
async def test_of_two_operators_who_act_at_once_one_is_told_so(operator, pipeline, hand, audited, action):
    job = await archived(pipeline, hand)
    answers = await asyncio.gather(*(operator.post(at(job, action)) for _ in range(2)))
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    assert sorted(deed.outcome for deed in await audited()) == ["denied", "success"]


async def test_while_the_queue_is_away_the_overview_is_partial_and_nothing_is_done(redis_server):
    async with (
        Pipeline.open(url=redis_server.url) as pipeline,
        open_database(pipeline.settings) as database,
        calling(pipeline, database) as client,
    ):
        async with database.transaction() as sql:
            _, text = await keys.create(sql, "test", list(keys.Capability))
        client.headers["X-API-Key"] = text
        redis_server.kill()
        overview = await client.get(f"{BASE}/queues")
        assert (overview.status_code, overview.json()["available"], overview.json()["queues"]) == (
            200,
            False,
            [],
        )
        for answer in (
            await client.get(f"{BASE}/queues/default/tasks"),
            await client.post(at("some", "delete")),
            await client.post(f"{BASE}/queues/default/pause"),
        ):
            assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
        async with database.read() as sql:
            assert [deed.outcome for deed in await audit.listed(sql, 10)] == ["failed"]


async def test_a_deed_is_written_down_as_the_platform_does(operator, pipeline, hand, audited):
    job = await archived(pipeline, hand)
    await operator.post(at(job, "delete"))
    (deed,) = await audited()
    assert (deed.tenant_id, deed.actor_role, deed.target_type, deed.target_id) == (
        0, "platform_api_key", "queue_task", job,
    )  # fmt: skip
    assert (deed.request_method, deed.request_path) == ("POST", at(job, "delete"))
    assert deed.details == {
        "queue": "default", "task_id": job, "task_type": "document:process", "from_state": "archived",
        "action": "delete",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        (at("unheard-of", "delete", "nowhere"), 400, "unknown_task_queue"),
        (at("x" * 200, "delete"), 400, "invalid_task_id"),
        (at("unheard-of", "delete"), 409, "task_gone"),
        (at("{job}", "delete"), 409, "action_not_allowed"),
        (at("{job}", "explode"), 409, "action_not_allowed"),
        (at("{job}", "cancel", "wiki"), 409, "task_gone"),
    ],
)
async def test_an_action_that_cannot_be_changes_nothing(operator, pipeline, path, status, code):
    job = (await pipeline.enqueue(document())).id
    answer = await operator.post(path.format(job=job))
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert (await pipeline.inspector.job(job)).state is JobState.PENDING


async def test_a_job_of_ones_own_type_is_cancelled_by_its_id(operator, pipeline):
    job = (await pipeline.enqueue(Work())).id
    (task,) = (await operator.get(f"{BASE}/queues/default/tasks")).json()["tasks"]
    assert task["allowed_actions"] == ["cancel"]
    assert (await operator.post(at(job, "cancel"))).json() == {"success": True}
    assert (await pipeline.inspector.job(job)).state is JobState.CANCELLED
    assert "cancelled already" in (await operator.post(at(job, "cancel"))).json()["error"]


async def test_a_refusal_says_what_stands_in_the_way(operator, pipeline):
    purge = (await pipeline.enqueue(KnowledgeBaseDelete(tenant_id=1, knowledge_base_id="b"), delay=60)).id
    waiting = (await pipeline.enqueue(document())).id
    for url, said in (
        (at(purge, "cancel", "low"), "a job of type kb:delete is not cancelled by itself"),
        (at(waiting, "delete"), "a job that is pending cannot be deleted"),
        (at(waiting, "explode"), "there are cancel, run_now, delete"),
    ):
        assert said in (await operator.post(url)).json()["error"]
    schema = (await operator.get("/openapi.json")).json()["paths"][
        f"{BASE}/queues/{{queue}}/tasks/{{task_id}}/actions/{{action}}"
    ]
    assert schema["post"]["parameters"][2]["schema"]["enum"] == ["cancel", "run_now", "delete"]


async def test_a_dead_job_that_a_cancel_covers_does_not_promise_to_run_again(operator, pipeline, hand):
    job = await archived(pipeline, hand)
    assert (await operator.get(f"{BASE}/tasks/{job}")).json()["task"]["allowed_actions"] == [
        "run_now",
        "delete",
    ]
    await operator.post(f"{BASE}/scopes/knowledge/k1/cancel")
    assert (await operator.get(f"{BASE}/tasks/{job}")).json()["task"]["allowed_actions"] == ["delete"]
    one = await operator.post(at(job, "run_now"))
    many = await operator.post(f"{BASE}/queues/default/actions/run_now", json={"task_ids": [job]})
    assert (one.status_code, one.json()["code"]) == (409, "action_not_allowed")
    assert "was cancelled with what it belongs to" in one.json()["error"]
    assert many.json()["effects"] == {job: "not_allowed"}
    assert many.json()["refusals"] == {job: one.json()["error"]}


async def test_a_queue_is_purged_of_what_was_given_up(operator, pipeline, hand, audited):
    await archived(pipeline, hand)
    await pipeline.enqueue(document())
    assert (await operator.delete(f"{BASE}/queues/default/archived")).json() == {
        "success": True,
        "deleted": 1,
    }
    (deed,) = await audited()
    assert (deed.action, deed.target_type, deed.target_id) == (
        "system.queue_archived_purged",
        "task_queue",
        "default",
    )
    assert deed.details == {"queue": "default", "task_id": "", "deleted": "1"}
    assert (await operator.delete(f"{BASE}/queues/nowhere/archived")).status_code == 400


async def test_a_paused_queue_starts_nothing_until_it_is_resumed(operator, pipeline, hand):
    await pipeline.enqueue(document())
    assert (await operator.post(f"{BASE}/queues/default/pause")).json() == {"success": True}
    assert await hand.take() == []
    assert (await operator.post(f"{BASE}/queues/default/resume")).json() == {"success": True}
    assert len(await hand.take()) == 1


async def test_many_jobs_are_acted_on_by_name_or_by_what_they_match(operator, pipeline, hand):
    jobs = [await archived(pipeline, hand, knowledge=f"k{n}") for n in range(3)]
    url = f"{BASE}/queues/default/actions"
    named = (await operator.post(f"{url}/run_now", json={"task_ids": [jobs[0], "unheard-of"]})).json()
    assert named["effects"] == {jobs[0]: "run", "unheard-of": "not_found"}
    matched = await operator.post(f"{url}/delete", json={"state": "archived", "scope": "knowledge:k1"})
    assert matched.json()["counts"] == {"deleted": 1}
    rest = await operator.post(f"{url}/delete", json={"state": "archived"})
    assert rest.json()["effects"] == {jobs[2]: "deleted"}
    assert (await operator.post(f"{url}/delete", json={})).status_code == 400
    assert (await operator.post(f"{url}/explode", json={"task_ids": []})).status_code == 422


async def test_a_bulk_action_that_takes_long_says_where_to_go_on(operator, pipeline, monkeypatch):
    monkeypatch.setattr(steering, "BULK_S", 0.0)
    waiting = [Enqueue(document(knowledge=f"k{n}"), delay=3600) for n in range(LONGEST_PAGE + 1)]
    await pipeline.enqueue_many(waiting)
    url = f"{BASE}/queues/default/actions/run_now"
    first = (await operator.post(url, json={"state": "scheduled"})).json()
    assert first["counts"] == {"run": LONGEST_PAGE}
    rest = await operator.post(url, json={"state": "scheduled", "cursor": first["next_cursor"]})
    assert rest.json()["counts"] == {"run": 1}
    assert "next_cursor" not in rest.json()


async def test_jobs_that_ran_again_before_the_queue_went_away_are_dead_letters_no_more(
    operator, die, away_after, audited
):
    jobs = [await die(knowledge=f"k{n}") for n in range(3)]
    with away_after(2, "run_now"):
        answer = await operator.post(f"{BASE}/queues/default/actions/run_now", json={"state": "archived"})
        assert answer.status_code == 503
    letters = (await operator.get(f"{BASE}/dead-letters")).json()["dead_letters"]
    assert [letter["job_id"] for letter in letters] == jobs[:1]
    (deed,) = await audited()
    assert (deed.outcome, deed.details["run"]) == ("failed", "2")


async def test_a_scope_tells_whether_it_has_work_and_is_cancelled_whole(operator, pipeline):
    mine = (await pipeline.enqueue(document())).id
    other = (await pipeline.enqueue(document(knowledge="k2"))).id
    url = f"{BASE}/scopes/knowledge"
    assert (await operator.get(url)).json() == {"ids": ["k1", "k2"]}
    assert (await operator.get(f"{url}/k1")).json() == {"has_queued": True}
    done = await operator.post(f"{url}/k1/cancel")
    counts = {"cancelled": 1, "signalled": 0, "too_late": 0}
    assert done.json() == {"success": True, **counts, "effects": {mine: "cancelled"}, "more": False}
    assert (await operator.get(f"{url}/k1")).json() == {"has_queued": False}
    assert (await pipeline.inspector.job(other)).state is JobState.PENDING
    assert (await operator.post(f"{url}/a b/cancel")).status_code == 400


async def test_what_cannot_be_said_in_text_is_said_all_the_same(operator, pipeline, hand):
    await pipeline.enqueue(document())
    (delivery,) = await hand.take()
    await hand.settle(delivery, Skip("half \ud800 \x1b[31m <script>"))
    answer = await operator.get(f"{BASE}/queues/default/tasks", params={"state": "archived"})
    assert "<script>" in answer.json()["tasks"][0]["last_error"]


@pytest.mark.parametrize("task_id", ["x" * 129, "\ud800"])
async def test_an_id_that_no_task_has_is_refused(operator, task_id):
    body = f'{{"task_ids": ["{task_id}"]}}'.encode("ascii", "backslashreplace")
    sent = {"content": body, "headers": {"Content-Type": "application/json"}}
    answer = await operator.post(f"{BASE}/queues/default/actions/cancel", **sent)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
