"""The terminal and a scheduler of its own put what got stuck into order."""

import asyncio
import os
import signal
from functools import partial

import pytest
from consumers.housekeeping import LEASE_S
from consumers.knowledge.bases.pending import add_if_active
from consumers.knowledge.documents.lifecycle import delete
from contracts.knowledge import ParseStatus
from contracts.payloads.maintenance import KnowledgeListDelete
from contracts.payloads.wiki import WikiIngest
from pipeline.store import now_ms

from tests.support.commands import start_streamlane, streamlane
from tests.support.house import PLACES, open_house
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

COMPLETED, FAILED, DELETING = ParseStatus.COMPLETED, ParseStatus.FAILED, ParseStatus.DELETING


@pytest.fixture(params=PLACES)
async def house(request, tmp_path):
    async with open_house(tmp_path, request.param) as opened:
        yield opened


def place(house):
    """Where a process finds the house."""
    url = house.library.database.url
    env = {
        "STREAMLANE_DATABASE_URL": url.render_as_string(hide_password=False),
        "STREAMLANE_LOG_LEVEL": "info",
    }
    settings = house.backend.settings()
    env |= {f"STREAMLANE_{name.upper()}": str(settings[name]) for name in settings if name != "data_dir"}
    return {"data_dir": settings["data_dir"], "env": env}


async def left_behind(house):
    """What processes left that were killed, and a queue that lost its jobs: one of each kind."""
    library = house.library
    pending = await house.document(ParseStatus.PENDING, "pending")
    finalizing = await house.document(ParseStatus.FINALIZING, "finalizing")
    deleting = await house.document(ParseStatus.FINALIZING, "deleting")
    await library.do(delete, 7, [deleting.id], now_ms())
    await house.lose_jobs()
    await library.do(add_if_active, 7, library.kb.id, "wiki:ingest", "ingest", "k1")
    await house.age()
    return pending, finalizing, deleting


async def test_what_is_stuck_is_told_and_then_put_into_order(house):
    pending, finalizing, deleting = await left_behind(house)
    command = partial(streamlane, **place(house))

    async def say(*args):
        return await asyncio.to_thread(command, *args)

    would = (await say("housekeeping", "--dry-run", "--json")).json
    assert would["dry_run"]
    assert {deed["document"]: deed["verdict"] for deed in would["deeds"]} == {
        pending.id: "fail", finalizing.id: "go_on", deleting.id: "delete_again",
    }  # fmt: skip
    assert await house.library.status(pending.id) is ParseStatus.PENDING
    done = await say("housekeeping")
    assert done.code == 0
    for said in (pending.id, "task stuck in pending", "left out: ", "the removal was lost", "wikis told"):
        assert said in done.out, done
    assert await house.library.status(pending.id) is FAILED
    assert (await say("housekeeping")).out.strip() == "nothing is stuck"


async def test_of_two_that_put_things_into_order_at_once_the_second_says_so(house):
    await house.pipeline.broker.lock("housekeeping", "another", 60_000)
    said = await asyncio.to_thread(streamlane, "housekeeping", **place(house))
    assert (said.code, said.out) == (1, "")
    assert "another process is at it" in said.err


async def test_a_restart_heals_what_was_left(house, tmp_path):
    pending, finalizing, deleting = await left_behind(house)
    log = tmp_path / "log"
    process = start_streamlane("scheduler", log=log, **place(house))
    statuses = {pending: FAILED, finalizing: COMPLETED, deleting: DELETING}

    async def healed():
        now = [await house.library.status(document.id) for document in statuses]
        removals, wikis = await house.waiting(KnowledgeListDelete), await house.waiting(WikiIngest)
        return now == list(statuses.values()) and len(removals) == len(wikis) == 1

    try:
        await wait_until(healed, describe="all is in order", timeout=60)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 30) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    lines = [line for line in log.read_text().splitlines() if '"component": "housekeeping"' in line]
    for document in statuses:
        assert len([line for line in lines if document.id in line]) == 1, "one line a document"
    assert len([line for line in lines if '"event": "swept"' in line]) == 1
    assert "has stopped" in log.read_text()


@pytest.mark.timeout(180)
async def test_where_the_leader_is_killed_in_the_midst_of_a_sweep_another_ends_it_within_the_lease(house):
    if house.proxy is None:
        pytest.skip(
            "it takes a minute, and the lock is the same: it runs on Redis with PostgreSQL, where leaders are on several machines"
        )
    documents = [await house.document(ParseStatus.PENDING, f"doc{number}") for number in range(200)]
    await house.lose_jobs()
    await house.age()

    async def failed():
        found = "SELECT count(*) FROM knowledges WHERE parse_status = 'failed'"
        return (await house.library.rows(found))[0][0]

    leader = start_streamlane("scheduler", **place(house))
    try:
        await wait_until(failed, describe="the sweep has begun", timeout=60, longest_pause=0.01)
    finally:
        os.killpg(leader.pid, signal.SIGKILL)
        leader.wait()
    assert await failed() < len(documents), "it was killed in the midst of it"
    other = start_streamlane("scheduler", **place(house))
    try:

        async def all_failed():
            return await failed() == len(documents)

        await wait_until(all_failed, describe="another has ended it", timeout=LEASE_S + 30)
    finally:
        os.killpg(other.pid, signal.SIGKILL)
        other.wait()
