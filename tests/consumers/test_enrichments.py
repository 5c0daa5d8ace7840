"""Summaries, questions, tags and the graph: stored once, indexed, and gone with the text they were made from."""

import pytest
from consumers.knowledge.bases.knowledge_bases import ensure_base, find_base, fix_embedding, list_bases
from consumers.knowledge.bases.tags import Pick, ensure_tags, store_tags, tags_of, tags_on
from consumers.knowledge.documents.contents import chunks_by_id, chunks_of, drop_contents, store_parsed
from consumers.knowledge.documents.documents import begin_processing, fail
from consumers.knowledge.documents.enrichments import (
    Asked,
    Summary,
    begin_summary,
    fail_summary,
    store_questions,
    store_summary,
)
from consumers.knowledge.documents.slots import begin_finalizing
from consumers.knowledge.graph.storing import store_graph
from consumers.knowledge.language.extraction import Named, Related
from contracts.knowledge import ChunkKind, SummaryStatus

from tests.support.library import MODEL, children, open_library, parsed, vector


@pytest.fixture
async def library(tmp_path, database_url):
    async with open_library(tmp_path, database_url) as opened:
        yield opened


async def finalizing(
    library, source="/a.txt", content="one", texts=("ducks swim", "geese fly")
) -> tuple[str, int]:
    found = await library.register(source, content)
    place = found.knowledge_id, found.attempt
    await library.do(begin_processing, *place)
    await library.do(store_parsed, library.index, *place, parsed(*texts))
    await library.do(begin_finalizing, *place, children(library, *place))
    return place


async def entries(library, kind):
    """What the index holds of this kind: the text, and the chunk that it stands for."""
    rows = "SELECT text, chunk_id FROM search_entries WHERE kind = :kind ORDER BY text"
    return await library.rows(rows, kind=kind)


async def test_a_summary_is_stored_with_its_method_and_indexed(library):
    place = await finalizing(library)
    assert await library.do(begin_summary, *place)
    assert (await library.document(place[0])).summary_status is SummaryStatus.PROCESSING
    summary = Summary(text="Waterfowl move.", method="extractive", vector=vector(0), model=MODEL)
    for _ in range(2):
        await library.do(store_summary, library.index, await library.document(place[0]), place[1], summary)
    document = await library.document(place[0])
    assert (document.summary, document.summary_method) == ("Waterfowl move.", "extractive")
    assert document.summary_status is SummaryStatus.COMPLETED
    assert await entries(library, "summary") == [("Waterfowl move.", None)]


async def test_a_summary_of_an_older_attempt_is_refused(library):
    old = await finalizing(library)
    document = await library.document(old[0])
    await finalizing(library, content="two")
    assert not await library.do(begin_summary, *old)
    assert not await library.do(fail_summary, *old)
    before = await library.contents()
    await library.do(
        store_summary, library.index, document, old[1], Summary(text="late", method="extractive")
    )
    assert await library.contents() == before


async def test_a_summary_that_cannot_be_made_is_said_to_have_failed(library):
    place = await finalizing(library)
    assert await library.do(fail_summary, *place)
    assert (await library.document(place[0])).summary_status is SummaryStatus.FAILED


async def test_questions_lead_to_the_chunk_that_answers_them(library):
    place = await finalizing(library)
    first, second = await library.look(chunks_of, *place)
    asked = [
        Asked(chunk=first, text="Who swims?", vector=vector(1)),
        Asked(chunk=first, text="What do ducks do?"),
        Asked(chunk=second, text="Who is in the air?"),
    ]
    for _ in range(2):
        await library.do(store_questions, library.index, asked, method="extractive", model=MODEL)
    rows = await library.rows("SELECT position, text FROM questions ORDER BY text")
    assert rows == [(1, "What do ducks do?"), (0, "Who is in the air?"), (0, "Who swims?")]
    assert await entries(library, "question") == [
        ("What do ducks do?", first.id),
        ("Who is in the air?", second.id),
        ("Who swims?", first.id),
    ]


async def test_tags_replace_those_of_the_last_time(library):
    place = await finalizing(library)
    await library.do(ensure_tags, library.kb.id, {"Birds": "with wings", "fish": "with fins"})
    await library.do(ensure_tags, library.kb.id, {"birds": "have wings"})
    listed = await library.look(tags_of, library.kb.id)
    assert [(tag.name, tag.description) for tag in listed] == [("Birds", "have wings"), ("fish", "with fins")]
    birds, fish = listed
    for picks in ([Pick(fish.id, 0.8)], [Pick(birds.id, 0.9)], [Pick(birds.id, 0.9)]):
        assert await library.do(store_tags, library.kb.id, *place, picks, method="extractive")
    assert list(await library.look(tags_on, place[0])) == [("Birds", 0.9)]


async def test_tags_for_an_older_attempt_or_a_failed_document_are_refused(library):
    old = await finalizing(library)
    await library.do(ensure_tags, library.kb.id, {"birds": ""})
    [tag] = await library.look(tags_of, library.kb.id)
    new = await finalizing(library, content="two")
    assert not await library.do(store_tags, library.kb.id, *old, [Pick(tag.id, 1)], method="extractive")
    await library.do(fail, library.index, *new, "because")
    assert not await library.do(store_tags, library.kb.id, *new, [Pick(tag.id, 1)], method="extractive")
    assert list(await library.look(tags_on, new[0])) == []


ENTITIES = [Named("Mother  Duck", "animal", 2), Named("pond", "place"), Named("mother duck", "animal", 3)]
RELATIONS = [
    Related("mother duck", "POND", "lives in", "the duck lives in the pond"),
    Related("mother duck", "heron", "fears", "a heron is not among the entities"),
]


async def test_the_graph_names_each_entity_of_a_base_once(library):
    place = await finalizing(library)
    other = await finalizing(library, source="/b.txt")
    for knowledge in (place, place, other):
        for chunk in await library.look(chunks_of, *knowledge):
            await library.do(store_graph, library.kb.id, chunk, ENTITIES, RELATIONS)
    assert await library.rows("SELECT name FROM entities ORDER BY name") == [("Mother  Duck",), ("pond",)]
    assert set(await library.rows("SELECT count FROM entity_mentions")) == {(5,), (1,)}
    assert await library.rows("SELECT kind FROM relations") == [("lives in",)]
    assert await library.rows("SELECT count(*) FROM entity_mentions") == [(8,)]
    assert await library.rows("SELECT DISTINCT evidence FROM relation_evidence") == [(RELATIONS[0].evidence,)]


async def test_the_graph_keeps_what_another_document_speaks_of(library):
    place = await finalizing(library)
    other = await finalizing(library, source="/b.txt")
    [mine, *_] = await library.look(chunks_of, *place)
    [theirs, *_] = await library.look(chunks_of, *other)
    await library.do(store_graph, library.kb.id, mine, ENTITIES, RELATIONS)
    await library.do(store_graph, library.kb.id, theirs, ENTITIES[:1], [])
    await library.do(drop_contents, library.index, place[0])
    assert await library.rows("SELECT name FROM entities") == [("Mother  Duck",)]
    assert await library.rows("SELECT * FROM relations") == []
    assert len(await library.rows("SELECT * FROM entity_mentions")) == 1


async def test_a_new_attempt_leaves_nothing_of_the_old_one(library):
    place = await finalizing(library)
    chunks = await library.look(chunks_of, *place)
    await library.do(store_graph, library.kb.id, chunks[0], ENTITIES, RELATIONS)
    await library.do(
        store_questions, library.index, [Asked(chunk=chunks[0], text="Who?")], method="extractive"
    )
    summary = Summary(text="Waterfowl.", method="extractive")
    await library.do(store_summary, library.index, await library.document(place[0]), 1, summary)
    await finalizing(library, content="two", texts=("storks walk",))
    for table in ("entities", "entity_mentions", "relations", "relation_evidence", "questions"):
        assert await library.rows(f"SELECT * FROM {table}") == [], table
    assert await library.rows("SELECT text FROM search_entries") == [("storks walk",)]
    assert (await library.document(place[0])).summary == ""


async def test_chunks_come_in_the_order_of_the_document_and_by_id(library):
    place = await finalizing(library, texts=tuple(f"chunk {number}" for number in range(12)))
    chunks = await library.look(chunks_of, *place, ChunkKind.TEXT)
    assert [chunk.position for chunk in chunks] == list(range(12))
    known = await library.look(chunks_by_id, [chunks[3].id, "nobody"])
    assert {key: chunk.text for key, chunk in known.items()} == {chunks[3].id: "chunk 3"}
    assert await library.look(chunks_of, *place, ChunkKind.OCR) == []


async def test_a_base_is_made_once_for_each_tenant_and_name(library):
    again = await library.do(ensure_base, 7, "demo", {"ignored": True})
    other = await library.do(ensure_base, 8, "demo", {"ask_questions": True})
    assert (again.id, again.settings) == (library.kb.id, {})
    assert (other.id != library.kb.id, other.settings) == (True, {"ask_questions": True})
    assert await library.look(find_base, 9, "demo") is None
    assert [kb.id for kb in await library.look(list_bases, 7)] == [library.kb.id]


async def test_the_first_vectors_fix_the_model_of_a_base(library):
    assert await library.do(fix_embedding, library.kb.id, "first", 4) == ("first", 4)
    assert await library.do(fix_embedding, library.kb.id, "second", 8) == ("first", 4)
