"""Seeing and steering from the terminal: the same facts and the same deeds as in the dashboard, written down alike."""

import asyncio
import getpass
import re
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from consumers.database import open_database
from contracts.outcomes import Skip
from contracts.payloads.documents import DocumentProcess
from pipeline import Enqueue
from pipeline.runtime import Pipeline
from pipeline.store import audit
from pipeline.store.ledger import SqlLedger

from tests.support.commands import on_a_terminal, start_streamlane, streamlane
from tests.support.hand import Hand
from tests.support.jobs import Work, handles, working
from tests.support.standing import let_stand
from tests.support.waiting import wait_until


def document(n: int, base: str = "b") -> DocumentProcess:
    """A job whose document is not there."""
    return DocumentProcess(tenant_id=1, knowledge_base_id=base, knowledge_id=f"k{n}", attempt=1)


async def some(folder: Path, *jobs: Any) -> list[str]:
    async with Pipeline.open(data_dir=folder) as pipeline:
        return [receipt.id for receipt in await pipeline.enqueue_many(jobs)]


async def some_die(folder: Path, count: int) -> list[str]:
    """Let jobs die, their deaths recorded; return their ids."""
    async with Pipeline.open(data_dir=folder) as pipeline, open_database(pipeline.settings) as database:
        hand, died = Hand(pipeline.broker), []
        for n in range(count):
            await let_stand(database, f"k{n}", base="b", file_name=f"note-{n}.md")
            died.append((await pipeline.enqueue(document(n))).id)
            await hand.settle(await hand.take_one(), Skip(f"no [use] {n}"))
        letters = await pipeline.broker.dead_letters(["default"], 10)
        await SqlLedger(database).record_deaths(letters)
        await pipeline.broker.forget_dead_letters([letter.death_id for letter in letters])
    return died


async def audited(folder: Path) -> list[audit.Deed]:
    async with (
        Pipeline.open(data_dir=folder) as pipeline,
        open_database(pipeline.settings) as database,
        database.read() as sql,
    ):
        return await audit.listed(sql, 100)


@pytest.fixture
def say(tmp_path):
    return lambda *args: streamlane(*args, data_dir=tmp_path)


def test_a_queue_is_paused_and_resumed_and_it_is_written_down_who_did_it(say, tmp_path):
    assert say("pause", "wiki").code == 0
    seen = say("queues", "--json").json
    assert [queue["name"] for queue in seen["queues"] if queue["paused"]] == ["wiki"]
    assert seen["notices"] == ["Queue wiki is paused; 0 jobs wait in it."]
    resumed = say("resume", "wiki", "--json").json
    assert resumed == {
        "queue": "wiki",
        "action": "resume",
        "paused": False,
        "already": False,
        "success": True,
    }
    nowhere = say("pause", "wikki")
    assert (nowhere.code, "did you mean 'wiki'?" in nowhere.err) == (2, True)
    deeds = asyncio.run(audited(tmp_path))
    assert [(deed.action, deed.request_path, deed.outcome) for deed in deeds] == [
        ("system.queue_resumed", "streamlane resume", "success"),
        ("system.queue_paused", "streamlane pause", "success"),
    ]
    assert {(deed.actor_user_id, deed.actor_role) for deed in deeds} == {(getpass.getuser(), "command_line")}


async def test_pools_and_workers_are_shown_with_what_they_do(say, tmp_path):
    async with Pipeline.open(data_dir=tmp_path) as pipeline:
        await pipeline.enqueue(Work())
        lonely = await asyncio.to_thread(say, "queues", "--json")
        begun, over = asyncio.Event(), asyncio.Event()

        async def busy(_job: Work, _ctx: object) -> None:
            begun.set()
            await over.wait()

        async with working(pipeline, handles(busy)) as crew:
            await begun.wait()
            await wait_until(partial(busy_beat, pipeline), describe="a worker says that it is busy")
            seen = (await asyncio.to_thread(say, "queues", "--json")).json
            workers = (await asyncio.to_thread(say, "workers", "--json")).json["workers"]
            table = (await asyncio.to_thread(say, "workers")).out
            over.set()
    assert "no worker of ours handles support:work" in lonely.json["notices"][0]
    core = {pool["name"]: pool for pool in seen["pools"]}["core"]
    assert (core["active"], core["instances"], core["cluster_capacity"]) == (1, 1, core["concurrency"])
    assert [worker["worker"] for worker in workers] == [crew.id]
    assert f"core 1/{core['concurrency']}" in table


async def busy_beat(pipeline: Pipeline) -> bool:
    return any(pool.active for worker in await pipeline.inspector.workers() for pool in worker.pools)


def test_jobs_are_found_by_what_they_are_and_belong_to(say, tmp_path):
    asyncio.run(some(tmp_path, document(1), document(2, "c"), Work(), Enqueue(Work(n=1), delay=60)))
    found = {
        narrowed: len(say("jobs", "list", "--json", *narrowed).json["jobs"])
        for narrowed in [
            (),
            ("--type=support:work",),
            ("--scope=knowledge_base:c",),
            ("--tenant=1", "--type=document:process"),
            ("--type=support:work", "--state=scheduled"),
            ("--error=no such",),
        ]
    }
    assert list(found.values()) == [4, 2, 1, 2, 1, 0]
    bad = say("jobs", "list", "--scope", "nonsense")
    assert (bad.code, "kind:id" in bad.err) == (2, True)


async def test_a_job_is_shown_with_why_it_waits_and_what_happened_and_its_error_is_not_obeyed(say, tmp_path):
    async with Pipeline.open(data_dir=tmp_path) as pipeline:
        hand = Hand(pipeline.broker)
        job = (await pipeline.enqueue(document(1))).id
        await hand.settle(await hand.take_one(), ValueError("\x1b[31mred\x07 [bold]"))
        await pipeline.inspector.pause("default")
    said = await asyncio.to_thread(say, "jobs", "show", job)
    assert said.code == 0, said
    for part in (
        "Its queue default is paused.",
        "No live worker reads pool core",
        "An attempt failed",
        "[bold]",
    ):
        assert part in said.out
    assert "knowledge_id\tk1" in said.out
    assert not re.search("[\x07\x1b]", said.out)
    facts = (await asyncio.to_thread(say, "jobs", "show", job, "--json")).json
    assert [reason["code"] for reason in facts["why"]] == ["paused", "no_worker", "delayed"]
    assert [happening["what"] for happening in facts["history"]] == ["failed"]
    assert (facts["options"]["deadline"], facts["children"]) == (None, [])
    assert facts["allowed_actions"] == ["cancel", "run_now"]


def test_what_matches_is_acted_on_only_when_somebody_agreed(say, tmp_path):
    asyncio.run(some(tmp_path, *(document(n) for n in range(3)), Work(), Work(n=1)))
    asked = say("jobs", "cancel", "--scope=knowledge_base:b", "--queue=default", "--json")
    assert (asked.code, "Cancel 3 jobs?" in asked.json["error"], "--yes" in asked.json["error"]) == (
        2,
        True,
        True,
    )
    assert say("jobs", "cancel").code == 2
    assert say("jobs", "cancel", "some-id", "--queue=default").code == 2
    done = say("jobs", "cancel", "--type=support:work", "--yes", "--json")
    assert done.json == {"action": "cancel", "success": True, "counts": {"cancelled": 2}}
    whole = say("jobs", "cancel", "--scope=knowledge_base:b", "--yes")
    assert (whole.code, whole.out) == (0, "3 cancelled\n")
    again = say("jobs", "cancel", "--scope=knowledge_base:b", "--queue=default", "--yes")
    assert (again.code, again.out) == (0, "no job matches\n")
    deeds = [(deed.action, deed.target_id) for deed in asyncio.run(audited(tmp_path))]
    assert deeds == [("system.scope_cancelled", "b"), ("system.queue_tasks_cancelled", "default")]


def test_jobs_are_run_and_deleted_one_or_some_and_a_refusal_says_what_is_allowed(say, tmp_path):
    first, second, third = asyncio.run(some(tmp_path, *(Enqueue(Work(n=n), delay=60) for n in range(3))))
    refused = say("jobs", "delete", first, "--json")
    assert (
        refused.code,
        "a job that is scheduled cannot be deleted; it allows" in refused.json["error"],
    ) == (1, True)
    assert say("jobs", "run-now", first).out == "put in its queue\n"
    named = say("jobs", "cancel", second, third, "nobody", "--json")
    assert (named.code, named.json["effects"]) == (
        1,
        {second: "cancelled", third: "cancelled", "nobody": "not_found"},
    )
    assert say("jobs", "delete", "--state=cancelled", "--yes", "--json").json["counts"] == {"deleted": 2}
    assert sorted(deed.outcome for deed in asyncio.run(audited(tmp_path))) == [
        "denied",
        "success",
        "success",
        "success",
    ]


def test_what_was_given_up_is_listed_shown_replayed_and_struck_off(say, tmp_path):
    jobs = asyncio.run(some_die(tmp_path, 4))
    listed = say("dead", "list", "--json").json
    letters = listed["dead_letters"]
    assert [one["job_id"] for one in letters] == jobs[::-1]
    assert listed["groups"] == [{"reason": "skip", "task_type": "document:process", "count": 4}]
    assert "no [use] 0" in say("dead", "list", "--error=use] 0").out
    assert [one["document"] for one in letters] == [f"note-{n}.md" for n in (3, 2, 1, 0)]
    assert "\tnote-0.md\t" in say("dead", "list").out
    shown = say("dead", "show", jobs[0])
    assert "document\tnote-0.md" in shown.out
    assert "its job is archived" in shown.out
    assert "Replay it only after its input has changed" in shown.out
    first = str(letters[0]["id"])
    assert say("dead", "replay", first, "--json").json["effects"] == {first: "replayed"}
    again = say("dead", "replay", first)
    assert (again.code, "dies again" in again.out) == (1, True)
    assert say("dead", "replay").code == 2
    assert say("dead", "replay", "--all").code == 2
    assert say("dead", "replay", "99").code == 1
    assert say("dead", "purge", jobs[2], "--json").json == {"success": True, "deleted": 1}
    assert say("dead", "replay", "--all", "--reason=skip", "--type=document:process", "--yes").code == 0
    assert say("dead", "list", "--json").json["dead_letters"] == []
    assert len(say("dead", "list", "--replayed", "--json").json["dead_letters"]) == 3


def test_what_is_no_longer_kept_is_replayed_by_a_command_that_runs_no_such_job(say, tmp_path):
    async def forget(job_id: str) -> None:
        async with Pipeline.open(data_dir=tmp_path) as pipeline:
            await pipeline.inspector.delete(job_id)

    (job,) = asyncio.run(some_die(tmp_path, 1))
    asyncio.run(forget(job))
    assert say("dead", "replay", job).out == "1 replayed\n"


def test_a_repeated_cancel_or_pause_says_so_and_whatever_is_refused_is_written_down(say, tmp_path):
    (job,) = asyncio.run(some(tmp_path, Enqueue(Work(), delay=60)))
    assert say("jobs", "cancel", job).out == "cancelled\n"
    assert say("jobs", "cancel", job).out == "was cancelled already\n"
    assert say("pause", "wiki").code == 0
    assert say("pause", "wiki").out == "queue wiki starts nothing already until: streamlane resume wiki\n"
    assert say("jobs", "run-now", "nobody").code == 1
    assert say("dead", "replay", "77").code == 1
    deeds = [(deed.action, deed.target_id, deed.outcome) for deed in asyncio.run(audited(tmp_path))]
    assert deeds[:2] == [
        ("system.dead_letter_replayed", "77", "denied"),
        ("system.queue_task_run_now", "nobody", "denied"),
    ]


def test_who_makes_and_revokes_keys_and_administrators_is_written_down(say, tmp_path):
    for command in (
        ("keys", "create", "--name=ci", "--capability=system_audit_read", "--tenant=7"),
        ("keys", "revoke", "ci"),
        ("keys", "revoke", "ci"),
        ("admins", "add", "eve", "--json"),
        ("admins", "remove", "eve"),
        ("admins", "remove", "eve"),
    ):
        say(*command)
    deeds = asyncio.run(audited(tmp_path))[::-1]
    assert [(deed.action, deed.target_id, deed.outcome) for deed in deeds] == [
        ("system.api_key_created", "ci", "success"),
        ("system.api_key_revoked", "ci", "success"),
        ("system.api_key_revoked", "ci", "denied"),
        ("system.admin_added", "eve", "success"),
        ("system.admin_removed", "eve", "success"),
        ("system.admin_removed", "eve", "denied"),
    ]
    assert {(deed.actor_role, deed.actor_user_id) for deed in deeds} == {("command_line", getpass.getuser())}
    assert (deeds[0].details["capabilities"], deeds[0].details["tenant"]) == ("system_audit_read", "7")
    assert deeds[0].request_path == "streamlane keys create"


async def test_a_watch_prints_lines_where_nobody_draws_them_and_ends_quietly(tmp_path):
    log = tmp_path / "log"
    process = start_streamlane("queues", "--watch", data_dir=tmp_path / "data", log=log)
    try:
        await wait_until(lambda: log.read_text().count("\n") >= 3, describe="it looked twice", timeout=60)
        process.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(process.wait, 30) == 0
    finally:
        process.kill()
        process.wait()
    names, *lines = log.read_text().splitlines()
    assert names.split("\t")[:3] == ["time", "pending", "active"]
    assert all(re.match(r"\d{4}-\S+\t0\t0\t", line) for line in lines)


async def test_a_watch_is_drawn_in_place_on_a_terminal_and_ends_with_ctrl_c(tmp_path):
    with on_a_terminal("queues", "--watch", data_dir=tmp_path) as terminal:
        await wait_until(lambda: terminal.read().count("\x1b[1A") > 20, describe="it was redrawn", timeout=60)
        terminal.type("\x03")
        await wait_until(terminal.ended, describe="it has ended", timeout=30)
    assert terminal.code == 0
    assert "chat_attachment" in terminal.said
    assert "interrupted" not in terminal.said


async def test_on_a_terminal_a_person_is_asked_first(tmp_path):
    await some(tmp_path, Work(), Work(n=1))
    for answer, code, left in (("n", 1, 2), ("y", 0, 0)):
        with on_a_terminal("jobs", "cancel", "--state=pending", data_dir=tmp_path) as terminal:
            await wait_until(lambda: "[y/N]" in terminal.read(), describe="it asks", timeout=60)
            terminal.type(f"{answer}\n")
            await wait_until(terminal.ended, describe="it has ended", timeout=30)
        async with Pipeline.open(data_dir=tmp_path) as pipeline:
            assert (terminal.code, (await pipeline.inspector.queues())[0].pending) == (code, left)
        assert "Cancel 2 jobs?" in terminal.said
