"""Two writers at once: whoever comes second sees what the first did. On PostgreSQL they really run at the same time."""

import asyncio

import pytest
from consumers.api import first_password
from consumers.document_deeds import act
from consumers.knowledge import ids
from consumers.knowledge.bases.knowledge_bases import change_settings, ensure_base, find_base, fix_embedding
from consumers.knowledge.bases.pending import WIKI, add_if_active
from consumers.knowledge.bases.tags import Pick, ensure_tags, store_tags, tags_on
from consumers.knowledge.bases.tenants import delete_tenant
from consumers.knowledge.documents.again import Again, another_chance
from consumers.knowledge.documents.contents import chunks_of, drop_contents, store_parsed
from consumers.knowledge.documents.documents import begin_processing, cancel, fail, register
from consumers.knowledge.documents.slots import Finish, finish_slot
from consumers.knowledge.graph.storing import forget_mentions, store_graph
from consumers.knowledge.language.extraction import Named, Related
from consumers.knowledge.progress.spans import Attempt
from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase
from contracts.knowledge import ChunkKind, DocumentVerb, ParseStatus, Stage
from pipeline.config import Settings
from pipeline.http.documents import Deed
from pipeline.store import people
from pipeline.store.pending_ops import delete_tenants
from pipeline.store.tables import outbox
from sqlalchemy import delete

from tests.support.databases import migrated
from tests.support.interleaving import interleaved
from tests.support.library import children, file, open_library, parsed
from tests.support.library_work import handle, work


@pytest.fixture
async def library(tmp_path, database_url):
    async with open_library(tmp_path, database_url) as opened:
        yield opened


async def finalizing(library, source="/a.txt", parts=1):
    """A document that waits for its enrichments; returns its id and the ids of its slots."""
    found = await library.register(source)
    place = found.knowledge_id, 1
    for job_id, job in list(library.queue.waiting.items()):
        await handle(library, job_id, job)
    while await library.status(found.knowledge_id) is not ParseStatus.FINALIZING:
        library.queue.waiting.pop(job_id, None)
        for job_id, job in list(library.queue.waiting.items()):
            await handle(library, job_id, job)
    return place, [child.id for child in children(library, *place) if child.slot]


async def test_the_last_two_slots_closed_at_once_complete_the_document_once(library):
    (knowledge_id, attempt), (*others, one, two) = await finalizing(library)
    for slot in others:
        await library.do(finish_slot, slot, knowledge_id, attempt)
    said = await interleaved(
        library.database,
        lambda session: finish_slot(session, one, knowledge_id, attempt),
        lambda session: finish_slot(session, two, knowledge_id, attempt),
    )
    assert said == (Finish.COUNTED, Finish.LAST)
    assert await library.status(knowledge_id) is ParseStatus.COMPLETED


async def test_a_source_registered_twice_at_once_is_one_document_with_one_job(library):
    one, two = await interleaved(
        library.database,
        lambda session: register(session, library.kb, file()),
        lambda session: register(session, library.kb, file()),
    )
    assert one == type(one)(two.knowledge_id, two.attempt, one.entry), "the second found what the first made"
    await library.outbox.relay(older_than_ms=0)
    assert len(library.queue.waiting) == 1
    await work(library)
    assert await library.status(one.knowledge_id) is ParseStatus.COMPLETED


async def test_another_content_registered_at_once_is_the_next_attempt(library):
    one, two = await interleaved(
        library.database,
        lambda session: register(session, library.kb, file(content="one")),
        lambda session: register(session, library.kb, file(content="two")),
    )
    assert (two.knowledge_id, two.attempt) == (one.knowledge_id, 2)
    assert (await library.document(one.knowledge_id)).file_hash == "two"


async def test_a_slot_closed_while_the_document_is_cancelled_is_closed_no_more(library):
    (knowledge_id, attempt), (*others, last) = await finalizing(library)
    for slot in others:
        await library.do(finish_slot, slot, knowledge_id, attempt)
    said = await interleaved(
        library.database,
        lambda session: cancel(session, knowledge_id),
        lambda session: finish_slot(session, last, knowledge_id, attempt),
    )
    assert said == (True, Finish.CLOSED)
    assert await library.status(knowledge_id) is ParseStatus.CANCELLED


async def test_a_document_completed_while_it_is_cancelled_stays_completed(library):
    (knowledge_id, attempt), (*others, last) = await finalizing(library)
    for slot in others:
        await library.do(finish_slot, slot, knowledge_id, attempt)
    said = await interleaved(
        library.database,
        lambda session: finish_slot(session, last, knowledge_id, attempt),
        lambda session: cancel(session, knowledge_id),
    )
    assert said == (Finish.LAST, False)
    assert await library.status(knowledge_id) is ParseStatus.COMPLETED


async def running(library, knowledge_id):
    rows = await library.rows(
        "SELECT name FROM knowledge_processing_spans WHERE knowledge_id = :id AND status = 'running'",
        id=knowledge_id,
    )
    return [name for (name,) in rows]


@pytest.mark.parametrize("stage", [Stage.CHUNKING, Stage.DOCREADER])
async def test_a_stage_entered_while_the_document_is_cancelled_is_not_left_running(library, stage):
    knowledge_id = (await library.register()).knowledge_id
    await library.do(begin_processing, knowledge_id, 1)

    async def enter(session):
        if stage is Stage.DOCREADER:
            return await begin_processing(session, knowledge_id, 1)
        return await Attempt(session, knowledge_id, 1).enter(stage)

    await interleaved(library.database, lambda session: cancel(session, knowledge_id), enter)
    assert await running(library, knowledge_id) == []


async def test_tags_given_while_the_document_is_cancelled_come_too_late(library):
    knowledge_id = (await library.register()).knowledge_id
    await library.do(begin_processing, knowledge_id, 1)
    await library.do(ensure_tags, library.kb.id, {"birds": ""})
    picks = [Pick(ids.tag(library.kb.id, "birds"), 0.5)]
    said = await interleaved(
        library.database,
        lambda session: cancel(session, knowledge_id),
        lambda session: store_tags(session, library.kb.id, knowledge_id, 1, picks, method="m"),
    )
    assert said == (True, False)
    assert await library.look(tags_on, knowledge_id) == []


async def two_documents_of_ducks(library):
    """Two parsed documents, the first of which says that ducks swim; returns the second's chunk as well."""
    found = []
    for source in ("/a.txt", "/b.txt"):
        knowledge_id = (await library.register(source)).knowledge_id
        await library.do(begin_processing, knowledge_id, 1)
        await library.do(store_parsed, library.index, knowledge_id, 1, parsed("ducks swim"))
        [chunk] = await library.look(chunks_of, knowledge_id, 1, ChunkKind.TEXT)
        found.append(chunk)
    await library.do(say, library, found[0])
    return found


async def say(session, library, chunk):
    named = [Named("ducks", "animal"), Named("ponds", "place")]
    await store_graph(
        session, library.kb.id, chunk, named, [Related("ducks", "ponds", "swim in", chunk.text)]
    )


async def graph(library):
    counts = "SELECT (SELECT count(*) FROM entities), (SELECT count(*) FROM entity_mentions)"
    return (await library.rows(f"{counts}, (SELECT count(*) FROM relations)"))[0]


async def test_an_entity_that_another_document_begins_to_name_is_not_forgotten(library):
    one, two = await two_documents_of_ducks(library)
    await interleaved(
        library.database,
        lambda session: say(session, library, two),
        lambda session: drop_contents(session, library.index, one.knowledge_id),
    )
    assert await graph(library) == (2, 2, 1)


async def test_an_entity_named_while_it_is_forgotten_is_there_again(library):
    one, two = await two_documents_of_ducks(library)
    await interleaved(
        library.database,
        lambda session: drop_contents(session, library.index, one.knowledge_id),
        lambda session: say(session, library, two),
    )
    assert await graph(library) == (2, 2, 1)


async def test_two_documents_forgotten_at_once_leave_no_entity(library):
    one, two = await two_documents_of_ducks(library)
    await library.do(say, library, two)
    await interleaved(
        library.database,
        lambda session: forget_mentions(session, one.knowledge_id),
        lambda session: forget_mentions(session, two.knowledge_id),
    )
    assert await graph(library) == (0, 0, 0)


async def test_many_chunks_that_name_the_same_in_any_order_never_wait_in_a_circle(library):
    chunks = await two_documents_of_ducks(library)
    names = [f"name {number}" for number in range(20)]

    async def tell(turn):
        async with library.database.transaction() as session:
            entities = [Named(name, "n") for name in (names if turn % 2 else reversed(names))]
            await store_graph(session, library.kb.id, chunks[turn % 2], entities, [])

    await asyncio.gather(*map(tell, range(20)))
    assert (await graph(library))[0] == 2 + len(names)


async def test_a_base_is_tied_to_the_model_of_whoever_came_first(library):
    said = await interleaved(
        library.database,
        lambda session: fix_embedding(session, library.kb.id, "one", 4),
        lambda session: fix_embedding(session, library.kb.id, "two", 8),
    )
    assert said == (("one", 4), ("one", 4))


async def test_a_base_named_twice_at_once_is_one(library):
    one, two = await interleaved(
        library.database,
        lambda session: ensure_base(session, 7, "new"),
        lambda session: ensure_base(session, 7, "new"),
    )
    assert one.id == two.id


async def test_one_of_two_starts_makes_the_first_administrator_and_knows_the_password(library):
    said = await asyncio.gather(*(first_password(library.database) for _ in range(4)))
    assert len([password for password in said if password]) == 1
    assert len(await library.look(people.names)) == 1


async def test_an_administrator_added_twice_at_once_has_the_password_that_was_said_last(library):
    await interleaved(
        library.database,
        lambda session: people.add(session, "ann", "one"),
        lambda session: people.add(session, "ann", "two"),
    )
    assert (await library.look(people.password_of, "ann"))[1] == "two"


async def test_each_failed_sign_in_counts_even_the_first_two_at_once(library):
    await interleaved(
        library.database,
        lambda session: people.note_failure(session, "ann", "::1"),
        lambda session: people.note_failure(session, "::1", "ann"),
    )
    assert await library.do(people.note_failure, "ann", "::1") == {"ann": 3, "::1": 3}


async def test_two_relays_at_once_send_each_job_once_and_neither_waits(library):
    library.queue.away = True
    for number in range(30):
        await library.register(f"/{number}.txt")
    library.queue.away = False
    await asyncio.gather(*(library.outbox.relay(older_than_ms=0) for _ in range(4)))
    assert len(library.queue.waiting) == 30
    assert (await library.outbox.waiting())[0] == 0


@pytest.mark.postgres
async def test_what_one_relay_is_about_to_delete_another_does_not_wait_for(tmp_path):
    with migrated("postgres", tmp_path) as url:
        async with open_library(tmp_path, url) as library:
            library.queue.away = True
            await library.register()
            library.queue.away = False
            async with library.database.transaction() as session:
                await session.execute(delete(outbox))
                await library.outbox.relay(older_than_ms=0)
            assert len(library.queue.waiting) == 1
            assert (await library.outbox.waiting())[0] == 0


async def test_many_documents_stopped_by_two_people_in_other_orders_wait_for_no_one(library):
    ids_of = [(await library.register(f"/{number}.txt", str(number))).knowledge_id for number in range(20)]
    stop = Deed(DocumentVerb.CANCEL, "one", "admin", 7)
    orders = [ids_of, ids_of[::-1], ids_of[10:] + ids_of[:10], sorted(ids_of)]
    said = await asyncio.gather(*(act(Settings(), library.outbox, stop, order) for order in orders))
    assert [[done.id for done in one] for one in said] == orders
    assert all(done.ok for one in said for done in one)


async def test_what_is_asked_for_while_its_tenant_is_deleted_is_dropped_with_it(library):
    async def drop(session):
        await delete_tenant(session, 7)
        return await delete_tenants(session, [7])

    asked = await interleaved(
        library.database,
        lambda session: add_if_active(session, 7, library.kb.id, WIKI, "ingest", "a"),
        drop,
    )
    assert asked == (True, 1)


async def test_two_settings_of_a_base_changed_at_once_are_both_changed(library):
    found = await library.look(find_base, 7, "demo")
    await interleaved(
        library.database,
        lambda session: change_settings(session, library.kb, wiki=True),
        lambda session: change_settings(session, found, question_count=5),
    )
    after = await library.look(find_base, 7, "demo")
    assert after.settings == {"wiki": True, "question_count": 5}


async def test_another_chance_of_a_job_locks_its_base_before_its_document(library):
    found = await library.register()
    (job_id, job), *_ = library.queue.waiting.items()
    await library.do(fail, library.index, found.knowledge_id, 1, "its job died")

    async def hold(session):
        await session.get(KnowledgeBase, library.kb.id, with_for_update=True)

    async def go_on(session):
        await session.get(Knowledge, found.knowledge_id, with_for_update=True)

    _, said = await interleaved(
        library.database, hold, lambda session: another_chance(session, job_id, job, 0), then=go_on
    )
    assert said == Again(afresh=True)
