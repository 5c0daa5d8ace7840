"""Killed between any two steps of its event loop, a process leaves nothing that the next one does not bring to an end."""

import os
import random
from pathlib import Path

import pytest
from pipeline.config import Settings

from tests.support.commands import dying_streamlane, streamlane
from tests.support.dying import COUNTED
from tests.support.end_state import end_state

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

KILLS = int(os.environ.get("STREAMLANE_TEST_KILLS", "9"))
QUICK = {"STREAMLANE_LEASE_S": "1"}
CHOSEN = ("web/blog.html", "office/with-images.docx", "text/workzone-ru.txt", "text/empty.txt")


@pytest.fixture
def paths(samples: Path) -> list[str]:
    return [str(samples / name) for name in CHOSEN]


def test_killed_at_any_step_every_document_ends_and_nothing_is_left(paths: list[str], tmp_path: Path) -> None:
    command = ("ingest", *paths, "--kb", "demo", "--json")
    env = {**QUICK, COUNTED: str(tmp_path / "steps")}
    dying_streamlane(0, *command, data_dir=tmp_path / "whole", env=env)
    undisturbed, steps = end_state(tmp_path / "whole"), int((tmp_path / "steps").read_text())
    assert undisturbed["documents"]
    seed = random.randrange(1 << 32)
    chance, left = random.Random(seed), KILLS
    while left > 0:
        chain: list[int] = []
        data_dir = tmp_path / f"killed-{left}"
        while left > 0 and len(chain) < Settings().max_crashes:
            chain.append(chance.randrange(1, steps))
            left -= dying_streamlane(chain[-1], *command, data_dir=data_dir, env=QUICK)
        said = streamlane(*command, data_dir=data_dir, env=QUICK)
        assert said.json["totals"]["failed"] == 1, (seed, chain, said)
        assert end_state(data_dir) == undisturbed, (seed, chain)
