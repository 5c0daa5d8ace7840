"""The main job as a person runs it, on real documents: what it says, what can be found, what a kill leaves."""

import json
import os
import random
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from consumers.knowledge.reading.ocr import why_unread
from pipeline.config import Settings

from tests.support.commands import Said, start_streamlane, streamlane
from tests.support.end_state import end_state
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FAILS = {"text/empty.txt": "empty", "office/truncated.docx": "damaged", "pdf/password.pdf": "password"}
KILLS = 20
QUICK = {"STREAMLANE_LEASE_S": "1"}


@pytest.fixture(scope="module")
def ingested(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Said]:
    """A data folder into which all samples were ingested once, and what the command said."""
    data_dir = tmp_path_factory.mktemp("samples")
    return data_dir, streamlane(
        "ingest", str(samples), "--kb", "demo", "--json", data_dir=data_dir, timeout=300
    )


def by_file(samples: Path, said: Said) -> dict[str, dict[str, Any]]:
    return {os.path.relpath(one["path"], samples): one for one in said.json["documents"]}


def test_every_sample_fares_as_its_readme_says(samples: Path, ingested: tuple[Path, Said]) -> None:
    _, said = ingested
    documents = by_file(samples, said)

    assert said.code == 1, said.err
    assert len(documents) == sum(path.is_file() for path in samples.rglob("*"))
    for name, word in FAILS.items():
        assert documents[name]["status"] == "failed"
        assert word in documents[name]["error"]
    for name, document in documents.items():
        if name not in FAILS:
            assert document["status"] == "completed", document
            assert document["error"] is None
            assert document["chunks"] > 0 or name == "pdf/image-only.pdf", document


def test_pictures_that_nobody_read_are_said(samples: Path, ingested: tuple[Path, Said]) -> None:
    document = by_file(samples, ingested[1])["pdf/image-only.pdf"]
    said = any("not read" in warning for warning in document["warnings"])
    assert said is (why_unread() is not None)


def test_what_cannot_be_read_is_not_tried_again(ingested: tuple[Path, Said]) -> None:
    data_dir, _ = ingested
    listed = streamlane("jobs", "list", "--state", "archived", "--json", data_dir=data_dir).json["jobs"]
    assert {(job["reason"], job["retried"]) for job in listed} == {("skip", 0)}
    assert len(listed) == len(FAILS)


def test_all_questions_have_their_file_among_the_first_three_hits(
    samples: Path, ingested: tuple[Path, Said]
) -> None:
    data_dir, _ = ingested
    for line in (samples / "questions.jsonl").read_text().splitlines():
        question = json.loads(line)
        found = streamlane("search", question["q"], "--kb", "demo", "--json", data_dir=data_dir).json["hits"]
        fitting = [hit for hit in found[:3] if hit["path"].endswith(question["file"])]
        assert fitting, (question, [hit["path"] for hit in found])
        assert any(all(word.lower() in hit["text"].lower() for word in question["words"]) for hit in fitting)


@pytest.mark.parametrize(
    ("question", "file"),
    [
        ("What is better than complicated?", "pdf/google-doc.pdf"),
        ("Почему массовая рассылка отделена от транзакционной почты?", "text/workzone-ru.txt"),
        ("内置 MCP 服务支持哪些传输方式？", "text/weknora-BUILTIN_MCP_SERVICES.md"),
    ],
)
def test_an_answer_cites_the_file_it_comes_from(
    ingested: tuple[Path, Said], question: str, file: str
) -> None:
    data_dir, _ = ingested
    said = streamlane("ask", question, "--kb", "demo", "--json", data_dir=data_dir)
    assert said.code == 0
    assert said.json["answer"]
    assert any(citation["path"].endswith(file) for citation in said.json["citations"])


def test_a_second_ingest_changes_nothing_and_says_so(samples: Path, ingested: tuple[Path, Said]) -> None:
    data_dir, _ = ingested
    before = end_state(data_dir)
    again = streamlane("ingest", str(samples / "text"), "--kb", "demo", "--json", data_dir=data_dir)
    totals = again.json["totals"]
    assert totals["unchanged"] == totals["documents"] - 1  # the empty file failed
    assert end_state(data_dir) == before


async def test_killed_at_random_moments_it_ends_as_if_it_had_not_been(samples: Path, tmp_path: Path) -> None:
    """Chains of kills on the same folder; each chain is then finished by one undisturbed run. None is longer than what a
    job survives that every kill hits: one more, and it is rightly given up.
    """
    chosen = [
        samples / "pdf" / "google-doc.pdf",
        samples / "office" / "with-images.docx",
        samples / "web" / "blog.html",
    ]
    paths = [
        str(path) for path in (*chosen, samples / "text" / "workzone-ru.txt", samples / "text" / "empty.txt")
    ]
    begun = time.monotonic()
    streamlane("ingest", *paths, "--kb", "demo", data_dir=tmp_path / "whole", env=QUICK)
    whole_s = time.monotonic() - begun
    undisturbed = end_state(tmp_path / "whole")
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    left = KILLS
    while left:
        data_dir = tmp_path / f"killed-{left}"
        for _ in range(min(left, Settings().max_crashes)):
            left -= 1
            process = start_streamlane("ingest", *paths, "--kb", "demo", data_dir=data_dir, env=QUICK)
            moment = time.monotonic() + chance.uniform(0.3, 1.0) * whole_s
            await wait_until(
                lambda: time.monotonic() >= moment or process.poll() is not None,  # noqa: B023 - called at once
                describe="the moment of the kill",
                timeout=whole_s + 10,
            )
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        last = streamlane("ingest", *paths, "--kb", "demo", "--json", data_dir=data_dir, env=QUICK)
        assert last.json["totals"]["failed"] == 1, last.json
        assert end_state(data_dir) == undisturbed, f"seed {seed}, {left} kills left"


async def test_told_to_stop_it_hands_its_jobs_back_and_counts_nothing(samples: Path, tmp_path: Path) -> None:
    paths = [str(samples / "web"), str(samples / "pdf")]
    process = start_streamlane("ingest", *paths, "--kb", "demo", data_dir=tmp_path)
    queue = tmp_path / "queue.db"

    def started() -> bool:
        return queue.exists() and bool(query(queue, "SELECT 1 FROM jobs WHERE state = 'active'"))

    await wait_until(started, describe="a job runs", timeout=60)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 130
    assert query(queue, "SELECT 1 FROM jobs WHERE state = 'active'") == []
    assert query(queue, "SELECT 1 FROM jobs WHERE opts LIKE '%crashes%'") == []


def query(path: Path, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path, timeout=10)) as connection:
        try:
            return connection.execute(statement).fetchall()
        except sqlite3.OperationalError:  # not made yet
            return []
