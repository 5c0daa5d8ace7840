"""The jobs of the knowledge store, of the wiki, of memory and of sources."""

from typing import Any, Final

from consumers.knowledge.backups import backing_up, recovering
from consumers.knowledge.documents.contents import chunks_of
from consumers.knowledge.embedding.hashing import HashingEmbedder
from consumers.knowledge.graph import curating
from consumers.knowledge.graph.storing import store_graph
from consumers.knowledge.language.extraction import Named, Related
from consumers.knowledge.memory import settings, turns
from consumers.knowledge.memory.storing import Who
from consumers.knowledge.memory.turns import Message
from consumers.knowledge.upkeep import reembedding
from consumers.sources import registry, runs
from consumers.sources.registry import NewSource
from consumers.sources.runs import Wish
from contracts.identity import new_id
from contracts.knowledge import DocumentEffect
from contracts.memory import TurnRole
from pipeline.records import JobRecord

from tests.support.five.carrying import birds, documents_of
from tests.support.five.documents import CHILDREN, POST, PROCESS, told
from tests.support.five.rows import FILES, Row, cancel_task
from tests.support.five.world import TENANT, World

REEMBED, CURATE, BACKUP, RESTORE = "ks:reembed", "ks:curate", "ks:backup", "ks:restore"
INGEST, FINALIZE = "wiki:ingest", "wiki:finalize"


async def reembed(world: World, *_: object) -> None:
    kb = await birds(world)
    await world.through(REEMBED)  # what a cancelled one has to clean up
    how = {"model": HashingEmbedder.MODEL, "dimension": 96}
    await world.do(reembedding.ask_for, world.services.embedders, kb.id, **how)


async def curate(world: World, *_: object) -> None:
    kb = await birds(world)
    if not await world.rows("SELECT id FROM entities WHERE name = 'core-pool'"):
        said = ("Core Pool", "Redis"), ("core-pool", "Redis", "Core Pool")
        for ident, (name, *others) in zip(await documents_of(world, kb), said, strict=True):
            (chunk, *_) = await world.look(chunks_of, ident, 1)
            names = [Named(one, "name") for one in (name, *others)]
            await world.do(store_graph, kb.id, chunk, names, [Related(name, "Redis", "uses", chunk.text)])
    await world.do(curating.ask_for, kb.id, "all", dry_run=False)


async def back_up(world: World, *_: object) -> None:
    kb = await birds(world)
    await world.through(BACKUP)
    await world.do(backing_up.ask_for, kb.id)


async def restore(world: World, *_: object) -> None:
    await world.through(RESTORE)
    if not await world.rows("SELECT id FROM backups"):
        await back_up(world)
        await world.through(BACKUP)
    ((key,),) = await world.rows("SELECT file_key FROM backups")
    await world.do(recovering.ask_for, new_id(), TENANT, key, "as it was")


async def restore_nothing(world: World) -> None:
    """What is to be restored is no archive."""
    await world.services.files.put("backups/none.zip", b"PK\x03\x04 and no more")
    await world.do(recovering.ask_for, new_id(), TENANT, "backups/none.zip", "never")


WIKI: Final = {"wiki": True, "ask_questions": False, "extract_graph": False}
written = told(PROCESS, POST, *CHILDREN, **WIKI)


async def finished(world: World) -> None:
    await written(world)
    await world.through(INGEST)


async def spoken(world: World) -> None:
    wishes = {"enabled": True, "write_mode": "auto", "delay_s": 5, "min_interval_s": 0}
    await world.do(settings.change_settings, TENANT, wishes)
    who = Who(TENANT, "berg")
    for session, text in (("a", "My name is Anna. I live in Tromso."), ("b", "I like green tea.")):
        await world.do(turns.add_message, who, Message(session, TurnRole.USER, text))
        await world.do(turns.add_message, who, Message(session, TurnRole.ASSISTANT, "I see."))


async def harvest(world: World, record: JobRecord | None = None) -> None:
    folder = world.folder / "source"
    if record is None:
        folder.mkdir()
        (folder / "tide.md").write_text("# Tides\n\nHigh water comes twice a day.\n")
        (folder / "ferry.md").write_text("# Ferries\n\nThe ferry to Moss leaves every half hour.\n")
        new = NewSource(name="notes", kind="folder", config={"path": str(folder)})
        await world.do(registry.create, world.kb, new)
    source = await world.do(registry.named, world.kb.id, "notes")
    assert await world.do(runs.open_run, source, Wish())


async def stop_run(world: World, record: JobRecord) -> bool:
    cut = await world.services.outbox.choose_cut()
    run = await world.look(runs.find_run, world.payload(record).sync_log_id)
    effect: Any = await world.do(runs.cancel, run, cut)
    return effect is DocumentEffect.DONE


ROWS: Final = (
    Row(REEMBED, reembed, cancel_task, reembed),
    Row(CURATE, curate, cancel_task, curate),
    Row(BACKUP, back_up, cancel_task, back_up, FILES),
    Row(RESTORE, restore, cancel_task, restore, FILES, unreadable=restore_nothing),
    Row(INGEST, written),
    Row(FINALIZE, finished),
    Row("memory:extract", spoken),
    Row("datasource:sync", harvest, stop_run, harvest, {**FILES, "source": 0.0}),
)
