"""Killed between any two steps of its event loop, a process leaves nothing that the next one does not bring to an end."""

import os
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pipeline.config import Settings

from tests.support.commands import dying_streamlane, streamlane
from tests.support.databases import POSTGRES, migrated
from tests.support.dying import COUNTED
from tests.support.end_state import end_state

pytestmark = [pytest.mark.slow, pytest.mark.timeout(4 * 3600)]

KILLS = int(os.environ.get("STREAMLANE_TEST_KILLS", "3"))
CHOSEN = ("web/blog.html", "office/with-images.docx", "text/workzone-ru.txt", "text/empty.txt")
LEFT = ("pending", "active", "scheduled", "retry", "completed")


@dataclass
class Place:
    """A store and a database of their own."""

    data_dir: Path
    env: Mapping[str, str] = field(default_factory=dict)

    def end(self) -> dict[str, Any]:
        queues = streamlane("queues", "--json", data_dir=self.data_dir, env=self.env).json["queues"]
        left = {queue["name"]: queue[name] for queue in queues for name in LEFT if queue[name]}
        return {**end_state(self.data_dir, self.env.get("STREAMLANE_DATABASE_URL", "")), "left": left}


@pytest.fixture(params=["lite", POSTGRES])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], Place]]:
    """Give somewhere new each time: files alone, or Redis with PostgreSQL."""
    quick = {"STREAMLANE_LEASE_S": "1"}
    with ExitStack() as stack:

        def make(name: str) -> Place:
            folder = tmp_path / name
            if request.param == "lite":
                return Place(folder, quick)
            url = stack.enter_context(migrated("postgres", folder)).render_as_string(hide_password=False)
            redis_url = request.getfixturevalue("redis_url")
            more = {"STREAMLANE_REDIS_URL": redis_url, "STREAMLANE_NAMESPACE": name}
            return Place(folder, {**quick, **more, "STREAMLANE_DATABASE_URL": url})

        yield make


def test_killed_at_any_step_every_document_ends_and_nothing_is_left(
    samples: Path, tmp_path: Path, place: Callable[[str], Place]
) -> None:
    command = ("ingest", *(str(samples / name) for name in CHOSEN), "--kb", "demo", "--wiki", "--json")
    whole = place("whole")
    steps = tmp_path / "steps"
    dying_streamlane(0, *command, data_dir=whole.data_dir, env={**whole.env, COUNTED: str(steps)})
    undisturbed, last = whole.end(), int(steps.read_text())
    assert undisturbed["documents"]
    assert not undisturbed["left"]
    seed = random.randrange(1 << 32)
    chance, left = random.Random(seed), KILLS
    for number in count(1):
        if left <= 0:
            break
        here, chain = place(f"killed-{number}"), list[int]()
        while left > 0 and len(chain) < Settings().max_crashes:
            chain.append(chance.randrange(1, last))
            left -= dying_streamlane(chain[-1], *command, data_dir=here.data_dir, env=here.env)
        said = streamlane(*command, data_dir=here.data_dir, env=here.env)
        assert said.json.get("totals", {}).get("failed") == 1, (seed, chain, said)
        assert here.end() == undisturbed, (seed, chain)
