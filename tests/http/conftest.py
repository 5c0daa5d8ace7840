"""An app over a real queue and a real database, and callers of it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, contextmanager

import httpx
import pytest
from consumers.api import api_of
from consumers.commands.session import POOLS
from consumers.knowledge.bases.knowledge_bases import ensure_base, fix_embedding
from consumers.knowledge.documents.contents import chunks_of, store_parsed
from consumers.knowledge.documents.documents import ProcessOptions, SourceFile, begin_processing, register
from consumers.knowledge.documents.slots import begin_finalizing
from consumers.lanes import HANDLERS, handlers_of
from consumers.services import Services, open_services
from contracts.jobs import JobPayload, payload_types
from contracts.outcomes import Skip
from contracts.payloads.documents import DocumentProcess
from pipeline.errors import StoreUnavailable
from pipeline.handlers import Handler
from pipeline.runtime import Pipeline
from pipeline.store import audit, keys
from pipeline.store.engine import Database
from pipeline.store.keys import Capability
from pipeline.store.ledger import SqlLedger

from tests.support.backends import BACKENDS
from tests.support.databases import migrated
from tests.support.hand import Hand
from tests.support.library import MODEL, parsed
from tests.support.standing import let_stand
from tests.support.waiting import wait_until

BASES = "/api/v1/knowledge-bases"


@asynccontextmanager
async def calling(pipeline, database, services=None) -> AsyncIterator[httpx.AsyncClient]:
    """Give a client of the app over these; it knows nobody's key."""
    transport = httpx.ASGITransport(api_of(pipeline, database, services), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://streamlane.test") as client:
        yield client


@pytest.fixture(params=[*BACKENDS, pytest.param("redis-postgres", marks=pytest.mark.postgres)])
async def pipeline(request, tmp_path) -> AsyncIterator[Pipeline]:
    queue, _, database = request.param.partition("-")
    backend = BACKENDS[queue](tmp_path)
    try:
        with migrated(database or "sqlite", tmp_path) as url:
            where = url.render_as_string(hide_password=False)
            async with Pipeline.open(**backend.settings(), database_url=where) as opened:
                yield opened
    finally:
        await backend.close()


@pytest.fixture
async def services(pipeline) -> AsyncIterator[Services]:
    async with open_services(pipeline) as opened:
        yield opened


@pytest.fixture
def database(services: Services) -> Database:
    return services.database


@pytest.fixture
async def client(pipeline, services) -> AsyncIterator[httpx.AsyncClient]:
    async with calling(pipeline, services.database, services) as client:
        yield client


def unhandled() -> frozenset[str]:
    """The types that nobody handles: those of other tests are known in this process, too."""
    return frozenset(payload_types()) - {handler.payload.spec.type for handler in HANDLERS}


@pytest.fixture
async def working(pipeline, services) -> AsyncIterator[None]:
    """The pools of the document pipeline run."""
    async with pipeline.workers(
        pools=POOLS,
        handlers=HANDLERS,
        services=services,
        awaiting=unhandled(),
        duties=services.duties,
    ):
        yield


@pytest.fixture
def base(operator):
    """Make a base of a tenant; return its id."""

    async def make(name: str = "b", tenant: int = 1, **settings) -> str:
        body = {"name": name, "settings": settings}
        answer = await operator.post(BASES, params={"tenant_id": tenant}, json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    return make


@pytest.fixture
def ended(operator):
    """Wait until a document has ended; return it."""

    async def ended(ident: str):
        async def look():
            said = (await operator.get(f"/api/v1/knowledge/{ident}")).json()
            return said if said["parse_status"] in {"completed", "failed", "cancelled"} else None

        return await wait_until(look, describe=f"document {ident} has ended", timeout=60)

    return ended


@pytest.fixture
def hand(pipeline) -> Hand:
    return Hand(pipeline.broker)


@pytest.fixture
def key(database):
    """Make a key of these capabilities; return the headers that carry it."""

    async def make(*capabilities: Capability, tenant: int | None = None) -> dict[str, str]:
        async with database.transaction() as sql:
            _, text = await keys.create(sql, "test", capabilities, tenant)
        return {"X-API-Key": text}

    return make


@pytest.fixture
async def operator(client, key):
    """A caller who may do everything on the whole platform."""
    client.headers.update(await key(*Capability))
    return client


@pytest.fixture
def audited(database):
    """What the audit log says, the newest first."""

    async def rows(**narrowed):
        async with database.read() as sql:
            return await audit.listed(sql, 100, **narrowed)

    return rows


@pytest.fixture
def at_work(pipeline, services):
    """Within the block these pools work in this process."""

    @asynccontextmanager
    async def at_work(*pools: str):
        handlers = handlers_of(pools)
        async with pipeline.workers(pools=pools, handlers=handlers, services=services, awaiting=unhandled()):
            yield

    return at_work


@pytest.fixture
def die(pipeline, hand, database):
    """Let a job die and its death be recorded; return its id. By default it works on a document that stands."""

    async def die(error: str = "no use", payload: JobPayload | None = None, **fields):
        job: JobPayload = payload or (parse := document(**fields))
        if payload is None:
            await let_stand(database, parse.knowledge_id, parse.tenant_id, parse.knowledge_base_id)
        receipt = await pipeline.enqueue(job)
        delivery = await hand.take_one(job.spec.queue)
        await hand.settle(delivery, Skip(error))
        letters = await pipeline.broker.dead_letters([job.spec.queue], 100)
        await SqlLedger(database).record_deaths(letters)
        await pipeline.broker.forget_dead_letters([letter.death_id for letter in letters])
        return receipt.id

    return die


@pytest.fixture
def register_one(database):
    """Put a document into a base of a tenant; return its id and that of its base."""

    async def one(name: str, tenant: int = 1, base: str = "b"):
        file = SourceFile(
            source=name, file_name=name, file_type="txt", file_hash=name, file_size=1, file_key="k"
        )
        async with database.transaction() as sql:
            kb = await ensure_base(sql, tenant, base)
            registered = await register(sql, kb, file, ProcessOptions())
        return registered.knowledge_id, kb.id

    return one


@pytest.fixture
def complete_one(services, register_one):
    """Put a complete document of two passages into a base; return its id, that of its base and those of the passages."""

    async def one(name: str = "a", tenant: int = 1, base: str = "b"):
        ident, kb = await register_one(name, tenant, base)
        async with services.outbox.transaction() as sql:
            await begin_processing(sql, ident, 1)
            await fix_embedding(sql, kb, MODEL, 4)
            await store_parsed(sql, services.search, ident, 1, parsed(f"{name} swims", f"{name} flies"))
            await begin_finalizing(sql, ident, 1, [])
        async with services.database.read() as sql:
            chunks = await chunks_of(sql, ident, 1)
        return ident, kb, [chunk.id for chunk in chunks]

    return one


@pytest.fixture
def maintained(pipeline, services):
    """Work on long jobs, and those of other pools, while the block runs."""

    def maintained(*pools: str, change: Callable[[Handler], Handler] = lambda handler: handler):
        named = ["maintenance", *pools]
        handlers = [change(handler) for handler in handlers_of(named)]
        ours = {handler.payload.spec.type for handler in handlers}
        return pipeline.workers(
            pools=named, handlers=handlers, services=services, only=ours, duties=services.duties
        )

    return maintained


@pytest.fixture
def task_ended(operator):
    """Wait for the end of a task; return what is said of it."""

    async def task_ended(task_id: str):
        async def over():
            said = (await operator.get(f"/api/v1/tasks/{task_id}")).json()
            return said if said["status"] not in {"pending", "processing"} else None

        return await wait_until(over, describe=f"task {task_id} has ended", timeout=30)

    return task_ended


@pytest.fixture
def away_after(pipeline, monkeypatch):
    """Within the block a method of the queue works so many times, and then finds it away."""

    @contextmanager
    def away_after(times: int, method: str):
        real, left = getattr(pipeline.broker, method), iter(range(times))

        async def call(*args):
            if next(left, None) is None:
                raise StoreUnavailable("away")
            return await real(*args)

        with monkeypatch.context() as patched:
            patched.setattr(pipeline.broker, method, call)
            yield

    return away_after


def document(tenant: int = 1, base: str = "b1", knowledge: str = "k1", **fields) -> DocumentProcess:
    """A job whose document need not exist."""
    return DocumentProcess(
        tenant_id=tenant, knowledge_base_id=base, knowledge_id=knowledge, attempt=1, **fields
    )
