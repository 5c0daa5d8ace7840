"""The commands of docs/redis.md, taken from the document and run."""

import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import contracts.jobs
import pytest
from contracts.jobs import Job, JobPayload, Scope, Unique
from contracts.outcomes import Retry, Skip
from contracts.states import JobState
from pipeline.backends.redis.broker import RedisBroker
from pipeline.handlers import Context, on
from pipeline.runtime import Pipeline

from tests.support.hand import Hand, new
from tests.support.jobs import working
from tests.support.redis_server import shared
from tests.support.waiting import wait_until
from tests.support.work import apart

DOCUMENT: Final = (Path(__file__).parents[2] / "docs" / "redis.md").read_text()
Shell = Callable[[str], str]


def commands(heading: str) -> list[str]:
    """The commands below a heading."""
    section = DOCUMENT.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return [line.removeprefix("$ ") for line in section.splitlines() if line.startswith("$ redis-cli ")]


def by_program(line: str) -> str:
    command = ["redis-cli", "-e", "-u", shared().url, *shlex.split(line, comments=True)[1:]]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def by_client(line: str) -> str:
    with shared().client() as client:
        return repr(client.execute_command(*shlex.split(line, comments=True)[1:]))


@pytest.fixture(params=[by_program, by_client], ids=["redis-cli", "a client"])
def shell(request: pytest.FixtureRequest) -> Shell:
    if request.param is by_program and shutil.which("redis-cli") is None:
        pytest.skip("no redis-cli: apt-get install redis-tools")
    found: Shell = request.param
    return found


with apart() as TYPES:

    class Resize(JobPayload, type="image:resize", queue="default", max_retry=1, timeout=5):
        """What the document's example asks for."""

        tenant_id: int
        image_id: str


async def ran(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, write: Callable[[], object]
) -> tuple[Resize, Job]:
    """What the one job that `write` makes was, when it ran."""
    monkeypatch.setattr(contracts.jobs, "_REGISTRY", dict(TYPES))
    seen: list[tuple[Resize, Job]] = []

    async def resize(payload: Resize, ctx: Context) -> None:
        seen.append((payload, ctx.job))

    async with Pipeline.open(redis_url=redis_url) as pipeline, working(pipeline, on(Resize, resize)):
        write()
        (one,) = await wait_until(lambda: seen, describe="the job has run")
        await pipeline.wait(one[1].id, timeout=5)
    return one


async def test_the_job_from_another_language_runs_with_the_options_that_it_names(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    (command,) = commands("A job from another language")
    payload, job = await ran(redis_url, monkeypatch, lambda: shell(command))
    assert payload == Resize(tenant_id=7, image_id="i1")
    assert (job.id, job.max_retry, job.timeout_ms) == ("order-4711", 5, 60_000)
    assert job.scopes == (Scope("tenant", "7"),)


async def test_an_entry_without_id_and_opts_is_named_by_its_place_and_has_the_documented_limits(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    (command,) = commands("A job from another language")
    bare = command.replace(" id order-4711", "").partition(" opts ")[0]
    entries: list[str] = []
    _, job = await ran(redis_url, monkeypatch, lambda: entries.append(shell(bare).strip("b'\n")))
    assert (job.id, job.max_retry, job.timeout_ms) == (f"default:{entries[0]}", 25, 0)
    assert "`default:" in DOCUMENT
    assert "25 times" in DOCUMENT


async def test_every_option_of_the_table_is_understood(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    far = 4_102_444_800_000
    options = (
        f'{{"max_retry":0,"timeout_ms":0,"deadline":{far},"retention_ms":5000,"scopes":[["tenant","7"]],'
        '"unique":["i1",60,"done","drop"],"pv":1,"trace":"00-a-b-01"}'
    )
    assert all(
        f"`{name}`" in DOCUMENT for name in ("max_retry", "deadline", "retention_ms", "unique", "trace")
    )
    (command,) = commands("A job from another language")
    changed = command.partition(" opts ")[0] + f" opts '{options}'"
    _, job = await ran(redis_url, monkeypatch, lambda: shell(changed))
    assert (job.max_retry, job.timeout_ms, job.deadline, job.retention_ms) == (0, 0, far, 5000)
    assert job.unique == Unique("i1", 60, "done", "drop")
    assert (job.payload_version, job.trace) == (1, "00-a-b-01")


async def test_the_commands_for_looking_at_a_job_show_it(store: RedisBroker, shell: Shell) -> None:
    state, entry, running, waiting, dead = commands("Looking at a job")
    hand, (one,) = Hand(store), [new(max_retry=1)]
    await store.enqueue([one])
    first = await hand.take_one()

    def look(command: str) -> str:
        return shell(command.replace("0199…", one.job.id).replace("1795990136774-0", first.entry))

    assert "active" in look(state)
    assert first.entry in look(state)
    assert one.job.id in look(entry)
    assert hand.name in look(running)
    assert one.job.id not in look(waiting)
    assert await hand.settle(first, Retry(after=0.1)) is JobState.RETRY
    assert one.job.id in look(waiting)
    second = await hand.take_when_due()
    assert one.job.id not in look(dead)
    await hand.settle(second, Skip("no"))
    assert one.job.id in look(dead)
    assert "archived" in look(state)
