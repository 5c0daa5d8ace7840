"""A run that dies at any of its steps, before or after what it writes, comes to the same in the end."""

from typing import Any

import pytest
from consumers.sources import taking
from contracts.sources import ItemState, SyncState

from tests.support.harvest import counts, open_harvest, write

STEPS = ("take", "remove")


@pytest.fixture
async def harvest(tmp_path, database_url):
    async with open_harvest(tmp_path, database_url) as opened:
        yield opened


class Dying:
    """Dies once, at the nth step of a run: before it is taken, or right after it was written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, nth: int, *, after: bool) -> None:
        self._left, self._after, self.died = nth, after, False
        for name in STEPS:
            monkeypatch.setattr(taking.Taker, name, self._around(getattr(taking.Taker, name)))

    def _around(self, step: Any) -> Any:
        async def taken(*args: Any, **options: Any) -> Any:
            now, self._left = self._left == 0, self._left - 1
            if now and not self._after:
                self.died = True
                raise RuntimeError("killed before")
            said = await step(*args, **options)
            if now:
                self.died = True
                raise RuntimeError("killed after")
            return said

        return taken


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("nth", range(5))
async def test_wherever_it_dies_it_comes_to_the_same(harvest, tmp_path, monkeypatch, nth, after):
    folder = tmp_path / "papers"
    write(folder, {f"{n:03}.txt": f"paper {n}" for n in range(230)})
    source = await harvest.source()
    await harvest.sync(source)
    before = await harvest.documents()
    write(folder, {"000.txt": "changed", "150.txt": "changed", "new.txt": "new"})
    for name in ("005.txt", "229.txt"):
        (folder / name).unlink()
    (folder / "100.txt").rename(folder / "renamed.txt")
    (folder / "101.txt").rename(folder / "000-renamed.txt")
    dying = Dying(monkeypatch, nth, after=after)
    run_id = await harvest.ask(source)
    run = await harvest.through(run_id)
    assert dying.died
    found = counts(run)
    assert run.state is SyncState.SUCCESS
    assert (found["created"], found["changed"], found["renamed"], found["deleted"]) == (1, 2, 2, 2)
    after_all = await harvest.documents()
    assert set(after_all) == (set(before) - {"005.txt", "229.txt", "100.txt", "101.txt"}) | {
        "new.txt",
        "renamed.txt",
        "000-renamed.txt",
    }
    assert after_all["renamed.txt"].id == before["100.txt"].id
    assert after_all["000-renamed.txt"].id == before["101.txt"].id
    assert {name for name, row in after_all.items() if row.attempt > 1} == {"000.txt", "150.txt"}
    assert {row.state for row in (await harvest.items(source)).values()} == {ItemState.SYNCED}
    assert counts(await harvest.sync(source)) == {"unchanged": 229}
