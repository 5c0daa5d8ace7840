"""Dead letters over HTTP: listed by what they were about, replayed one, many or all, deleted."""

import asyncio

import pytest
from contracts.identity import derive_id
from contracts.outcomes import Skip
from contracts.states import JobState
from pipeline.client import Enqueue, Origin
from pipeline.store import SqlLedger

from tests.http.conftest import document
from tests.support.standing import let_stand

LETTERS = "/api/v1/system/admin/runtime/dead-letters"


async def listed(client, **params):
    return (await client.get(LETTERS, params=params)).json()


async def test_deaths_are_listed_the_last_first_and_counted_by_kind(operator, die):
    jobs = [await die(knowledge=f"k{n}") for n in range(3)]
    first = await listed(operator, page_size=2)
    assert [letter["job_id"] for letter in first["dead_letters"]] == [jobs[2], jobs[1]]
    assert first["groups"] == [{"reason": "skip", "task_type": "document:process", "count": 3}]
    rest = await listed(operator, page_size=2, cursor=first["next_cursor"])
    assert [letter["job_id"] for letter in rest["dead_letters"]] == [jobs[0]]
    assert not rest["has_more"]
    letter = rest["dead_letters"][0]
    assert (letter["scope"], letter["scope_id"], letter["related_id"]) == ("knowledge_base", "b1", "k0")
    assert "payload" not in letter


async def test_deaths_are_found_by_scope_type_reason_and_error(operator, die):
    job = await die("100 % of_no use", base="b2")
    await die(base="b3")
    for narrowed in ({"scope": "knowledge_base:b2"}, {"error": "100 %"}, {"error": "of_no"}):
        assert [one["job_id"] for one in (await listed(operator, **narrowed))["dead_letters"]] == [job]
    assert len((await listed(operator, type="document:process", reason="skip"))["dead_letters"]) == 2
    for narrowed in ({"type": "wiki:ingest"}, {"reason": "poison"}, {"error": "of%no"}):
        assert (await listed(operator, **narrowed))["dead_letters"] == []


async def test_a_reason_that_is_none_is_refused_naming_those_there_are(operator):
    refused = await operator.get(LETTERS, params={"reason": "bored"})
    assert (refused.status_code, refused.json()["code"]) == (400, "unknown_reason")
    assert "worker_lost" in refused.json()["error"]


async def test_a_death_is_shown_with_its_job(operator, die):
    job = await die()
    (letter,) = (await listed(operator))["dead_letters"]
    detail = (await operator.get(f"{LETTERS}/{letter['id']}")).json()
    assert detail["dead_letter"] == letter
    assert (detail["task"]["id"], detail["task"]["state"]) == (job, "archived")
    missing = await operator.get(f"{LETTERS}/999")
    assert (missing.status_code, missing.json()["code"]) == (404, "dead_letter_not_found")


async def test_a_replay_runs_the_job_once_more_and_is_over(operator, die, pipeline, audited):
    job = await die()
    (letter,) = (await listed(operator))["dead_letters"]
    url = f"{LETTERS}/{letter['id']}/replay"
    answers = await asyncio.gather(operator.post(url), operator.post(url))
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    assert (await pipeline.inspector.job(job)).state is JobState.PENDING
    assert (await listed(operator))["dead_letters"] == []
    assert len((await listed(operator, replayed=True))["dead_letters"]) == 1
    assert sorted((deed.action, deed.outcome) for deed in await audited()) == [
        ("system.dead_letter_replayed", "denied"),
        ("system.dead_letter_replayed", "success"),
    ]


async def test_a_job_that_is_no_longer_kept_is_enqueued_anew_once(operator, die, pipeline, hand):
    await pipeline.inspector.delete(await die())
    (letter,) = (await listed(operator))["dead_letters"]
    answers = await asyncio.gather(*(operator.post(f"{LETTERS}/{letter['id']}/replay") for _ in range(2)))
    assert 200 in {answer.status_code for answer in answers}
    (delivery,) = await hand.take(5)
    assert delivery.job_id == derive_id("replay", f"{letter['job_id']}:1")


async def test_a_replay_of_a_job_that_is_no_longer_kept_is_as_it_was_asked_for(
    operator, pipeline, hand, database
):
    await let_stand(database)
    root = await pipeline.enqueue(document(knowledge="k0"), delay=3600)
    origin = Origin(root.id, root.id, 0, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
    child = Enqueue(document(), queue="chat_attachment", max_retry=9, timeout=77, retention=5, origin=origin)
    (receipt,) = await pipeline.enqueue_many([child])
    delivery = await hand.take_one("chat_attachment")
    await hand.settle(delivery, Skip("no use"))
    await SqlLedger(database).record_deaths(await pipeline.broker.dead_letters(["chat_attachment"], 10))
    await pipeline.inspector.delete(receipt.id)
    (letter,) = (await listed(operator))["dead_letters"]
    assert (await operator.post(f"{LETTERS}/{letter['id']}/replay")).status_code == 200
    again = await hand.take_one("chat_attachment")
    job = (await pipeline.inspector.job(again.job_id)).job
    assert (job.max_retry, job.timeout_ms, job.retention_ms) == (9, 77_000, 5000)
    assert (job.parent_id, job.root_id, job.trace) == (root.id, root.id, origin.trace)


async def test_an_older_cancel_does_not_cover_a_replay(operator, die, pipeline, hand):
    job = await die()
    await pipeline.inspector.cancel_scope("knowledge", "k1")
    await pipeline.inspector.delete(job)
    (letter,) = (await listed(operator))["dead_letters"]
    assert (await operator.post(f"{LETTERS}/{letter['id']}/replay")).status_code == 200
    assert len(await hand.take(5)) == 1


async def test_a_death_that_was_replayed_is_not_said_to_be_once_more(operator, die, pipeline, hand):
    await pipeline.inspector.delete(await die())
    (letter,) = (await listed(operator))["dead_letters"]
    url = f"{LETTERS}/{letter['id']}/replay"
    assert (await operator.post(url)).status_code == 200
    await hand.settle(await hand.take_one())
    again = await operator.post(url)
    assert (again.status_code, again.json()["code"]) == (409, "already_replayed")


async def test_what_was_replayed_before_the_queue_went_away_is_over(operator, die, away_after, audited):
    jobs = [await die(knowledge=f"k{n}") for n in range(3)]
    with away_after(2, "run_now"):
        answer = await operator.post(f"{LETTERS}/replay", json={"all": True})
        assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
    assert [letter["job_id"] for letter in (await listed(operator))["dead_letters"]] == jobs[:1]
    (deed,) = await audited()
    assert (deed.outcome, deed.details["replayed"]) == ("failed", "2")


async def test_a_job_is_enqueued_anew_only_where_the_queue_takes_it(operator, die, pipeline, away_after):
    await pipeline.inspector.delete(await die())
    (letter,) = (await listed(operator))["dead_letters"]
    with away_after(0, "enqueue"):
        answer = await operator.post(f"{LETTERS}/{letter['id']}/replay")
    assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
    assert len((await listed(operator))["dead_letters"]) == 1


async def test_all_that_match_are_replayed_and_the_rest_stays(operator, die, pipeline):
    jobs = [await die(knowledge=f"k{n}", base="b1" if n else "b2") for n in range(3)]
    done = await operator.post(f"{LETTERS}/replay", json={"scope": "knowledge_base:b1"})
    assert done.json()["counts"] == {"replayed": 2}
    assert [one["job_id"] for one in (await listed(operator))["dead_letters"]] == [jobs[0]]
    named = await operator.post(f"{LETTERS}/replay", json={"ids": [1, 999]})
    assert sorted(named.json()["effects"].values()) == ["not_found", "replayed"]


@pytest.mark.parametrize("action", ["replay", "delete"])
@pytest.mark.parametrize("said", [{}, {"scope": ""}, {"error": ""}, {"all": False}])
async def test_an_empty_wish_is_not_one_for_everything(operator, die, action, said):
    await die()
    refused = await operator.post(f"{LETTERS}/{action}", json=said)
    assert (refused.status_code, refused.json()["code"]) == (400, "nothing_selected")
    assert len((await listed(operator))["dead_letters"]) == 1
    assert (await operator.post(f"{LETTERS}/{action}", json={"all": True})).status_code == 200
    assert (await listed(operator))["dead_letters"] == []


async def test_a_death_that_was_replayed_is_not_replayed_again(operator, die, pipeline, hand):
    job = await die()
    (letter,) = (await listed(operator))["dead_letters"]
    assert (await operator.post(f"{LETTERS}/{letter['id']}/replay")).status_code == 200
    await hand.settle(await hand.take_one(), Skip("still"))
    again = await operator.post(f"{LETTERS}/{letter['id']}/replay")
    assert (again.status_code, again.json()["code"]) == (409, "already_replayed")
    assert (await pipeline.inspector.job(job)).state is JobState.ARCHIVED


async def test_a_deleted_death_takes_its_archived_job_along(operator, die, pipeline):
    job = await die()
    (letter,) = (await listed(operator))["dead_letters"]
    url = f"{LETTERS}/{letter['id']}"
    assert (await operator.delete(url)).json() == {"success": True, "deleted": 1}
    assert await pipeline.broker.job(job) is None
    assert (await operator.delete(url)).status_code == 404


async def test_many_deaths_are_deleted_at_once(operator, die):
    for n in range(3):
        await die(knowledge=f"k{n}")
    assert (await operator.post(f"{LETTERS}/delete", json={"type": "document:process"})).json()[
        "deleted"
    ] == 3


async def test_a_tenants_key_sees_and_replays_only_its_deaths(client, key, die, audited):
    await die(tenant=1)
    await die(tenant=2, base="b2", knowledge="k2")
    client.headers.update(await key("system_runtime_manage", tenant=2))
    (letter,) = (await listed(client))["dead_letters"]
    assert letter["tenant_id"] == 2
    other = 1 if letter["id"] == 2 else 2
    for answer in (
        await client.get(f"{LETTERS}/{other}"),
        await client.post(f"{LETTERS}/{other}/replay"),
        await client.delete(f"{LETTERS}/{other}"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "dead_letter_not_found")
    assert [(deed.action, deed.target_id, deed.outcome) for deed in await audited()] == [
        ("system.dead_letter_deleted", str(other), "denied"),
        ("system.dead_letter_replayed", str(other), "denied"),
    ]
    named = await client.post(f"{LETTERS}/replay", json={"ids": [1, 2]})
    assert named.json()["effects"] == {str(other): "not_found", str(letter["id"]): "replayed"}
    assert (await client.post(f"{LETTERS}/delete", json={"ids": [other]})).json()["deleted"] == 0


@pytest.mark.parametrize("number", [0, -1, 2**63])
async def test_a_number_that_no_death_has_is_refused(operator, number):
    for action in ("replay", "delete"):
        answer = await operator.post(f"{LETTERS}/{action}", json={"ids": [number]})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
