"""Whatever claimers and producers do in whatever order, no key has two holders and none of its operations is left out."""

import asyncio
import tempfile
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from pipeline.store import Database, pending_ops
from pipeline.store.pending_ops import Lane

from tests.support.databases import migrated

LANE = Lane("wiki:ingest", "knowledge_base", "kb")
STALE_MS = 1000
KEYS = st.sampled_from(["", "a", "b", "c"])
PLACES = st.integers(0, 100)


class PendingOps(RuleBasedStateMachine):
    """Rows as (id, key); who holds which of them since when."""

    kind = "sqlite"

    @initialize()
    def begin(self):
        self.runner, self.stack = asyncio.Runner(), AsyncExitStack()
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.database = Database.open(self.stack.enter_context(migrated(self.kind, folder)))
        self.stack.push_async_callback(self.database.close)
        self.clock, self.owners = 1_000_000, count()
        self.held: dict[str, tuple[int, dict[int, str]]] = {}
        self.patched = pytest.MonkeyPatch()
        self.patched.setattr(pending_ops, "now_ms", lambda: self.clock)

    def teardown(self):
        if hasattr(self, "stack"):
            self.patched.undo()
            self.runner.run(self.stack.aclose())
            self.runner.close()

    @rule(key=KEYS)
    def add(self, key):
        self.do(pending_ops.add, 7, LANE, "ingest", key)

    @rule(limit=st.integers(1, 3))
    def claim(self, limit):
        before = self.rows()
        owner, stale = str(next(self.owners)), self.clock - STALE_MS
        claimed = self.do(pending_ops.claim_batch, LANE, limit, owner=owner, stale_before=stale)
        got = {one.id: one.dedup_key for one in claimed}
        units = {key or ident for ident, key in got.items()}
        assert len(units) <= limit
        busy = {key for since, rows in self.held.values() if since >= stale for key in rows.values() if key}
        assert not busy & set(got.values())
        for row in before:  # none of a key that was claimed is left out
            assert row.dedup_key not in units or row.id in got
        free = {
            row.dedup_key or row.id: (row.fail_count, row.id)
            for row in reversed(before)
            if (row.claimed_at is None or row.claimed_at < stale) and row.dedup_key not in busy
        }
        assert len(units) == min(limit, len(free))
        self.held = {
            o: (since, {i: k for i, k in rows.items() if i not in got})
            for o, (since, rows) in self.held.items()
        }
        if got:
            self.held[owner] = self.clock, got

    @rule(place=PLACES, how=st.sampled_from([pending_ops.delete_ops, pending_ops.release, pending_ops.fail]))
    def settle(self, place, how):
        if self.held:
            owner = list(self.held)[place % len(self.held)]
            _, rows = self.held.pop(owner)
            done = self.do(how, list(rows), owner=owner)
            assert (len(done) if isinstance(done, dict) else done) == len(rows)

    @rule(by=st.sampled_from([1, STALE_MS + 1]))
    def wait(self, by):
        self.clock += by

    @invariant()
    def every_held_row_names_its_holder(self):
        if hasattr(self, "database"):
            told = {row.id: row.claimed_by for row in self.rows() if row.claimed_by}
            assert told == {ident: owner for owner, (_, rows) in self.held.items() for ident in rows}

    def rows(self):
        return self.do(pending_ops.peek, LANE, 1000)

    def do(self, step, *args, **options):
        async def run():
            async with self.database.transaction() as session:
                return await step(session, *args, **options)

        return self.runner.run(run())


class PendingOpsOnPostgres(PendingOps):
    """The same on a server."""

    kind = "postgres"


TestPendingOps = PendingOps.TestCase
TestPendingOpsOnPostgres = pytest.mark.postgres(PendingOpsOnPostgres.TestCase)
TestPendingOpsOnPostgres.settings = settings(max_examples=max(settings().max_examples // 4, 10))
