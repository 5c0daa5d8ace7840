"""Workers as a FastStream app: what we rely on in the framework, and what the app says and does."""

import asyncio
import inspect
import json
import tomllib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from contracts.jobs import Job, JobPayload, Scope, Unique
from contracts.states import JobState
from contracts.topology import QUEUES, UnknownNameError, home, weights
from contracts.wire import encode_options, options_schema
from faststream import FastStream
from faststream._internal.broker import BrokerUsecase
from faststream._internal.broker.registrator import Registrator
from faststream._internal.endpoint.subscriber import SubscriberSpecification, SubscriberUsecase
from faststream.exceptions import FeatureNotSupportedException
from faststream.specification.asyncapi.v3_0_0.schema import ApplicationSchema
from pipeline import Context, Pipeline, worker_app
from pipeline.config import Settings
from pipeline.errors import ConfigurationError
from pipeline.faststream_app import CrewBroker, PoolSubscriber
from pipeline.testing import Scripted

from tests.support.jobs import Work, for_ever, handles, record
from tests.support.waiting import stays_true, wait_until
from tests.support.work import apart

REDIS = "redis://worker:secret@redis.example:6380/3"


def document(app: FastStream) -> dict[str, Any]:
    found = app.schema.to_specification()
    assert isinstance(found, ApplicationSchema)
    return dict(found.to_jsonable())


@asynccontextmanager
async def running(app: FastStream) -> AsyncIterator[CrewBroker]:
    """The app as `faststream run` runs it, but for its process."""
    broker = app.broker
    assert isinstance(broker, CrewBroker)
    task = asyncio.create_task(app.run(sleep_time=0.01))
    try:
        await wait_until(
            lambda: (app.broker and app.broker.running) or task.done(), describe="the app has started"
        )
        yield broker
    finally:
        app.exit()
        await task


def working_app(handler: Any, **options: Any) -> FastStream:
    return worker_app(pools=["core"], handlers=[handles(handler)], only=["support:work"], **options)


# What we rely on


def test_faststream_is_of_the_minor_version_whose_insides_we_know() -> None:
    assert version("faststream").split(".")[:2] == ["0", "7"], "read pipeline/faststream_app.py again"
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    (asked,) = [one for one in project["dependencies"] if one.startswith("faststream")]
    assert "<0.8" in asked


def test_the_insides_that_we_build_on_have_kept_their_form() -> None:
    assert [*inspect.signature(FastStream.run).parameters] == [
        "self", "log_level", "run_extra_options", "sleep_time",
    ]  # fmt: skip
    assert [*inspect.signature(FastStream.start).parameters] == ["self", "run_extra_options"]
    assert [*inspect.signature(BrokerUsecase.__init__).parameters] == [
        "self", "config", "specification", "routers", "connection_kwargs",
    ]  # fmt: skip
    assert [*inspect.signature(SubscriberUsecase.__init__).parameters] == [
        "self", "config", "specification", "calls",
    ]  # fmt: skip
    assert isinstance(inspect.getattr_static(Registrator, "subscribers"), property)
    abstract = {
        n for n, part in vars(SubscriberUsecase).items() if getattr(part, "__isabstractmethod__", False)
    }
    assert abstract <= {*vars(PoolSubscriber)}
    assert inspect.isabstract(SubscriberSpecification) or "get_schema" in vars(SubscriberSpecification)


def test_faststream_hands_every_signal_to_the_apps_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the start of the process and ours, its handlers are the ones there are."""
    app, told = working_app(Scripted()), []
    monkeypatch.setattr("faststream.app.set_exit", lambda function, **_: told.append(function))
    app._should_exit = True
    asyncio.run(app.run())
    app._should_exit = False
    told[0](15, None)
    assert app._should_exit


# What the app does


async def test_an_app_works_like_any_worker_until_it_is_told_to_exit(pipeline: Pipeline) -> None:
    handler = Scripted()
    async with running(working_app(handler)) as broker:
        receipt = await pipeline.enqueue(Work(n=1))
        await pipeline.wait(receipt.id, timeout=10)
        assert await broker.ping()
        (beat,) = await wait_until(pipeline.inspector.workers, describe="it is registered")
        assert [pool.name for pool in beat.pools] == ["core"]
    assert handler.calls == [Work(n=1)]
    assert await pipeline.inspector.workers() == []


async def test_leaving_gives_jobs_their_grace_and_hands_back_the_rest(pipeline: Pipeline) -> None:
    began = asyncio.Event()

    async def handler(_job: Work, _ctx: Context) -> None:
        began.set()
        await for_ever()

    async with running(working_app(handler, settings=pipeline.settings)):
        receipt = await pipeline.enqueue(Work())
        await began.wait()
    found = await record(pipeline, receipt.id)
    assert (found.state, found.job.retried, found.job.crashes) == (JobState.PENDING, 0, 0)


async def test_a_subscriber_that_is_stopped_takes_no_job_until_it_is_started_again(
    pipeline: Pipeline,
) -> None:
    handler = Scripted()
    async with running(working_app(handler)) as broker:
        (pool,) = broker.subscribers
        await pool.stop()
        receipt = await pipeline.enqueue(Work())
        await stays_true(lambda: not handler.calls, describe="it waits", during=0.2)
        await pool.start()
        await pipeline.wait(receipt.id, timeout=10)


async def test_services_are_opened_once_and_closed_after_the_last_job(pipeline: Pipeline) -> None:
    happened: list[str] = []

    @asynccontextmanager
    async def services(_: Pipeline) -> AsyncIterator[list[str]]:
        happened.append("opened")
        yield happened
        happened.append("closed")

    async def handler(_job: Work, ctx: Context[list[str]]) -> None:
        ctx.services.append("used")

    async def duty() -> float:
        happened.append("duty")
        return 60

    async with running(working_app(handler, services=services, duties=lambda _: {"tidy": duty})):
        for receipt in await pipeline.enqueue_many([Work(), Work()]):
            await pipeline.wait(receipt.id, timeout=10)
    assert sorted(happened[1:-1]) == ["duty", "used", "used"]
    assert (happened[0], happened[-1]) == ("opened", "closed")


def test_a_handler_that_does_not_stop_in_time_ends_the_app_to_be_started_again() -> None:
    async def run() -> None:
        go_on = asyncio.Event()

        async def handler(_job: Work, _ctx: Context) -> None:
            while not go_on.is_set():
                with suppress(asyncio.CancelledError):
                    await go_on.wait()

        async with Pipeline.open(grace_s=0.2) as pipeline:
            await pipeline.enqueue(Work(), timeout=0.1)
            async with running(working_app(handler, settings=pipeline.settings)) as broker:
                assert broker.crew is not None
                await wait_until(broker.crew.stuck.is_set, describe="it is stuck")
                go_on.set()

    with pytest.raises(SystemExit) as end:
        asyncio.run(run())
    assert end.value.code == 75


async def test_what_cannot_work_ends_with_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STREAMLANE_LEAS_S", "1")
    with pytest.raises(SystemExit) as end:
        await working_app(Scripted()).run()
    assert end.value.code == 2
    assert capsys.readouterr().err == (
        "streamlane: unknown setting STREAMLANE_LEAS_S; did you mean STREAMLANE_LEASE_S?\n"
    )


async def test_an_app_is_run_and_not_started_by_hand() -> None:
    with pytest.raises(RuntimeError, match="by its lifespan"):
        await working_app(Scripted()).start()


async def test_jobs_do_not_go_through_its_broker() -> None:
    broker: Any = working_app(Scripted()).broker
    assert not await broker.ping()
    for asked in (broker.publish("{}"), broker.request("{}"), broker.subscribers[0].get_one()):
        with pytest.raises(FeatureNotSupportedException, match=r"Pipeline\.enqueue|by a pool"):
            await asked
    for ask in (broker.publisher, lambda: broker.subscriber(object())):
        with pytest.raises(FeatureNotSupportedException, match="add_broker"):
            ask()


def test_a_pool_that_does_not_exist_is_refused_at_once() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'core'"):
        worker_app(pools=["cor"], handlers=[])


# What the document says


def test_each_queue_is_a_channel_named_as_its_stream() -> None:
    with apart():
        said = document(
            worker_app(pools=["core", "interactive"], handlers=[], settings=Settings(namespace="app"))
        )
    for queue in (*weights("core"), *weights("interactive")):
        stream = f"app:{{{home(queue)}}}:q:{queue}"
        channel = said["channels"][stream]
        assert channel["address"] == stream
        assert channel["bindings"]["redis"] == {
            "channel": stream,
            "method": "xreadgroup",
            "groupName": home(queue),
            "consumerName": f"<host>:<process>:<start>/{QUEUES[queue].pool}",
            "bindingVersion": "custom",
        }
        assert f"XREADGROUP GROUP {home(queue)} " in channel["description"]
    assert len(said["channels"]) == len(weights("core")) + len(weights("interactive"))


def test_a_channel_offers_the_payloads_of_its_types_inside_the_fields_of_an_entry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with apart() as known:

        class Resize(JobPayload, type="image:resize", queue="default"):
            """Scale one image."""

            image_id: str

        class Crop(JobPayload, type="image:crop", queue="default"):
            """Cut one image."""

    monkeypatch.setattr("contracts.jobs._REGISTRY", known)
    said = document(worker_app(pools=["core"], handlers=[]))
    (message,) = said["channels"]["sl:{core}:q:default"]["messages"].values()
    entry = follow(said, follow(said, message)["payload"])
    forms = {form["title"]: form for form in (follow(said, one) for one in entry["oneOf"])}
    assert list(forms) == ["image:resize", "image:crop"]
    resize = forms["image:resize"]
    assert resize["description"] == "Scale one image."
    assert list(resize["properties"]) == ["id", "type", "data", "opts"]
    assert resize["properties"]["type"] == {"const": "image:resize"}
    data = follow(said, resize["properties"]["data"])
    assert (data["description"], list(data["properties"])) == ("Scale one image.", ["image_id"])
    assert "max_retry" in follow(said, resize["properties"]["opts"])["properties"]


def test_only_what_an_app_handles_is_documented_when_it_is_told_to_handle_only_that() -> None:
    said = document(working_app(Scripted()))
    forms = said["components"]["schemas"]["DefaultQueue"]["oneOf"]
    assert forms == [{"$ref": "#/components/schemas/WorkEntry"}]


def test_a_borrowed_queue_is_documented_once_and_in_a_fixed_order(recwarn: pytest.WarningsRecorder) -> None:
    with apart():
        said = document(worker_app(pools=["shared", "core", "enrichment"], handlers=[]))
    assert list(said["channels"]) == [f"sl:{{{home(queue)}}}:q:{queue}" for queue in weights("shared")]
    assert not recwarn.list


def test_every_reference_in_the_document_leads_somewhere() -> None:
    said = document(worker_app(pools=["core", "enrichment", "shared"], handlers=[]))

    def references(part: Any) -> Iterator[str]:
        if isinstance(part, dict):
            if isinstance(part.get("$ref"), str):
                yield part["$ref"]
            for value in part.values():
                yield from references(value)
        elif isinstance(part, list):
            for value in part:
                yield from references(value)

    found = list(references(said))
    assert len(found) > 10
    assert all(follow(said, {"$ref": one}) for one in found)


def test_the_server_is_named_without_what_is_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMLANE_REDIS_URL", REDIS)
    with apart():
        said = document(worker_app(pools=["ks"], handlers=[]))
    (server,) = said["servers"].values()
    assert (server["host"], server["pathname"], server["protocol"]) == ("redis.example:6380", "/3", "redis")
    assert "secret" not in str(said)


@pytest.mark.parametrize("url", [f"{REDIS}?password=secret", "redis://app:sec/ret@redis.example:6380/3"])
def test_an_address_that_cannot_be_is_refused_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("STREAMLANE_REDIS_URL", url)
    with apart(), pytest.raises(ConfigurationError):
        document(worker_app(pools=["ks"], handlers=[]))


def test_the_options_of_an_entry_are_all_described() -> None:
    full = Job(
        id="j", type="t", queue="default", data="{}", deadline=1, retention_ms=1, payload_version=2, codec="zip",
        scopes=(Scope("tenant", "7"),), unique=Unique("k"), root_id="r", root_at=1, parent_id="p", trace="t",
        enqueued_at=1, retried=1, crashes=1, crashed_at=1, unknown_since=1, away_since=1, died=1,
        last_error="e", last_failed_at=1,
    )  # fmt: skip
    written = json.loads(encode_options(full))
    assert len(written) == len(fields(Job)) - 4
    assert set(written) <= set(options_schema()["properties"])


def follow(said: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """What a reference leads to."""
    place: Any = said
    for step in found["$ref"].removeprefix("#/").split("/"):
        place = place[unquote(step).replace("~1", "/")]
    return dict(place) if "$ref" not in place else follow(said, place)
