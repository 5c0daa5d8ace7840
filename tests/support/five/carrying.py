"""The jobs that work on several documents, or on a whole base."""

from typing import Any, Final

from consumers.knowledge.documents import lifecycle
from consumers.knowledge.documents.contents import chunks_of
from consumers.knowledge.documents.passage_removal import remove_passage
from consumers.knowledge.faq import importing
from consumers.knowledge.faq.importing import Plan
from consumers.knowledge.upkeep import clearance, several, transfers
from contracts.identity import new_id
from contracts.payloads.maintenance import Initiator, KnowledgeMove
from pipeline.records import JobRecord

from tests.support.five.documents import OF_A_DOCUMENT
from tests.support.five.rows import ALL, DATABASE, FILES, Row, cancel_task, housekept
from tests.support.five.world import TENANT, World

BIRDS: Final = {
    "Ducks": "Ducks swim on the ponds of Hamar all through the winter.",
    "Geese": "Geese fly over the lake of Hamar late in September.",
}


async def birds(world: World, name: str = "demo") -> Any:
    """A base with two documents that are complete."""
    kb = await world.base(name)
    if not await world.rows("SELECT id FROM knowledges WHERE knowledge_base_id = :kb", kb=kb.id):
        for title, text in BIRDS.items():
            await world.tell(title, text, kb)
        await world.through(*OF_A_DOCUMENT)
    return kb


async def documents_of(world: World, kb: Any) -> list[str]:
    found = await world.rows(
        "SELECT id FROM knowledges WHERE knowledge_base_id = :kb ORDER BY source", kb=kb.id
    )
    return [ident for (ident,) in found]


async def clone(world: World, *_: object) -> None:
    source, target = await birds(world, "source"), await world.base("target")
    if not await documents_of(world, target):
        await world.tell("Swans", "Swans sleep in the reeds of Toten.", target)
        await world.through(*OF_A_DOCUMENT)
    await world.do(transfers.begin_clone, TENANT, source.id, target.id, Initiator())


async def move(world: World, record: JobRecord | None = None) -> bool:
    source = await world.base("source") if record else await birds(world, "source")
    target, left = await world.base("target"), await documents_of(world, source)
    if left:
        asked = {
            "task_id": "",
            "source_kb_id": source.id,
            "target_kb_id": target.id,
            "knowledge_ids": tuple(left),
        }
        await world.do(transfers.begin_move, TENANT, KnowledgeMove(tenant_id=TENANT, **asked))
    return bool(left)


async def delete_base(world: World) -> None:
    kb = await birds(world, "gone")
    await world.do(clearance.begin, TENANT, kb.id, await world.services.outbox.choose_cut())


async def delete_documents(world: World, *_: object) -> bool:
    kb = await birds(world)
    left, cut = await documents_of(world, kb), await world.services.outbox.choose_cut()
    await world.do(several.delete_several, kb, left, cut, Initiator())
    return True


async def delete_again(world: World, record: JobRecord) -> bool:
    left, cut = await documents_of(world, world.kb), await world.services.outbox.choose_cut()
    await world.do(lifecycle.delete, TENANT, left, cut)
    return bool(left)


async def reparse(world: World, *_: object) -> None:
    kb = await birds(world)
    await world.do(several.reparse_several, kb, await documents_of(world, kb), Initiator())


async def remove_one(world: World) -> None:
    kb = await birds(world)
    ident, *_ = await documents_of(world, kb)
    (chunk, *_) = await world.look(chunks_of, ident, 1)
    await world.do(remove_passage, kb, ident, chunk.id)


ANSWERS: Final = (
    "question,answer\nHow do I pay?,By card at the desk.\nWhen do you open?,At nine.\nWho are you?,\n"
)


async def import_answers(world: World, *_: object) -> None:
    await import_file(world, ANSWERS.encode())


async def import_no_answers(world: World) -> None:
    await import_file(world, bytes(range(256)))


async def import_file(world: World, data: bytes) -> None:
    plan, path = Plan(task_id=new_id()), world.folder / "answers.csv"
    path.write_bytes(data)
    services = world.services
    source = await importing.stored_file(services.files, plan.task_id, path, path.name)
    await importing.begin(services.outbox, services.files, world.kb, plan, source)


ROWS: Final = (
    Row("kb:clone", clone, cancel_task, clone, DATABASE),
    Row("knowledge:move", move, cancel_task, move),
    Row("kb:delete", delete_base, again=housekept, needs=FILES),
    Row("knowledge:list_delete", delete_documents, again=delete_again, needs=FILES),
    Row("knowledge:list_reparse", reparse, cancel_task, reparse, alone=True),
    Row("index:delete", remove_one),
    Row("faq:import", import_answers, cancel_task, import_answers, ALL, unreadable=import_no_answers),
)
