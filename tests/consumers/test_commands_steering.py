"""Steering from the terminal: a queue is paused and resumed, and what was given up is listed, replayed and struck off."""

import asyncio

import pytest
from consumers.database import open_database
from contracts.outcomes import Skip
from contracts.payloads.documents import DocumentProcess
from pipeline.runtime import Pipeline
from pipeline.store.ledger import SqlLedger

from tests.support.commands import streamlane
from tests.support.hand import Hand


async def some_die(folder, count=2):
    """Let jobs die, their deaths recorded; return their ids."""
    async with Pipeline.open(data_dir=folder) as pipeline, open_database(pipeline.settings) as database:
        hand, died = Hand(pipeline.broker), []
        for n in range(count):
            job = DocumentProcess(tenant_id=1, knowledge_base_id="b", knowledge_id=f"k{n}", attempt=1)
            died.append((await pipeline.enqueue(job)).id)
            await hand.settle(await hand.take_one(), Skip("no [use]"))
        await SqlLedger(database).record_deaths(await pipeline.broker.dead_letters(["default"], 10))
    return died


@pytest.fixture
def say(tmp_path):
    return lambda *args: streamlane(*args, data_dir=tmp_path)


def test_a_queue_is_paused_and_resumed(say):
    assert say("pause", "wiki").code == 0
    paused = [queue["name"] for queue in say("queues", "--json").json["queues"] if queue["paused"]]
    assert paused == ["wiki"]
    assert say("resume", "wiki", "--json").json == {"queue": "wiki", "action": "resume", "success": True}
    nowhere = say("pause", "wikki")
    assert (nowhere.code, "did you mean 'wiki'?" in nowhere.err) == (2, True)


def test_what_was_given_up_is_listed_replayed_and_struck_off(say, tmp_path):
    jobs = asyncio.run(some_die(tmp_path, 3))
    listed = say("dead", "list", "--json").json["dead_letters"]
    assert [one["job_id"] for one in listed] == jobs[::-1]
    assert "no [use]" in say("dead", "list").out
    first = str(listed[0]["id"])
    assert say("dead", "replay", first, "--json").json == {"effects": {first: "replayed"}}
    assert say("dead", "replay", first).code == 1
    assert say("dead", "replay").code == 2
    assert say("dead", "purge", str(listed[1]["id"]), "--json").json == {"deleted": 1}
    assert say("dead", "replay", "--all").code == 0
    assert say("dead", "list", "--json").json == {"dead_letters": []}
