"""The document pipeline ends the same on Lite and on Redis, byte for byte: what is stored, found and answered."""

import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from consumers.commands.demo import BASE
from consumers.demo import QUESTION

from tests.support.commands import start_streamlane, streamlane
from tests.support.databases import BOTH, migrated
from tests.support.end_state import contents, rows
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CHOSEN = (
    "pdf/google-doc.pdf", "office/with-images.docx", "web/blog.html", "text/workzone-ru.txt", "text/empty.txt",
    "text/weknora-BUILTIN_MCP_SERVICES.md",
)  # fmt: skip
DEMO_QUESTIONS = (QUESTION, "进程被杀死后任务会丢失吗？")
COUNTED = ("name", "pending", "active", "scheduled", "retry", "archived", "completed", "processed", "failed")
KB = "same"


@pytest.fixture
def on_redis(redis_url: str) -> dict[str, str]:
    """What a command is told to work on Redis, with a lease that is soon over."""
    return {"STREAMLANE_REDIS_URL": redis_url, "STREAMLANE_LEASE_S": "1"}


@pytest.fixture(params=BOTH)
def away(
    request: pytest.FixtureRequest, on_redis: dict[str, str], tmp_path: Path
) -> Iterator[dict[str, str]]:
    """The same, with the database where several machines reach it, too."""
    with migrated(request.param, tmp_path) as url:
        where = {"STREAMLANE_DATABASE_URL": url.render_as_string(hide_password=False)}
        yield {**on_redis, **where}


@pytest.fixture(scope="module")
def chosen(samples: Path) -> list[str]:
    """A few of the real documents, of each kind one; one of them fails."""
    return [str(samples / name) for name in CHOSEN]


@pytest.fixture(scope="module")
def questions(samples: Path) -> list[str]:
    """What can be asked about them."""
    lines = map(json.loads, (samples / "questions.jsonl").read_text().splitlines())
    return [line["q"] for line in lines if line["file"] in CHOSEN][:3]


@pytest.fixture(scope="module")
def in_lite(
    chosen: list[str], questions: list[str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """How the chosen documents end on Lite, where nothing disturbs."""
    return ingested(chosen, questions, tmp_path_factory.mktemp("lite"))


def ingested(
    paths: list[str], questions: Sequence[str], data_dir: Path, env: Mapping[str, str] = {}
) -> dict[str, Any]:
    """Bring these files in, and return all that there is afterwards."""
    said = streamlane("ingest", *paths, "--kb", KB, "--json", data_dir=data_dir, env=env, timeout=200)
    assert said.json["totals"]["completed"] == len(paths) - 1, said
    return everything(KB, questions, data_dir, env)


def everything(
    kb: str, questions: Sequence[str], data_dir: Path, env: Mapping[str, str] = {}
) -> dict[str, Any]:
    """What is stored, what is left in the queues, and what these questions find."""
    assert (data_dir / "queue.db").exists() is not bool(env)
    commands = [("ask", questions[0]), *(("search", question) for question in questions)]
    said = [streamlane(*one, "--kb", kb, "--json", data_dir=data_dir, env=env).json for one in commands]
    queues = streamlane("queues", "--json", data_dir=data_dir, env=env).json["queues"]
    return {
        **contents(data_dir, exact=True, url=env.get("STREAMLANE_DATABASE_URL", "")),
        "asked": [nameless(one) for one in said],
        "queues": [{name: queue[name] for name in COUNTED} for queue in queues],
    }


def nameless(said: dict[str, Any]) -> dict[str, Any]:
    """Return what was found, without the ids, which are new in each base."""
    part = "hits" if "hits" in said else "citations"
    bare = [{name: one[name] for name in one if not name.endswith("_id")} for one in said[part]]
    return {**said, part: bare}


def test_the_demo_ends_the_same_on_redis(away: dict[str, str], tmp_path: Path) -> None:
    ends = []
    for name, env in (("lite", {}), ("redis", away)):
        said = streamlane("demo", data_dir=tmp_path / name, env=env)
        assert said.code == 0, said
        assert ("Everything lies in" in said.out) is (name == "lite")
        ends.append(everything(BASE, DEMO_QUESTIONS, tmp_path / name, env))
    lite, redis = ends
    assert redis == lite
    assert lite["tags"]


def test_real_documents_end_the_same_on_redis(
    chosen: list[str], questions: list[str], in_lite: dict[str, Any], away: dict[str, str], tmp_path: Path
) -> None:
    redis = ingested(chosen, questions, tmp_path / "redis", away)
    assert redis == in_lite
    assert all(
        redis[name] for name in ("documents", "chunks", "questions", "mentions", "relations", "images")
    )


async def test_killed_in_the_middle_on_redis_it_ends_as_if_it_had_not_been(
    chosen: list[str], questions: list[str], in_lite: dict[str, Any], away: dict[str, str], tmp_path: Path
) -> None:
    data_dir = tmp_path / "redis"
    process = start_streamlane("ingest", *chosen, "--kb", KB, data_dir=data_dir, env=away)
    try:
        await wait_until(
            lambda: parsed(away), describe="a document is parsed", timeout=60, longest_pause=0.02
        )
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert parsed(away) < len(chosen)
    redis = ingested(chosen, questions, data_dir, away)
    for end in (redis, in_lite):
        end["queues"] = [
            {name: n for name, n in queue.items() if name != "processed"} for queue in end["queues"]
        ]
    assert redis == in_lite


def parsed(env: Mapping[str, str]) -> int:
    """How many documents have chunks so far."""
    ((count,),) = rows(env["STREAMLANE_DATABASE_URL"], "SELECT count(DISTINCT knowledge_id) FROM chunks")
    return int(count)
