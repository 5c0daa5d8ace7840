"""The jobs of a document, and of what is like one."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from consumers.knowledge.answers import attachments
from consumers.knowledge.answers.attachments import Sent
from consumers.knowledge.bases import profile_asking, tags
from consumers.knowledge.bases.knowledge_bases import change_settings
from consumers.knowledge.documents import lifecycle, manual
from consumers.knowledge.documents.manual import Writing
from contracts.payloads.enrichment import DataTableSummary
from pipeline.records import JobRecord

from tests.support.documents import png
from tests.support.five.rows import ALL, DATABASE, FILES, VECTORS, Row, cancel_document
from tests.support.five.world import TENANT, World

GUIDE: Final = """# Worker pools

A worker pool is a set of queues with its own concurrency. The Core Pool serves the Default Queue, and the Shared Pool
borrows from the Core Pool. The Core Pool was written by Anna Berg in Oslo.

## How do I scale a pool?

Multiply the arrival rate by the mean duration and divide by 0.7. The Core Pool and the Wiki Pool never share slots.
"""
ORDERS: Final = "order,amount\n" + "\n".join(f"A-{n},{n * 10}" for n in range(1, 21))
LEASE: Final = (
    b"# Lease\n\nThe monthly rent of the flat is 12,400 crowns, due on the third day of each month.\n"
)
BROKEN: Final = b"%PDF-1.7\n" + bytes(range(256))
PROCESS, POST, IMAGE = "document:process", "knowledge:post_process", "image:multimodal"
CHILDREN: Final = ("summary:generation", "question:generation", "chunk:extract")
OF_A_DOCUMENT: Final = (PROCESS, POST, *CHILDREN)
Step = Callable[..., Awaitable[object]]


def sent(name: str, data: str | bytes, *through: str) -> Step:
    """A file of this content is sent, and its jobs of these types are done."""

    async def begin(world: World) -> None:
        await world.upload(name, data)
        await world.through(*through)

    return begin


def told(*through: str, **settings: Any) -> Step:
    """A base that wants this is told of worker pools, and the jobs of these types are done."""

    async def begin(world: World) -> None:
        await world.do(change_settings, world.kb, **settings)
        await world.tell("Worker pools", GUIDE)
        await world.through(*through)

    return begin


def parsed_again(*through: str) -> Step:
    """The document is parsed again, and its jobs of these types are done."""

    async def again(world: World, record: JobRecord) -> None:
        ident = world.payload(record).knowledge_id
        step = await world.do(lifecycle.reparse, TENANT, ident, await world.services.outbox.choose_cut())
        assert step.ok, step
        await world.through(*through)

    return again


async def tagged(world: World) -> None:
    listed = {"worker pools": "queues, concurrency and worker pools", "rivers": "water that flows to the sea"}
    await world.do(tags.ensure_tags, world.kb.id, listed)
    await told(PROCESS, POST, auto_tag=True)(world)


WRITING: Final = Writing(
    "Opening hours", "# Opening hours\n\nThe library of Hamar opens at nine and closes at five."
)


async def rewritten(world: World, record: JobRecord) -> None:
    step, _ = await manual.rewrite(world.services, TENANT, world.payload(record).knowledge_id, WRITING)
    assert step.ok, step


def written_as(writing: Writing) -> Step:
    async def begin(world: World) -> None:
        await manual.write(world.services, world.kb.id, writing)

    return begin


def attached(data: bytes) -> Step:
    """A file of these bytes is attached to a chat."""

    async def begin(world: World) -> None:
        path = world.folder / "lease.md"
        path.write_bytes(data)
        lease = Sent(tenant_id=TENANT, session_id="s1", name="lease.md", path=path, kept_hours=1.0)
        await attachments.attach(world.services.outbox, world.services.files, lease)

    return begin


async def no_table(world: World) -> None:
    """A text is to be described as if it were a table."""
    ident = await world.tell("Worker pools", GUIDE)
    await world.through(*OF_A_DOCUMENT)
    await world.pipeline.enqueue(DataTableSummary(tenant_id=TENANT, knowledge_id=ident))


async def profiled(world: World) -> None:
    await told(*OF_A_DOCUMENT)(world)
    await world.do(profile_asking.ask_at_once, world.kb)


def child(kind: str, needs: Any) -> Row:
    return Row(kind, told(PROCESS, POST), cancel_document, parsed_again(PROCESS, POST), needs)


ROWS: Final = (
    Row(
        PROCESS,
        sent("guide.md", GUIDE),
        cancel_document,
        parsed_again(),
        ALL,
        unreadable=sent("a.pdf", BROKEN),
    ),
    Row(IMAGE, sent("p.png", png(400, 300, 90), PROCESS), cancel_document, parsed_again(PROCESS), FILES),
    Row(POST, told(PROCESS), cancel_document, parsed_again(PROCESS), DATABASE),
    child("summary:generation", VECTORS),
    child("question:generation", VECTORS),
    child("chunk:extract", DATABASE),
    Row("knowledge:auto_tag", tagged),
    Row("datatable:summary", sent("orders.csv", ORDERS, PROCESS), needs=ALL, unreadable=no_table),
    Row(
        "manual:process",
        written_as(WRITING),
        cancel_document,
        rewritten,
        ALL,
        unreadable=written_as(Writing("Nothing", "----- ***** !!!")),
    ),
    Row("temporary_document:process", attached(LEASE), needs=FILES, unreadable=attached(bytes(range(256)))),
    Row("kb:profile", profiled),
)
