"""Memory over HTTP: read out of conversations where a tenant wants it, kept, recalled into answers, and only the person's own."""

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from consumers.handlers import memory as handling
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.bases.tenants import delete_tenant
from consumers.knowledge.memory import turns
from consumers.knowledge.memory.remembering import ExtractiveReader
from consumers.knowledge.memory.storing import Who
from consumers.knowledge.tables.memory import MemorySubject
from contracts.payloads.memory import MemoryExtract
from contracts.states import TERMINAL, JobState
from pipeline.errors import NotAllowed
from pipeline.handlers import on
from pipeline.store.keys import Capability
from sqlalchemy import update

from tests.support.waiting import wait_until

MEMORY = "/api/v1/memory"
ANNA = f"{MEMORY}/subjects/anna"


@pytest.fixture
async def caller(client, key):
    """Somebody of tenant 1."""
    client.headers.update(await key(Capability.KNOWLEDGE_WRITE, tenant=1))
    return client


@pytest.fixture
async def reads(caller):
    """Conversations of tenant 1 are read."""
    wishes = {"enabled": True, "write_mode": "auto", "min_interval_s": 0}
    answer = await caller.patch(f"{MEMORY}/settings", json=wishes)
    assert answer.status_code == 200, answer.text


@pytest.fixture
def kb(services):
    """Make a base of a tenant; return its id."""

    async def kb(tenant=1):
        async with services.outbox.transaction() as sql:
            return (await ensure_base(sql, tenant, "b")).id

    return kb


async def say(caller, text, *, subject="anna", session="s1", role="user", **more):
    body = {"subject_id": subject, "role": role, "content": text, **more}
    answer = await caller.post(f"/api/v1/sessions/{session}/messages", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def turn(caller, text, **more):
    """What a person says, and an answer; returns what came of it for memory."""
    await say(caller, text, **more)
    return (await say(caller, "I see.", **more, role="assistant"))["memory"]


async def known(caller, of="anna"):
    answer = await caller.get(f"{MEMORY}/subjects/{of}/items")
    return [one["text"] for one in answer.json()["items"]]


@pytest.fixture
def jobs(pipeline):
    """The jobs that wait to read."""

    async def jobs():
        found = []
        for state in (JobState.SCHEDULED, JobState.PENDING, JobState.RETRY):
            page = await pipeline.inspector.tasks("memory", state)
            found += [one.job.id for one in page.records]
        return found

    return jobs


@pytest.fixture
def read_now(pipeline, jobs, at_work):
    """Run what waits to read, at once, until nothing waits; says how many jobs that were."""

    async def read_now(most: int = 20):
        done = 0
        async with at_work("enrichment"):
            while waiting := await jobs():
                assert len(waiting) == 1
                done += 1
                assert done <= most
                await pipeline.inspector.run_now(waiting[0])

                async def ended(ident=waiting[0]):
                    record = await pipeline.broker.job(ident)
                    return record is None or record.state in TERMINAL

                await wait_until(ended, describe="the run has ended", timeout=60)
        return done

    return read_now


async def test_memory_is_off_until_a_tenant_wants_it(caller, jobs):
    assert (await caller.get(f"{MEMORY}/settings")).json() == {
        "enabled": False,
        "write_mode": "explicit_only",
        "delay_s": 90,
        "min_interval_s": 300,
        "items": 200,
    }
    assert await turn(caller, "My name is Anna.") == "stored"
    await caller.patch(f"{MEMORY}/settings", json={"enabled": True})
    assert await turn(caller, "I live in Berlin.") == "stored"
    assert await jobs() == []


async def test_what_a_person_says_of_themselves_is_read_and_recalled_into_answers(
    caller, reads, read_now, kb
):
    assert await turn(caller, "My name is Anna and I live in Berlin. How do pools scale?") == "scheduled"
    assert await turn(caller, "I really like green tea.", session="s2") == "noted"
    assert await read_now() == 1
    assert await known(caller) == ["My name is Anna", "I live in Berlin.", "I really like green tea."]
    person = (await caller.get(ANNA)).json()
    assert (person["items"], person["topics"]) == (3, {"home": 1, "likes": 1, "name": 1})
    assert "- I live in Berlin." in person["block"]
    (first, *_) = (await caller.get(f"{ANNA}/items")).json()["items"]
    assert (first["method"], first["session_id"], first["kind"]) == ("extractive", "s1", "profile")
    said = (
        await caller.post(
            f"/api/v1/knowledge-bases/{await kb()}/ask",
            json={"question": "Where do I live?", "subject_id": "anna"},
        )
    ).json()
    assert "I live in Berlin" in said["answer"]
    assert [(one["source"], bool(one["memory_item"])) for one in said["citations"]] == [("memory", True)]


async def test_fifty_turns_during_a_run_make_one_task_and_none_is_skipped(
    caller, reads, services, jobs, read_now
):
    who = Who(1, "anna")
    await turn(caller, "I have a dog.")
    (running,) = await jobs()
    async with services.outbox.transaction() as sql:
        run = await turns.begin(sql, who, running)
    assert run
    assert run.sessions == ("s1",)
    said = [f"I collect things of kind {n}{n}{n}{n}." for n in range(50)]
    seen = [await turn(caller, text, session=f"s{n % 7}") for n, text in enumerate(said)]
    assert seen == ["noted"] * 50
    assert await jobs() == [running]
    async with services.outbox.transaction() as sql:
        await turns.release(sql, who, running, run.sessions)
    read: list[str] = []
    real = ExtractiveReader.read

    async def watched(self, segment, known):
        read.extend(line.text for line in segment.lines if line.role == "user")
        return await real(self, segment, known)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ExtractiveReader, "read", watched)
        assert await read_now() > 1
    assert sorted(read) == sorted(["I have a dog.", *said])
    person = (await caller.get(ANNA)).json()
    assert person.get("extract_scheduled_at") is None


async def test_a_run_that_fails_leaves_the_cursor_frees_the_slot_and_its_next_attempt_reads_all(
    caller, reads, services, jobs, pipeline, at_work, monkeypatch
):
    await turn(caller, "My name is Anna.", session="a")
    await turn(caller, "I live in Berlin.", session="b")
    real, fails = ExtractiveReader.read, iter([True])

    async def failing(self, segment, known):
        if segment.session_id == "b" and next(fails, False):
            raise RuntimeError("no")
        return await real(self, segment, known)

    monkeypatch.setattr(ExtractiveReader, "read", failing)
    (job,) = await jobs()
    async with at_work("enrichment"):
        await pipeline.inspector.run_now(job)

        async def failed():
            return (await pipeline.inspector.job(job)).state is JobState.RETRY

        await wait_until(failed, describe="the run has failed", timeout=60)
        row = await stands(services)
        assert (row.extract_cursor, row.extract_job, row.pending_sessions) == (2, "", ["a", "b"])
        assert await known(caller) == ["My name is Anna."]
        with suppress(NotAllowed):  # it may run by itself by now
            await pipeline.inspector.run_now(job)

        async def both():
            return await known(caller) == ["My name is Anna.", "I live in Berlin."]

        await wait_until(both, describe="the next attempt has read the rest", timeout=60)


async def test_a_run_that_is_run_twice_adds_nothing(caller, reads, services, jobs, pipeline):
    await turn(caller, "My name is Anna. I like tea.")
    await turn(caller, "I live in Berlin.", session="s2")
    (job,) = await jobs()

    async def twice(payload, ctx):
        await handling.extract_memory(payload, ctx)
        await handling.extract_memory(payload, ctx)

    async with pipeline.workers(
        pools=["enrichment"], handlers=[on(MemoryExtract, twice)], services=services, only={"memory:extract"}
    ):
        await pipeline.inspector.run_now(job)

        async def over():
            record = await pipeline.broker.job(job)
            return record is None or record.state in TERMINAL

        await wait_until(over, describe="the run has ended", timeout=60)
    assert sorted(await known(caller)) == ["I like tea.", "I live in Berlin.", "My name is Anna."]
    assert await jobs() == []


async def test_a_run_that_is_cancelled_in_the_middle_leaves_the_rest_to_a_later_turn(
    caller, reads, services, jobs, pipeline, at_work, monkeypatch
):
    await turn(caller, "My name is Anna.", session="a")
    await turn(caller, "I live in Berlin.", session="b")
    real, reached = ExtractiveReader.read, asyncio.Event()

    async def stuck(self, segment, known):
        if segment.session_id == "b":
            reached.set()
            await asyncio.Event().wait()
        return await real(self, segment, known)

    (job,) = await jobs()
    with monkeypatch.context() as patched:
        patched.setattr(ExtractiveReader, "read", stuck)
        async with at_work("enrichment"):
            await pipeline.inspector.run_now(job)
            await asyncio.wait_for(reached.wait(), 60)
            await pipeline.inspector.cancel(job)

            async def over():
                record = await pipeline.broker.job(job)
                return record is None or record.state in TERMINAL

            await wait_until(over, describe="the run is cancelled", timeout=60)
    assert (await stands(services)).extract_cursor == 2
    assert await turn(caller, "I like tea.", session="b") == "scheduled"
    (later,) = await jobs()
    async with at_work("enrichment"):
        await pipeline.inspector.run_now(later)

        async def all_known():
            return len(await known(caller)) == 3

        await wait_until(all_known, describe="the rest is read", timeout=60)


async def stands(services):
    async with services.database.read() as sql:
        return await sql.get(MemorySubject, (1, "anna"))


async def test_a_run_whose_slot_another_one_took_does_nothing(
    caller, reads, services, jobs, pipeline, at_work
):
    await turn(caller, "My name is Anna.")
    (first,) = await jobs()
    async with services.database.transaction() as sql:  # it is long overdue
        await sql.execute(update(MemorySubject).values(extract_scheduled_at=1))
    assert await turn(caller, "I live in Berlin.") == "scheduled"
    (second,) = set(await jobs()) - {first}
    async with at_work("enrichment"):
        await pipeline.inspector.run_now(first)

        async def gone():
            return await jobs() == [second]

        await wait_until(gone, describe="the first has ended", timeout=60)
        assert await known(caller) == []
        await pipeline.inspector.run_now(second)

        async def both():
            return len(await known(caller)) == 2

        await wait_until(both, describe="both are read", timeout=60)


async def test_a_message_that_is_sent_again_is_kept_once(caller, reads):
    assert (await say(caller, "I like tea.", id="m1"))["memory"] == "stored"
    assert (await say(caller, "I like tea.", id="m1"))["memory"] == "there"
    said = (await caller.get("/api/v1/sessions/s1/messages")).json()["messages"]
    assert [(one["id"], one["content"]) for one in said] == [("m1", "I like tea.")]


async def test_what_is_said_while_memory_is_off_is_never_read(caller, reads, read_now, jobs):
    await caller.patch(ANNA, json={"enabled": False})
    assert await turn(caller, "I live in Berlin.") == "stored"
    await caller.patch(ANNA, json={"enabled": True})
    assert await turn(caller, "My name is Anna.") == "scheduled"
    await read_now()
    assert await known(caller) == ["My name is Anna."]


async def test_switched_off_a_person_is_not_recalled_and_a_run_that_waits_reads_nothing(
    caller, reads, read_now
):
    await caller.post(f"{ANNA}/items", json={"text": "I live in Berlin."})
    await turn(caller, "My name is Anna.")
    await caller.patch(ANNA, json={"enabled": False})
    await read_now()
    assert await known(caller) == ["I live in Berlin."]
    found = await caller.post(f"{ANNA}/recall", json={"query": "where do I live?"})
    assert found.json() == {"items": []}
    await caller.patch(ANNA, json={"enabled": True})
    found = await caller.post(f"{ANNA}/recall", json={"query": "где я живу?"})
    assert [one["text"] for one in found.json()["items"]] == ["I live in Berlin."]


async def test_a_thing_is_added_edited_deleted_and_not_read_again(caller, reads, read_now):
    made = (await caller.post(f"{ANNA}/items", json={"text": "I like tea.", "topic": "drinks"})).json()
    assert (made["method"], made["topic"]) == ("explicit", "drinks")
    again = await caller.post(f"{ANNA}/items", json={"text": "I like tea."})
    assert again.json()["id"] == made["id"]
    url = f"{ANNA}/items/{made['id']}"
    edited = (await caller.patch(url, json={"text": "I like green tea."})).json()
    assert (edited["text"], edited["kind"]) == ("I like green tea.", "fact")
    assert (await caller.delete(url)).json() == {"forgotten": 1}
    assert ((await caller.get(url)).status_code, (await caller.delete(url)).status_code) == (404, 404)
    await turn(caller, "I like green tea.")
    await read_now()
    assert await known(caller) == []
    await caller.post(f"{ANNA}/items", json={"text": "I like green tea."})
    assert await known(caller) == ["I like green tea."]


async def test_a_person_is_forgotten_with_what_waits_to_be_read(caller, reads, read_now):
    await caller.post(f"{ANNA}/items", json={"text": "I like tea."})
    await turn(caller, "My name is Anna.")
    assert (await caller.delete(ANNA)).json() == {"forgotten": 1}
    await read_now()
    assert await known(caller) == []


async def test_a_tenant_that_goes_for_good_leaves_nothing_said_or_remembered(caller, reads, client, key):
    await caller.post(f"{ANNA}/items", json={"text": "I like tea."})
    await turn(caller, "My name is Anna.")
    other = await key(Capability.KNOWLEDGE_WRITE, tenant=2)
    await client.post(f"{ANNA}/items", json={"text": "I like coffee."}, headers=other)
    assert (await caller.delete(f"{MEMORY}/subjects")).json() == {"forgotten": 1}
    assert (await caller.get(f"{MEMORY}/subjects")).json()["subjects"] == []
    assert (await caller.get("/api/v1/sessions/s1/messages")).status_code == 404
    assert len((await client.get(f"{ANNA}/items", headers=other)).json()["items"]) == 1


async def test_no_more_is_remembered_than_wanted_and_what_was_added_stays(caller, reads, read_now):
    await caller.patch(f"{MEMORY}/settings", json={"items": 2})
    await caller.post(f"{ANNA}/items", json={"text": "The gate code is 4711."})
    await turn(caller, "I like tea. I have a dog. I work at Acme.")
    await read_now()
    assert sorted(await known(caller)) == ["I work at Acme.", "The gate code is 4711."]
    await caller.post(f"{ANNA}/items", json={"text": "My car is red."})
    full = await caller.post(f"{ANNA}/items", json={"text": "My house has two floors."})
    assert (full.status_code, full.json()["code"]) == (409, "memory_full")


async def test_nothing_of_one_person_or_tenant_is_shown_to_another(caller, reads, client, key, kb):
    secret = (await caller.post(f"{ANNA}/items", json={"text": "I live in Berlin."})).json()["id"]
    for subject in ("bob", "anna2"):
        said = await caller.post(
            f"/api/v1/knowledge-bases/{await kb()}/ask",
            json={"question": "Where do I live?", "subject_id": subject},
        )
        assert said.json()["citations"] == []
        url = f"{MEMORY}/subjects/{subject}/items/{secret}"
        for method in ("GET", "DELETE"):
            assert (await caller.request(method, url)).status_code == 404
    other = await key(Capability.KNOWLEDGE_WRITE, tenant=2)
    await client.patch(f"{MEMORY}/settings", json={"enabled": True}, headers=other)
    assert (await client.get(ANNA, headers=other)).status_code == 404
    assert (await client.get(f"{ANNA}/items", headers=other)).json()["items"] == []
    assert (await client.get(f"{ANNA}/items/{secret}", headers=other)).status_code == 404
    assert (await client.get(ANNA, headers=other, params={"tenant_id": 1})).status_code == 403
    theirs = await kb(2)
    said = await client.post(
        f"/api/v1/knowledge-bases/{theirs}/ask",
        json={"question": "Where do I live?", "subject_id": "anna"},
        headers=other,
    )
    assert said.json()["citations"] == []


async def test_of_a_deleted_tenant_nothing_is_read_or_shown(caller, reads, services, read_now, key):
    await turn(caller, "My name is Anna.")
    async with services.database.transaction() as sql:
        await delete_tenant(sql, 1)
    await read_now()
    everybody = await key(Capability.KNOWLEDGE_WRITE)
    answer = await caller.get(ANNA, headers=everybody, params={"tenant_id": 1})
    assert (answer.status_code, answer.json()["code"]) == (404, "tenant_not_found")
    assert (await stands(services)).extract_cursor == 0


async def test_a_run_that_is_lost_for_good_frees_the_slot(caller, reads, services, jobs, pipeline):
    await turn(caller, "My name is Anna.")
    (job,) = await jobs()
    letter: Any = SimpleNamespace(job_id=job)
    payload = MemoryExtract(tenant_id=1, subject_id="anna", session_id="s1", message_id="m")
    await handling.memory_lost(payload, letter, services)
    assert ((await stands(services)).extract_job, (await stands(services)).pending_sessions) == ("", ["s1"])
    assert await turn(caller, "I live in Berlin.") == "scheduled"
