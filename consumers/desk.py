"""What people and programs act with, over HTTP and on the command line: the queue, with the domain behind it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from sqlalchemy.ext.asyncio import AsyncSession

import contracts.payloads  # registers them all, too: the job of a dead letter may be of any
from consumers.database import open_database, outbox_of, refuse_another
from consumers.extras import KNOWLEDGE
from consumers.graphs import StoredGraphs
from consumers.knowledge.bases.tenants import is_alive
from consumers.operator import operator
from consumers.overseeing import StoredDocuments
from consumers.wikis import StoredWikis
from contracts.jobs import payload_type
from pipeline import Database, Outbox, Pipeline
from pipeline.errors import ConfigurationError, NotAllowed
from pipeline.http.call import Call
from pipeline.http.desk import Belonging, Chance, Desk, Stopped
from pipeline.http.errors import Problem
from pipeline.http.principal import COMMAND_LINE, Principal
from pipeline.store import batches

Check = Callable[[], Awaitable[None]]


async def _nothing() -> None: ...


def desk_of(pipeline: Pipeline, database: Database) -> Desk:
    """Return what acts on this pipeline."""
    outbox = pipeline.inspector.unsent = outbox_of(pipeline, database)
    timeout = pipeline.settings.document_process_timeout
    return Desk(
        settings=pipeline.settings,
        broker=pipeline.broker,
        inspector=pipeline.inspector,
        database=database,
        handled=contracts.payloads.handled(),
        business=None if KNOWLEDGE.absent else Documents(database, outbox, timeout=timeout),
        documents=StoredDocuments(database, pipeline, outbox),
        wikis=StoredWikis(database),
        graphs=StoredGraphs(database),
        tenants=StoredTenants(),
    )


@asynccontextmanager
async def by_hand(command: str) -> AsyncIterator[Call]:
    """Open what the user of this machine acts with; the audit log names them and the command.

    Raises NotAllowed where a job does not let it, ConfigurationError where documents would have to be cancelled and
    are not here.
    """
    async with Pipeline.open() as pipeline, open_database(pipeline.settings) as database:
        desk = desk_of(pipeline, database)
        if desk.business is not None:
            outbox, timeout = outbox_of(pipeline, database), pipeline.settings.document_process_timeout
            check = partial(refuse_another, pipeline, database)
            desk = replace(desk, business=Documents(database, outbox, check, timeout=timeout))
        user = operator()
        who = Principal(user, user, COMMAND_LINE, frozenset())
        try:
            yield Call(desk, who, f"streamlane {command}", any_job=True)
        except Problem as problem:
            if problem.code == "business_cancel_unavailable":
                raise ConfigurationError(
                    f"a document waits for this job and has to be cancelled too: {KNOWLEDGE.how}"
                ) from None
            raise NotAllowed(problem.error) from None


class StoredTenants:
    """Implements `pipeline.http.desk.Tenants`."""

    async def lives(self, session: AsyncSession, tenant_id: int) -> bool:
        """See `Tenants`."""
        return await is_alive(session, tenant_id)


class Documents:
    """Implements `pipeline.http.desk.Business`: what a job works on is a document."""

    def __init__(
        self, database: Database, outbox: Outbox, check: Check = _nothing, *, timeout: float | None = None
    ) -> None:
        """Before the first document `check` says whether this is their database; `timeout` is that of a parse, in seconds."""
        self._database, self._outbox, self._check, self._timeout = database, outbox, check, timeout

    async def cancel_document(self, tenant_id: int | None, knowledge_id: str) -> tuple[Belonging, Stopped]:
        """See `Business`."""
        from consumers.knowledge.documents.documents import document  # here: they load slowly
        from consumers.knowledge.documents.lifecycle import cancel_parse

        await self._check()
        cut = await self._outbox.choose_cut()
        async with self._outbox.transaction() as sql:
            found = await document(sql, knowledge_id)
            if found is None:
                return Belonging.GONE, ()
            if tenant_id not in {None, found.tenant_id}:
                return Belonging.FOREIGN, ()
            await cancel_parse(sql, tenant_id, knowledge_id, cut)
        return Belonging.OURS, Outbox.stopped(sql)

    async def cancel_base(self, knowledge_base_id: str) -> Collection[str]:
        """See `Business`."""
        from consumers.knowledge.documents.documents import cancel
        from consumers.knowledge.progress.overseeing import documents_of

        await self._check()
        async with self._database.read() as sql:
            documents = await documents_of(sql, knowledge_base_id)
        for some in batches(sorted(ident for ident, under_way in documents.items() if under_way)):
            async with self._database.transaction() as sql:
                for ident in some:
                    await cancel(sql, ident)
        return documents

    async def again(self, job_id: str, task_type: str, data: str) -> Chance:
        """See `Business`."""
        from consumers.knowledge.documents.again import another_chance, concerns

        kind = payload_type(task_type)
        try:
            job = kind.decode(data) if kind else None
        except ValueError:
            job = None
        if job is None or not concerns(job):
            return Chance()
        await self._check()
        cut = await self._outbox.choose_cut()
        async with self._outbox.transaction() as sql:
            said = await another_chance(sql, job_id, job, cut, self._timeout)
        return Chance(said.refusal, said.afresh)
