"""The outbox under kill -9 between any two steps of the sender's loop: what a transaction asked for happens once, or never."""

import os
import random
import signal
from pathlib import Path

import pytest
from contracts.states import JobState
from pipeline.runtime import Pipeline
from pipeline.store import Database, Outbox

from tests.support.backends import BACKENDS
from tests.support.crash import SENT, Process, send
from tests.support.databases import BOTH, migrated

KILLS = int(os.environ.get("STREAMLANE_TEST_KILLS", "10"))
CANCELLED, PENDING = JobState.CANCELLED, JobState.PENDING


@pytest.fixture(params=BOTH)
def url(request: pytest.FixtureRequest, tmp_path: Path):
    """Give where a fresh database is, again and again."""
    opened = []

    def make(name: str) -> str:
        found = migrated(request.param, tmp_path / name)
        opened.append(found)
        return found.__enter__().render_as_string(hide_password=False)

    yield make
    for one in opened:
        one.__exit__(None, None, None)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", list(BACKENDS))
async def test_a_sender_killed_at_any_step_sends_each_job_once_and_none_that_was_not_asked_for(
    kind, url, tmp_path
):
    seed = random.randrange(1 << 32)
    chance, last, killed = random.Random(seed), 0, 0
    for number in range(KILLS + 1):
        at = chance.randrange(1, last) if number else 0
        (tmp_path / f"queue-{number}").mkdir()
        backend, where = BACKENDS[kind](tmp_path / f"queue-{number}"), url(f"database-{number}")
        try:
            async with Process("sender", backend.settings(), url=where, last=at) as process:
                code = await process.ended(timeout=60)
            last = last or code * 100
            killed += code == -signal.SIGKILL
            async with Pipeline.open(**backend.settings()) as pipeline:
                await look(pipeline, where, (kind, seed, at))
        finally:
            await backend.close()
    assert killed > KILLS / 2, "most of them died"


async def look(pipeline: Pipeline, where: str, told: object) -> None:
    """Relay what is left, as another process does, and look at what there is in the end."""
    database = Database.open(where)
    outbox = Outbox(database, pipeline.enqueue_many, pipeline.broker)
    while (await outbox.waiting())[0]:
        await outbox.relay(older_than_ms=0)
    states = [
        await pipeline.broker.states([f"{n}-{part}" for part in ("a", "b", "again")]) for n in range(SENT)
    ]
    done = sum(state[0] is not None for state in states)
    for number, state in enumerate(states):
        if number < done - 1:
            assert state == [CANCELLED, CANCELLED, PENDING], (told, states)
        elif number == done - 1:
            assert state == [PENDING, PENDING, None], (told, states)
        else:
            assert state == [None, None, None], (told, states)
    page = await pipeline.inspector.tasks("postprocess", PENDING, page_size=100)
    ids = [record.job.id for record in page.records]
    assert len(ids) == len(set(ids)) == done - 1 + 2 if done else not ids, (told, ids)
    await send(outbox, SENT)
    assert await pipeline.broker.states([f"{SENT}-a"]) == [PENDING], "it goes on"
    await database.close()
