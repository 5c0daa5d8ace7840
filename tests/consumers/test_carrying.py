"""Documents carried into other bases with all that was read out of them: equal to those that were parsed there."""

import random

import numpy as np
import pytest
from consumers.knowledge import ids
from consumers.knowledge.bases.knowledge_bases import ensure_base, fix_embedding
from consumers.knowledge.bases.tags import tags_on
from consumers.knowledge.bases.wiki_lane import RETRACT, WRITE, ingest_lane, switch
from consumers.knowledge.faq import storing
from consumers.knowledge.faq.reading import Written
from consumers.knowledge.search.sides import Side
from consumers.knowledge.tables.graph import Entity, EntityAlias
from consumers.knowledge.tables.knowledge import Image, KnowledgeBase, table_of
from consumers.knowledge.tables.wiki import PageKind, WikiPageSource
from consumers.knowledge.upkeep import transfers
from consumers.knowledge.upkeep.carrying import (
    GONE,
    TAKEN,
    copy_document,
    copy_files,
    move_document,
    move_to_parse,
)
from consumers.knowledge.upkeep.carrying_answers import copy_answers, difference_of_answers, remove_answers
from consumers.knowledge.upkeep.several import StrangeDocuments
from consumers.knowledge.upkeep.transfers import Conflict, Difference, NoKnowledgeBase
from contracts.knowledge import ParseStatus
from contracts.payloads.documents import DocumentProcess
from contracts.payloads.maintenance import Initiator, KnowledgeMove
from pipeline.store import insert_new, pending_ops

from tests.support.library import MODEL, open_library, vector
from tests.support.library_work import killed_at, surviving, work

CHANCE = random.Random(5)
SAID = {
    "documents": "SELECT source, parse_status, summary, title, language, file_hash FROM knowledges"
    " WHERE knowledge_base_id = :kb",
    "chunks": "SELECT k.source, c.kind, c.position, c.text FROM chunks c JOIN knowledges k ON k.id = c.knowledge_id"
    " WHERE c.knowledge_base_id = :kb AND k.knowledge_base_id = :kb AND c.attempt = k.parsed_attempt",
    "questions": "SELECT k.source, c.position, q.text FROM questions q JOIN chunks c ON c.id = q.chunk_id"
    " JOIN knowledges k ON k.id = q.knowledge_id WHERE k.knowledge_base_id = :kb",
    "images": "SELECT k.source, i.position, i.status FROM images i JOIN knowledges k ON k.id = i.knowledge_id"
    " WHERE k.knowledge_base_id = :kb",
    "tags": "SELECT k.source, t.name, g.confidence FROM knowledge_tags g JOIN tags t ON t.id = g.tag_id"
    " JOIN knowledges k ON k.id = g.knowledge_id WHERE k.knowledge_base_id = :kb AND t.knowledge_base_id = :kb",
    "mentions": "SELECT k.source, e.name, m.count FROM entity_mentions m JOIN entities e ON e.id = m.entity_id"
    " JOIN knowledges k ON k.id = m.knowledge_id WHERE k.knowledge_base_id = :kb AND e.knowledge_base_id = :kb",
    "evidence": "SELECT k.source, r.kind, v.evidence FROM relation_evidence v JOIN relations r ON r.id = v.relation_id"
    " JOIN knowledges k ON k.id = v.knowledge_id WHERE k.knowledge_base_id = :kb AND r.knowledge_base_id = :kb",
    "entities": "SELECT name FROM entities WHERE knowledge_base_id = :kb",
    "index": "SELECT k.source, e.kind, e.position, e.text FROM search_entries e JOIN knowledges k"
    " ON k.id = e.knowledge_id WHERE e.kb_id = :kb AND k.knowledge_base_id = :kb AND e.attempt = k.parsed_attempt",
}


@pytest.fixture
async def library(tmp_path, database_url):
    async with open_library(tmp_path, database_url) as opened:
        yield opened


@pytest.fixture
async def full(library):
    """A base with two documents; its library gives another, empty one as `kb`. Returns the full one, and their ids."""
    source = library.source = library.kb
    await library.do(fix_embedding, source.id, MODEL, 4)
    found = [
        (await library.register(f"/{content}.txt", content)).knowledge_id for content in ("ducks", "geese")
    ]
    await work(library)
    library.kb = await library.do(ensure_base, 7, "target")
    return source, found


async def said(library, kb):
    return {name: sorted(map(repr, await library.rows(query, kb=kb.id))) for name, query in SAID.items()}


async def copy(library, ident, new="copy"):
    await copy_files(library.files, library.database, ident, new)
    return await library.do(copy_document, library.index, ident, library.source, library.kb, new)


async def move(library, ident, source):
    return await library.do(move_document, library.index, ident, source, library.kb)


async def test_copies_are_equal_to_their_originals_and_found_in_their_own_base(library, full):
    source, idents = full
    before = await said(library, source)
    assert all(before[name] for name in before)
    for ident in idents:
        assert await copy(library, ident, f"copy of {ident}") == ""
    assert await said(library, source) == before
    assert await said(library, library.kb) == before
    hits = await library.index.search([library.kb.id], "ducks.txt swims", vector(0), model=MODEL)
    assert {hit.knowledge_id for hit in hits} == {f"copy of {ident}" for ident in idents}
    assert not library.queue.waiting, "nothing is parsed or embedded anew"


async def test_a_document_copied_twice_is_there_once(library, full):
    _, (ident, _) = full
    await copy(library, ident)
    once = await said(library, library.kb)
    assert await copy(library, ident) == ""
    assert await said(library, library.kb) == once
    assert await copy(library, ident, "another") == TAKEN
    assert await copy(library, "nobody", "x") == GONE


async def test_a_copy_with_pictures_has_files_of_its_own(library, full):
    _, (ident, _) = full
    await library.files.put(f"{ident}/picture", b"bytes")

    async def own(session):
        await session.execute(table_of(Image).update().values(file_key=f"{ident}/picture"))

    await library.do(own)
    await copy(library, ident)
    [(key,)] = await library.rows("SELECT file_key FROM images WHERE knowledge_id = 'copy'")
    assert key == "copy/picture"
    assert await library.files.read(key) == b"bytes"


async def test_a_moved_document_takes_all_of_it_along_and_leaves_nothing(library, full):
    source, idents = full
    before = await said(library, source)
    for ident in idents:
        assert await move(library, ident, source) == ""
    assert await said(library, library.kb) == before
    left = await said(library, source)
    assert not any(left.values())
    hits = await library.index.search([library.kb.id], "ducks.txt swims", vector(0), model=MODEL)
    assert {hit.knowledge_id for hit in hits} == set(idents)
    assert await library.index.search([source.id], "ducks.txt swims", vector(0), model=MODEL) == []
    assert await library.look(tags_on, idents[0])
    assert await move(library, idents[0], source) == "", "moved again it is there"


async def test_a_move_killed_at_any_statement_comes_to_the_same(library, full):
    source, (ident, _) = full
    target = library.kb
    expected = {source.id: await said(library, source)}
    with killed_at(0) as statements:
        await move(library, ident, source)
    expected[target.id] = await said(library, target)
    here, there = target, source
    for number in sorted(CHANCE.sample(range(1, len(statements) + 1), 6)):
        library.kb = there
        with killed_at(number) as ran:
            await surviving(library, move, library, ident, here)
        assert len(ran) > number, "it was killed, and went on"
        assert await said(library, there) == expected[there.id], f"killed before statement {number}"
        here, there = there, here


async def test_a_document_moved_to_be_parsed_again_is_pending_there_and_says_nothing_in_the_old_base(
    library, full
):
    source, (ident, _) = full
    assert await library.do(move_to_parse, library.index, ident, source, library.kb, None) == ""
    document = await library.document(ident)
    assert (document.parse_status, document.attempt) == (ParseStatus.PENDING, 2)
    assert document.knowledge_base_id == library.kb.id
    (job,) = library.queue.waiting.values()
    assert isinstance(job, DocumentProcess)
    assert (job.knowledge_base_id, job.attempt) == (library.kb.id, 2)
    assert await library.index.search([source.id], "ducks.txt swims", vector(0), model=MODEL)
    await work(library)
    assert await library.status(ident) is ParseStatus.COMPLETED


async def test_the_wikis_of_both_bases_follow_a_move(library, full):
    source, (ident, _) = full
    for kb in (source, library.kb):
        await library.do(switch, kb, on=True)
    row = {
        "knowledge_base_id": source.id, "slug": "ducks", "knowledge_id": ident, "attempt": 1, "kind": PageKind.TOPIC,
        "weight": 1.0, "contribution": {},
    }  # fmt: skip

    async def say(session):
        await insert_new(session, table_of(WikiPageSource), [row])

    await library.do(say)
    await move(library, ident, source)
    asked = {
        kb.name: [
            (op.op, op.dedup_key) for op in await library.look(pending_ops.peek, ingest_lane(kb.id), 10)
        ]
        for kb in (source, library.kb)
    }
    assert (RETRACT, ident) in asked["demo"]
    assert asked["target"] == [(WRITE, ident)]


async def test_only_complete_documents_without_a_namesake_are_moved(library, full):
    source, (ident, other) = full
    await library.register("/ducks.txt", "of the same place")
    assert await move(library, ident, source) == TAKEN
    [(pending,)] = await library.rows(
        "SELECT id FROM knowledges WHERE knowledge_base_id = :kb", kb=library.kb.id
    )
    wrong = source, library.kb
    library.kb, source = wrong
    assert await move(library, pending, source) == "it is pending"
    assert await move(library, "nobody", source) == GONE
    third = await library.do(ensure_base, 7, "third")
    assert await library.do(move_document, library.index, other, third, source) == "it is in another base"


async def begin(library, source_id, target_id, tenant=7):
    return await library.do(transfers.begin_clone, tenant, source_id, target_id, Initiator())


def wanted(source, target, *idents):
    return KnowledgeMove(
        tenant_id=7, task_id="", knowledge_ids=idents, source_kb_id=source.id, target_kb_id=target.id
    )


async def test_a_base_that_is_busy_gone_anothers_or_of_another_model_is_not_copied(library, full):
    source, _ = full
    with pytest.raises(NoKnowledgeBase):
        await begin(library, source.id, library.kb.id, tenant=8)
    with pytest.raises(NoKnowledgeBase):
        await begin(library, source.id, "nowhere")
    with pytest.raises(Conflict, match="the same base"):
        await begin(library, source.id, source.id)
    other = await library.do(ensure_base, 7, "other model")
    await library.do(fix_embedding, other.id, "another", 3)
    with pytest.raises(Conflict, match="different models"):
        await begin(library, source.id, other.id)
    task_id = await begin(library, source.id, library.kb.id)
    third = await library.do(ensure_base, 7, "third")
    for pair in ((source, third), (third, source), (library.kb, third)):
        with pytest.raises(Conflict, match=f"busy with the task {task_id}"):
            await begin(library, pair[0].id, pair[1].id)


async def test_only_complete_documents_of_the_source_are_asked_to_move(library, full):
    source, idents = full
    late = await library.register("/late.txt", "late")
    with pytest.raises(StrangeDocuments) as strange:
        await library.do(transfers.begin_move, 7, wanted(source, library.kb, *idents, late.knowledge_id))
    assert strange.value.ids == [late.knowledge_id]
    with pytest.raises(Conflict, match="is pending"):
        await library.do(transfers.begin_move, 7, wanted(library.kb, source, late.knowledge_id))
    assert await library.do(transfers.begin_move, 7, wanted(source, library.kb, *idents))


async def test_bases_differ_by_the_content_of_their_documents(library, full):
    source, (ducks, geese) = full
    target = library.kb
    await copy(library, ducks, "copy of ducks")
    await library.register("/extra.txt", "extra")
    await library.register("/geese.txt", "other content in the place of geese")
    [(extra,)] = await library.rows("SELECT id FROM knowledges WHERE source = '/extra.txt'")
    [(late,)] = await library.rows(
        "SELECT id FROM knowledges WHERE source = '/geese.txt' AND file_hash <> 'geese'"
    )
    library.kb = source
    await library.register("/not yet.txt", "not complete")
    found = await library.look(transfers.difference, source.id, target.id)
    assert found == Difference([geese], sorted([extra, late]), 1)
    same = await library.look(transfers.difference, source.id, source.id)
    assert same == Difference([], [], 0)
    async with library.database.read() as session:
        assert await session.get(KnowledgeBase, target.id)


class Numbers:
    """An embedder of four numbers."""

    model, dimension = MODEL, 4

    async def embed(self, texts):
        return np.stack([vector(len(text)) for text in texts])


async def teach(library, kb, *entries):
    said = [Written(question, (answer,), (f"{question}?",)) for question, answer in entries]
    vectors = await storing.embed_forms(Numbers(), said)
    place, side = storing.Place(7, kb.id), Side(kb.id, Numbers(), 0)
    await library.do(storing.write_entries, library.index, place, said, vectors, side)


async def answers(library, kb):
    return {one.question: one.answers for one in await library.look(storing.entries_of, kb.id)}


async def test_ready_answers_are_compared_by_content_and_copied_with_their_vectors(library, full):
    source, _ = full
    await teach(library, source, ("Who swims", "Ducks"), ("Who flies", "Geese"))
    await teach(library, library.kb, ("Who swims", "Nobody"), ("Who sleeps", "Swans"))
    due = await difference_of_answers(library.database, source.id, library.kb.id)
    assert (len(due.missing), len(due.extra)) == (2, 2)
    await library.do(remove_answers, library.index, library.kb, due.extra)
    for _ in range(2):
        assert await library.do(copy_answers, library.index, due.missing, source, library.kb) == ""
    expected = {"Who swims": ["Ducks"], "Who flies": ["Geese"]}
    assert await answers(library, library.kb) == await answers(library, source) == expected
    index = library.index
    found = await index.search([storing.space(library.kb.id)], "Who swims", vector(9), model=MODEL)
    assert {hit.text.partition("\n")[2] for hit in found} >= {"Ducks"}
    same = await difference_of_answers(library.database, source.id, library.kb.id)
    assert (same.missing, same.extra) == ([], [])


async def test_two_names_that_are_one_thing_in_the_target_are_counted_together(library, full):
    source, (ident, _) = full
    [(kept,)] = await library.rows(
        "SELECT name FROM entities WHERE knowledge_base_id = :kb AND name LIKE 'ducks%'", kb=source.id
    )
    target = library.kb.id
    alias = {
        "id": ids.entity(target, "swims"), "knowledge_base_id": target, "entity_id": ids.entity(target, kept),
        "name": "swims", "why": "spelling",
    }  # fmt: skip

    async def know(session):
        known = {"id": alias["entity_id"], "knowledge_base_id": target, "name": kept, "kind": "word"}
        await insert_new(session, table_of(Entity), [known])
        await insert_new(session, table_of(EntityAlias), [alias])

    await library.do(know)
    assert await copy(library, ident) == ""
    counted = await library.rows(
        "SELECT m.count FROM entity_mentions m JOIN chunks c ON c.id = m.chunk_id"
        " WHERE m.entity_id = :entity AND c.text LIKE '%swims'",
        entity=alias["entity_id"],
    )
    assert counted == [(2,)]
    names = await library.rows("SELECT name FROM entities WHERE knowledge_base_id = :kb", kb=target)
    assert ("swims",) not in names
