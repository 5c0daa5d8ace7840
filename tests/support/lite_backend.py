"""A queue file as a backend of tests."""

import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from pipeline.backends.lite.broker import LiteBroker
from pipeline.backends.lite.leases import LiteLeases
from pipeline.backends.lite.reader import Reader
from pipeline.backends.lite.writer import Writer
from pipeline.broker import Broker

from tests.support.faults import Faults, asked, know_who_asks

COUNTERS: Final = {"counters", "stats"}


class Lite:
    """A queue file. Requests and replies are lost where this process hands operations to the file and gets answers."""

    def __init__(self, folder: Path) -> None:
        self.faults = Faults()
        self._folder = folder / "data"
        self._brokers: list[LiteBroker] = []
        self._patch = pytest.MonkeyPatch()
        know_who_asks(self._patch, LiteBroker)
        self._patch.setattr(Writer, "submit", self._lossy(Writer.submit))
        self._patch.setattr(Reader, "run", self._lossy(Reader.run))
        self._patch.setattr(LiteLeases, "renew", self._lossy_renewal(LiteLeases.renew))

    async def open(self) -> Broker:
        broker = LiteBroker.open(self._folder / "queue.db")
        self._brokers.append(broker)
        return broker

    async def restart(self) -> Broker:
        await self._close_all()
        return await self.open()

    async def close(self) -> None:
        await self._close_all()
        self._patch.undo()

    def settings(self) -> Mapping[str, Any]:
        return {"data_dir": self._folder}

    def footprint(self) -> Mapping[str, int]:
        with closing(sqlite3.connect(self._folder / "queue.db")) as file:
            tables = [name for (name,) in file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
            kept = (name for name in tables if name not in COUNTERS)
            return {name: file.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in kept}

    async def _close_all(self) -> None:
        while self._brokers:
            await self._brokers.pop().close()

    def _lossy(self, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def ask(place: Any, operation: Any) -> Any:
            on_behalf = asked.get()
            loss = self.faults.begin(on_behalf)
            answer = await method(place, operation)
            self.faults.end(on_behalf, loss)
            return answer

        return ask

    def _lossy_renewal(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def renew(leases: LiteLeases, deliveries: Any) -> Any:
            loss = self.faults.begin("renew")
            answer = method(leases, deliveries)
            self.faults.end("renew", loss)
            return answer

        return renew
