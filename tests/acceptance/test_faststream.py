"""Workers under `faststream run`, real processes on a real Redis; and what `faststream docs` says of every lane."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import contracts.payloads
import pytest
from contracts.jobs import JobPayload, types_of
from contracts.states import JobState
from contracts.topology import QUEUES, Lane, home
from pipeline.runtime import Pipeline

from tests.support.jobs import record
from tests.support.redis_server import free_port
from tests.support.waiting import stays_true, wait_until
from tests.support.worker_process import ROOT, Act, Diary, worker_processes

pytestmark = pytest.mark.slow

LEASE_S = 2.0
GRACE_S = 1.0
SLACK_S = 2.0
"""A machine that does other things besides is given this much more than promised."""
FASTSTREAM = (sys.executable, "-m", "faststream")
RUN = (*FASTSTREAM, "run", "tests.support.faststream_worker:app")


@pytest.fixture
def diary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Diary:
    monkeypatch.setenv("STREAMLANE_TEST_DIARY", str(tmp_path / "diary"))
    return Diary(tmp_path / "diary")


@pytest.fixture(params=["redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """The settings that name a store: a Redis, unless a test asks for Lite too."""
    own = {"data_dir": tmp_path / "data"}
    return own if request.param == "lite" else own | {"redis_url": request.getfixturevalue("redis_url")}


on_both = pytest.mark.parametrize("store", ["redis", "lite"], indirect=True)


@pytest.fixture
def start(store: dict[str, Any], tmp_path: Path, diary: Diary) -> Iterator[Any]:
    with worker_processes(tmp_path / "data", diary) as started:
        yield lambda command=RUN, **settings: started(
            command=command, **({"lease_s": LEASE_S, "grace_s": GRACE_S} | store | settings)
        )


@pytest.fixture
async def pipeline(store: dict[str, Any]) -> AsyncIterator[Pipeline]:
    async with Pipeline.open(**store) as found:
        yield found


async def up(pipeline: Pipeline, count: int) -> list[int]:
    """The process ids of so many workers, once all live."""

    async def living() -> list[int]:
        found = [worker.pid for worker in await pipeline.inspector.workers()]
        return found if len(found) == count else []

    return await wait_until(living, describe=f"{count} workers live", timeout=60)


async def running(pipeline: Pipeline, diary: Diary, **job: Any) -> tuple[str, int]:
    """The id of a job that some worker has just started, and the process in which it did."""
    options = {name: job.pop(name) for name in ("timeout", "max_retry") if name in job}
    receipt = await pipeline.enqueue(Act(**job), retention=600, **options)
    await wait_until(lambda: diary.of("started", receipt.id), describe="the job has started", timeout=60)
    return receipt.id, diary.of("started", receipt.id)[0][0]


async def started_again(diary: Diary, job: str, times: int = 2) -> int:
    """The process in which a job was started for the second (third, …) time."""
    await wait_until(lambda: len(diary.of("started", job)) == times, describe="it runs again", timeout=30)
    return diary.of("started", job)[-1][0]


@on_both
async def test_a_worker_says_once_it_works_on_what_and_where_the_jobs_lie(
    pipeline: Pipeline, start: Any, tmp_path: Path
) -> None:
    start(pool_core_concurrency=3)
    await up(pipeline, 1)
    log, where = tmp_path / "worker-0.log", pipeline.broker.where
    said = f"streamlane: works on core (3); the queue is {where}\n"
    await wait_until(lambda: log.read_text() == said, describe="it has said what it works on")


@on_both
async def test_a_worker_told_to_stop_lets_short_jobs_end_and_hands_back_long_ones(
    pipeline: Pipeline, diary: Diary, start: Any
) -> None:
    worker = start(grace_s=3)
    long, pid = await running(pipeline, diary, seconds=60)
    short, _ = await running(pipeline, diary, seconds=1)
    assert pid == worker.pid
    worker.signal(signal.SIGTERM)
    assert await worker.ended() == 0
    assert (await record(pipeline, short)).state is JobState.COMPLETED
    found = await record(pipeline, long)
    assert (found.state, found.job.crashes, found.job.retried) == (JobState.PENDING, 0, 0)
    assert diary.of("cancelled", long)
    assert await pipeline.inspector.workers() == []


async def test_a_worker_told_to_stop_claims_nothing_more(
    pipeline: Pipeline, diary: Diary, start: Any, tmp_path: Path
) -> None:
    worker = start(grace_s=20, log_level="info")
    await running(pipeline, diary, seconds=4)
    worker.signal(signal.SIGINT)
    log = tmp_path / "worker-0.log"
    await wait_until(
        lambda: "shut down gracefully" in log.read_text(), describe="its subscribers have stopped"
    )
    late = await pipeline.enqueue(Act())
    assert await worker.ended() == 0
    assert diary.of("started", late.id) == []


async def test_a_second_signal_skips_the_wait(pipeline: Pipeline, diary: Diary, start: Any) -> None:
    worker = start(grace_s=60)
    job, _ = await running(pipeline, diary, seconds=60)
    worker.signal(signal.SIGTERM)
    await stays_true(lambda: worker.poll() is None, describe="it waits for its job", during=0.5)
    asked_at = time.monotonic()
    worker.signal(signal.SIGINT)
    assert await worker.ended() == 0
    assert time.monotonic() - asked_at <= 2 + SLACK_S
    assert (await record(pipeline, job)).state is JobState.PENDING


@on_both
async def test_the_job_of_a_killed_worker_runs_elsewhere_and_a_crash_is_no_failure(
    pipeline: Pipeline, diary: Diary, start: Any
) -> None:
    workers = {worker.pid: worker for worker in (start(), start())}
    assert set(await up(pipeline, 2)) == set(workers)
    job, pid = await running(pipeline, diary, seconds=3)
    workers[pid].signal(signal.SIGKILL)
    killed_at = time.monotonic()
    assert {await started_again(diary, job), pid} == set(workers)
    assert diary.of("started", job)[1][1] - killed_at <= LEASE_S + 2 + SLACK_S
    await pipeline.wait(job, timeout=30)
    found = await record(pipeline, job)
    assert (found.state, found.job.crashes, found.job.retried) == (JobState.COMPLETED, 1, 0)


async def test_a_handler_that_does_not_stop_does_not_keep_its_process(
    pipeline: Pipeline, diary: Diary, start: Any
) -> None:
    worker = start()
    job, _ = await running(pipeline, diary, way="refuse", seconds=60)
    worker.signal(signal.SIGTERM)
    assert await worker.ended() == 75
    found = await record(pipeline, job)
    assert (found.state, found.job.crashes, found.job.retried) == (JobState.PENDING, 0, 0)


async def test_a_handler_that_outlives_its_timeout_ends_its_worker(
    pipeline: Pipeline, diary: Diary, start: Any
) -> None:
    worker = start()
    job, _ = await running(pipeline, diary, way="refuse", seconds=60, timeout=0.5)
    assert await worker.ended() == 75
    assert (await record(pipeline, job)).state is JobState.RETRY


async def test_a_worker_with_a_dead_event_loop_ends_itself(
    pipeline: Pipeline, diary: Diary, start: Any
) -> None:
    worker = start(loop_stall_s=2)
    await running(pipeline, diary, way="block", seconds=60)
    assert await worker.ended() == 70


# Several processes under one supervisor


@on_both
async def test_each_child_is_a_worker_and_they_share_the_load(
    pipeline: Pipeline, diary: Diary, start: Any
) -> None:
    supervisor = start((*RUN, "--workers", "2"), pool_core_concurrency=1)
    children = await up(pipeline, 2)
    jobs = [await running(pipeline, diary, seconds=60) for _ in children]
    assert {pid for _, pid in jobs} == set(children)
    assert supervisor.pid not in children
    supervisor.signal(signal.SIGTERM)
    assert await supervisor.ended(timeout=30) == 0
    for job, _ in jobs:
        assert (await record(pipeline, job)).state is JobState.PENDING
    assert await pipeline.inspector.workers() == []


async def test_ctrl_c_gives_the_jobs_of_all_children_their_grace_though_it_reaches_each_twice(
    pipeline: Pipeline, diary: Diary, start: Any
) -> None:
    supervisor = start((*RUN, "--workers", "2"), pool_core_concurrency=1, grace_s=20)
    await up(pipeline, 2)
    jobs = [await running(pipeline, diary, seconds=4) for _ in range(2)]
    supervisor.signal_all(signal.SIGINT)
    assert await supervisor.ended(timeout=30) == 0
    for job, _ in jobs:
        assert (await record(pipeline, job)).state is JobState.COMPLETED


async def test_a_child_that_dies_is_replaced_and_its_job_runs_on(
    pipeline: Pipeline, diary: Diary, start: Any
) -> None:
    start((*RUN, "--workers", "2"))
    children = await up(pipeline, 2)
    job, pid = await running(pipeline, diary, seconds=2)
    os.kill(pid, signal.SIGKILL)
    assert await started_again(diary, job) != pid
    await pipeline.wait(job, timeout=30)

    async def replaced() -> bool:
        living = {worker.pid for worker in await pipeline.inspector.workers()}
        return len(living - set(children)) == 1

    await wait_until(replaced, describe="there is a new child", timeout=60)


async def test_children_whose_supervisor_was_killed_end_by_themselves(
    pipeline: Pipeline, diary: Diary, start: Any
) -> None:
    supervisor = start((*RUN, "--workers", "2"))
    await up(pipeline, 2)
    job, _ = await running(pipeline, diary, seconds=60)
    supervisor.signal(signal.SIGKILL)

    async def gone() -> bool:
        return not await pipeline.inspector.workers()

    await wait_until(gone, describe="no worker lives", timeout=GRACE_S + 10)
    found = await record(pipeline, job)
    assert (found.state, found.job.crashes) == (JobState.PENDING, 0)


# Beside the version before


@pytest.fixture
def previous(tmp_path: Path) -> Path:
    """The project as it was one commit ago."""
    folder = tmp_path / "previous"
    folder.mkdir()
    with suppress(FileNotFoundError):  # no git
        packed = subprocess.run(["git", "archive", "HEAD~1"], cwd=ROOT, capture_output=True, check=False)
        if packed.returncode == 0:
            subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
    if not (folder / "tests/support/faststream_worker.py").exists():
        pytest.skip("there is no commit before this one that can be run by FastStream")
    return folder


async def test_workers_of_the_version_before_and_of_this_one_take_over_from_each_other(
    pipeline: Pipeline, diary: Diary, start: Any, previous: Path
) -> None:
    old = start(cwd=previous)
    job, first = await running(pipeline, diary, seconds=60)
    assert first == old.pid
    new = start()
    await up(pipeline, 2)
    old.signal(signal.SIGTERM)
    assert await started_again(diary, job) == new.pid
    assert await old.ended() == 0
    old = start(cwd=previous)
    await up(pipeline, 2)
    new.signal(signal.SIGKILL)
    assert await started_again(diary, job, times=3) == old.pid
    found = await record(pipeline, job)
    assert (found.state, found.job.crashes, found.job.retried) == (JobState.ACTIVE, 1, 0)
    await pipeline.wait((await pipeline.enqueue(Act())).id, timeout=30)


@pytest.mark.parametrize(
    ("name", "value"), [("REDIS_URL", "nonsense://host"), ("GRACE_S", "soon"), ("REDIS_ULR", "redis://host")]
)
def test_the_supervisor_starts_nothing_under_a_setting_that_cannot_be_used(name: str, value: str) -> None:
    command = [*FASTSTREAM, "run", "consumers.lanes:background", "--workers", "2"]
    env = {**os.environ, f"STREAMLANE_{name}": value}
    done = subprocess.run(command, cwd=ROOT, env=env, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("streamlane: ")
    assert f"STREAMLANE_{name}" in line


def test_the_command_line_and_the_lanes_are_imported_without_the_framework() -> None:
    look = "import sys, consumers.cli, consumers.lanes; sys.exit('faststream' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", look], cwd=ROOT, check=False, timeout=100).returncode == 0


# The documentation


def generated(lane: str, folder: Path) -> dict[str, Any]:
    """What `faststream docs gen` writes of a lane."""
    file = folder / f"{lane}.json"
    command = [*FASTSTREAM, "docs", "gen", f"consumers.lanes:{lane}", "--out", str(file)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=100)
    return dict(json.loads(file.read_text("utf-8")))


def test_the_lanes_together_document_every_queue_and_every_payload_once(tmp_path: Path) -> None:
    lanes = [generated(lane, tmp_path) for lane in Lane]
    channels = {name: said for said in lanes for name in said["channels"]}
    assert sorted(channels) == sorted(f"sl:{{{home(queue)}}}:q:{queue}" for queue in QUEUES)
    assert sum(len(said["channels"]) for said in lanes) == len(channels)
    for queue in QUEUES:
        stream = f"sl:{{{home(queue)}}}:q:{queue}"
        schemas = channels[stream]["components"]["schemas"]
        message = channels[stream]["components"]["messages"][f"{stream}:SubscribeMessage"]
        entry = schemas[message["payload"]["$ref"].rpartition("/")[2]]
        forms = [schemas[form["$ref"].rpartition("/")[2]] for form in entry["oneOf"]]
        known = [payload for payload in types_of(queue) if of_the_platform(payload)]
        assert [form["title"] for form in forms] == [payload.spec.type for payload in known]
        for form, payload in zip(forms, known, strict=True):
            data = schemas[form["properties"]["data"]["$ref"].rpartition("/")[2]]
            assert payload.__doc__
            assert " ".join(data["description"].split()) == " ".join(payload.__doc__.split())
            assert set(data["properties"]) == set(payload.model_fields)


def of_the_platform(payload: type[JobPayload]) -> bool:
    """Whether a job type is no other test's."""
    return payload.__module__.startswith(contracts.payloads.__name__)


@pytest.mark.parametrize("pool", ["core", "postprocess", "enrichment"])
async def test_the_documentation_of_a_pool_is_served(pool: str, tmp_path: Path, diary: Diary) -> None:
    port = free_port()
    command = (*FASTSTREAM, "docs", "serve", f"consumers.{pool}:app", "--port", str(port))
    with worker_processes(tmp_path / "data", diary) as started:
        started(command=command)

        def page() -> str:
            with suppress(OSError), urllib.request.urlopen(f"http://localhost:{port}/", timeout=5) as answer:
                return str(answer.read().decode())
            return ""

        assert f"sl:{{{pool}}}:q:" in await wait_until(page, describe="it is served", timeout=60)
