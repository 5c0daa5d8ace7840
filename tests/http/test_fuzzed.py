"""Whatever is sent to the API, its answer is one that its description has, and never that the server failed."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import schemathesis
from contracts.outcomes import Skip
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import booleans
from pipeline.runtime import Pipeline
from pipeline.store.engine import Database
from pipeline.store.ledger import SqlLedger
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from sqlalchemy import URL

from tests.http.conftest import document
from tests.http.test_rights import GUARDED, OPEN
from tests.support.backends import BACKENDS
from tests.support.commands import start_streamlane, streamlane
from tests.support.databases import migrated
from tests.support.hand import Hand
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CHECKS: Any = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
SOME = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
RIGHTS = ("system_runtime_manage", "system_audit_read", "system_tenants_manage", "knowledge_write")
REAL: dict[str, Any] = {"queue": "default", "id": 1, "kind": "knowledge", "action": "run_now"}
"""What leads past the first look at a path. `task_id` is added to it."""


class Served(NamedTuple):
    """The API in a process of its own, over some jobs: where it is, a key that opens all of it, and how much is tried."""

    address: str
    key: str
    examples: int


@pytest.fixture(params=[*BACKENDS, pytest.param("redis-postgres", marks=pytest.mark.postgres)])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    queue, _, database = request.param.partition("-")
    folder = tmp_path / "data"
    rights = [f"--capability={name}" for name in RIGHTS]
    with migrated(database or "sqlite", tmp_path) as url:
        env = {"STREAMLANE_DATABASE_URL": url.render_as_string(hide_password=False)}
        if queue == "redis":
            env["STREAMLANE_REDIS_URL"] = request.getfixturevalue("redis_server").url
        made = streamlane("keys", "create", "--name=fuzz", "--json", *rights, data_dir=folder, env=env)
        jobs = asyncio.run(some_jobs(folder, env.get("STREAMLANE_REDIS_URL"), url))
        process = start_streamlane("api", "--port=0", data_dir=folder, env=env, log=tmp_path / "log")
        try:
            address = asyncio.run(listening(tmp_path / "log"))
            REAL["task_id"] = jobs
            REAL["base"] = some_base(address, made.json["key"])
            yield Served(address, made.json["key"], 8 if database else SOME.max_examples)
        finally:
            process.terminate()
            process.wait(10)


async def some_jobs(folder: Path, redis_url: str | None, database_url: URL) -> str:
    """Leave a waiting job, and one that died and whose death is recorded; return the id of the latter."""
    async with Pipeline.open(data_dir=folder, redis_url=redis_url) as pipeline:
        dead = await pipeline.enqueue(document())
        hand = Hand(pipeline.broker)
        await hand.settle(await hand.take_one(), Skip("no use"))
        await pipeline.enqueue(document())
        database = Database.open(database_url)
        await SqlLedger(database).record_deaths(await pipeline.broker.dead_letters(["default"], 10))
        await database.close()
    return dead.id


def some_base(address: str, key: str) -> str:
    """Make a base to work on; return its id."""
    url, named = f"{address}/api/v1/knowledge-bases", {"name": "fuzzed"}
    made = httpx.post(url, params={"tenant_id": 1}, json=named, headers={"X-API-Key": key}, timeout=30)
    return str(made.json()["id"])


async def listening(log: Path) -> str:
    found = await wait_until(
        lambda: re.search(r"http://[\d.:]+/", log.read_text()), describe="the API listens", timeout=30
    )
    return found.group().rstrip("/")


def test_whatever_is_sent_is_answered_as_described(served: Served) -> None:
    described = schemathesis.openapi.from_url(f"{served.address}/openapi.json")
    some = settings(SOME, max_examples=served.examples)
    # what deletes comes last, for the rest to have something to find
    for method, path in sorted(
        OPEN | set(GUARDED), key=lambda one: ("GET POST PATCH DELETE".find(one[0]), one[1])
    ):
        fuzz(described[path][method], {"X-API-Key": served.key}, some)


def fuzz(endpoint: Any, headers: dict[str, str], some: settings) -> None:
    fine, wrong = (endpoint.as_strategy(generation_mode=mode) for mode in GenerationMode)
    real = REAL | ({"id": REAL["base"]} if "/knowledge-bases/{id}" in endpoint.path else {})

    @some
    @given(case=fine | wrong, there=booleans())
    def send(case: Case[Any], there: bool) -> None:
        if there:
            case.path_parameters |= {name: real[name] for name in case.path_parameters if name in real}
        case.call_and_validate(headers=headers, checks=CHECKS)

    send()
