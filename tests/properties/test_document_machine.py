"""Whatever happens to a document in whatever order, it is never left waiting for something that nobody will do."""

import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from consumers.knowledge.documents.documents import cancel, fail
from consumers.knowledge.documents.lifecycle import cancel_parse, delete, reparse
from contracts.knowledge import OPEN, ParseStatus
from contracts.payloads.maintenance import KnowledgeListDelete
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.databases import migrated
from tests.support.library import Killed, open_library
from tests.support.library_work import give_up, handle, killed_at, work

PLACES = st.integers(0, 1000)


class DocumentMachine(RuleBasedStateMachine):
    """One document under a worker that delivers jobs in any order, twice, or dies over them."""

    kind = "sqlite"

    @initialize()
    def begin(self):
        self.runner, self.stack = asyncio.Runner(), AsyncExitStack()
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        url = self.stack.enter_context(migrated(self.kind, folder))
        self.library = self.runner.run(self.stack.enter_async_context(open_library(folder, url)))
        self.done = {}
        self.knowledge_id = self.runner.run(self.library.register("/a.txt", "ducks")).knowledge_id

    def teardown(self):
        if not hasattr(self, "library"):
            return
        try:
            self.runner.run(self.ends())
        finally:
            self.runner.run(self.stack.aclose())
            self.runner.close()

    @rule(content=st.sampled_from(["ducks", "geese", "swans"]))
    def register(self, content):
        self.knowledge_id = self.runner.run(self.library.register("/a.txt", content)).knowledge_id

    @rule(places=st.lists(PLACES, min_size=1, max_size=5))
    def deliver(self, places):
        for place in places:
            if self.library.queue.waiting:
                job_id, job = self.waiting(place)
                self.runner.run(handle(self.library, job_id, job))
                self.done[job_id] = self.library.queue.waiting.pop(job_id)
                self.somebody_will_move_it()

    @precondition(lambda self: self.library.queue.waiting)
    @rule(place=PLACES, statement=st.integers(1, 15))
    def die(self, place, statement):
        job_id, job = self.waiting(place)

        async def deliver():
            try:
                await handle(self.library, job_id, job)
            except Killed:
                await self.library.reopen()

        with killed_at(statement):
            self.runner.run(deliver())

    @precondition(lambda self: self.done)
    @rule(place=PLACES)
    def deliver_again(self, place):
        job_id, job = sorted(self.done.items())[place % len(self.done)]
        self.runner.run(handle(self.library, job_id, job))

    @precondition(lambda self: self.library.queue.waiting)
    @rule(place=PLACES)
    def archive(self, place):
        job_id, job = self.waiting(place)
        self.runner.run(give_up(self.library, job_id, job))
        self.library.queue.waiting.pop(job_id)

    @rule()
    def fail(self):
        if not self.stands():
            return
        document = self.runner.run(self.library.document(self.knowledge_id))
        self.runner.run(self.library.do(fail, self.library.index, document.id, document.attempt, "because"))

    @rule(verb=st.sampled_from([cancel_parse, reparse]))
    def ask(self, verb):
        self.runner.run(self.library.stop(verb, self.knowledge_id))

    @rule()
    def delete(self):
        self.runner.run(self.library.stop(delete, [self.knowledge_id]))

    @rule()
    def cancel(self):
        self.runner.run(self.library.do(cancel, self.knowledge_id))

    @rule(away=st.booleans())
    def queue_is(self, away):
        self.library.queue.away = away

    @precondition(lambda self: not self.library.queue.away)
    @rule()
    def relay(self):
        self.runner.run(self.library.outbox.relay(older_than_ms=0))

    @invariant()
    def somebody_will_move_it(self):
        self.runner.run(self.moves())

    def waiting(self, place):
        return sorted(self.library.queue.waiting.items())[place % len(self.library.queue.waiting)]

    def stands(self):
        """Whether the document is there."""
        return bool(self.runner.run(self.library.rows("SELECT id FROM knowledges")))

    async def moves(self):
        if not await self.library.rows("SELECT id FROM knowledges"):
            for table in ("slots", "chunks", "search_entries", "knowledge_processing_spans"):
                assert await self.library.rows(f"SELECT * FROM {table}") == [], "nothing is left of it"
            return
        document = await self.library.document(self.knowledge_id)
        coming = {job_id for (job_id,) in await self.library.rows("SELECT id FROM outbox")} | {
            job_id
            for job_id, job in self.library.queue.waiting.items()
            if getattr(job, "attempt", None) == document.attempt
        }
        slots = {job_id for (job_id,) in await self.library.rows("SELECT id FROM slots")}
        assert slots <= coming, "every open slot has a job that will close it"
        if document.parse_status is ParseStatus.DELETING:
            waiting = self.library.queue.waiting.values()
            unsent = await self.library.rows("SELECT 1 FROM outbox WHERE type = 'knowledge:list_delete'")
            assert unsent or any(isinstance(job, KnowledgeListDelete) for job in waiting), "nobody removes it"
        if document.parse_status in OPEN:
            assert coming, f"it is {document.parse_status}, and nothing is on its way"
        else:
            assert not slots, f"it is {document.parse_status}, and a slot is open"

    async def ends(self):
        self.library.queue.away = False
        await work(self.library)
        ended = {status for (status,) in await self.library.rows("SELECT parse_status FROM knowledges")}
        assert ended <= {"completed", "failed", "cancelled"}
        rows = await self.library.rows(
            "SELECT attempt, kind, position, count(*) FROM chunks GROUP BY 1, 2, 3"
        )
        assert all(count == 1 for *_, count in rows)
        assert len({attempt for attempt, *_ in rows}) <= 1, "chunks of one attempt only"


class DocumentMachineOnPostgres(DocumentMachine):
    """The same on a server."""

    kind = "postgres"


TestDocumentMachine = DocumentMachine.TestCase
TestDocumentMachine.settings = settings(max_examples=settings().max_examples // 4, stateful_step_count=20)
TestDocumentMachineOnPostgres = pytest.mark.postgres(DocumentMachineOnPostgres.TestCase)
TestDocumentMachineOnPostgres.settings = TestDocumentMachine.settings
