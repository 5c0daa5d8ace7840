"""The index, on each database: what is put is found, what is dropped is gone, whatever is asked."""

import numpy as np
import pytest
from consumers.knowledge.search.ranking import RANK_DEPTH
from consumers.knowledge.search.rows import POSTINGS
from consumers.knowledge.search.store import EntryKind

from tests.support.indexes import MODEL, direction, entry, open_index


@pytest.fixture
async def index(database_url):
    async with open_index(database_url) as opened:
        yield opened


async def test_a_passage_is_found_by_its_words(index):
    await index.put(entry("a/1", "Complex is better than complicated."), entry("b/1", "Redis streams."))
    [hit] = await index.search("What is better than complicated?")
    assert (hit.knowledge_id, hit.chunk_id, hit.kb_id) == ("a", "a/1", "kb")
    assert hit.text == "Complex is better than complicated."
    assert hit.kinds == (EntryKind.TEXT,)
    assert 0 < hit.score <= 1


async def test_a_passage_is_found_by_its_meaning(index):
    await index.put(entry("a/1", "uno", direction(10)), entry("b/1", "dos", direction(80)))
    assert await index.found("three", direction(70)) == ["b/1", "a/1"]


async def test_words_and_meaning_together_beat_either(index):
    await index.put(
        entry("a/1", "alpha", direction(90)),
        entry("b/1", "alpha beta", direction(30)),
        entry("c/1", "gamma", direction(20)),
    )
    assert (await index.found("alpha beta", direction(21)))[0] == "b/1"


async def test_the_headings_of_a_chunk_find_it_too(index):
    await index.put(entry("a/1", "see below", heading="Installation › Windows"))
    [hit] = await index.search("windows")
    assert (hit.text, hit.heading) == ("see below", "Installation › Windows")


async def test_a_question_leads_to_the_chunk_that_answers_it(index):
    await index.put(
        entry("a/1", "It costs 349.99.", position=0),
        entry(
            "q",
            "What is the price?",
            direction(0),
            knowledge_id="a",
            chunk_id="a/1",
            kind=EntryKind.QUESTION,
            position=7,
        ),
    )
    [hit] = await index.search("price", direction(1))
    assert (hit.chunk_id, hit.text, hit.kinds) == ("a/1", "It costs 349.99.", (EntryKind.QUESTION,))


async def test_a_summary_leads_to_its_document(index):
    await index.put(
        entry("s", "All about ducks.", direction(0), knowledge_id="a", chunk_id=None, kind=EntryKind.SUMMARY)
    )
    [hit] = await index.search("ducks", direction(1))
    assert (hit.knowledge_id, hit.chunk_id, hit.text) == ("a", None, "All about ducks.")


async def test_the_words_of_many_questions_hide_no_passage(index):
    asked = [
        entry(
            f"q{n}",
            f"What is the duck {n}?",
            direction(n),
            knowledge_id="q",
            chunk_id=f"q/{n}",
            kind=EntryKind.QUESTION,
        )
        for n in range(300)
    ]
    await index.put(*asked, entry("a/1", "The duck is a bird of the pond, and swims. " * 10))
    assert await index.found("What is the duck?", direction(0)) == ["a/1"]


async def test_words_of_pictures_are_found_and_not_mixed_with_the_text_around(index):
    await index.put(
        entry("a/1", "before", position=0),
        entry("a/i", "Total due", position=0, kind=EntryKind.OCR),
        entry("a/2", "after", position=1),
    )
    [hit] = await index.search("total")
    assert (hit.text, hit.kinds) == ("Total due", (EntryKind.OCR,))


async def test_bases_do_not_see_each_other(index):
    await index.put(
        entry("a/1", "ducks", direction(0), kb_id="one"), entry("b/1", "ducks", direction(0), kb_id="two")
    )
    assert await index.found("ducks", direction(0), kb="one") == ["a/1"]
    assert sorted(await index.found("ducks", direction(0), kb=["one", "two", "one"])) == ["a/1", "b/1"]
    assert await index.found("ducks", direction(0), kb="three") == []
    assert await index.found("ducks", direction(0), kb=[]) == []


async def test_vectors_of_another_model_or_length_are_not_compared(index):
    await index.put(
        entry("a/1", "uno", direction(0), model="other"),
        entry("b/1", "dos", direction(0, dimension=8)),
        entry("c/1", "tres", direction(0)),
    )
    assert await index.found("x", direction(0)) == ["c/1"]
    assert await index.found("x", direction(0), model="other") == ["a/1"]
    assert await index.found("x", direction(0, dimension=8)) == ["b/1"]
    assert await index.found("dos", direction(90), model="unheard of") == ["b/1"]


async def test_putting_an_id_again_replaces_it(index):
    await index.put(entry("a/1", "ducks", direction(0)))
    await index.search("ducks", direction(0))
    await index.put(entry("a/1", "geese", direction(90)))
    assert await index.found("ducks") == []
    assert await index.found("geese") == ["a/1"]
    assert len(await index.search("x", direction(90))) == 1


async def test_the_last_of_one_id_in_a_batch_wins(index):
    await index.put(entry("a/1", "ducks"), entry("a/1", "geese"))
    assert await index.found("ducks") == []
    assert await index.found("geese") == ["a/1"]


async def test_a_dropped_document_is_gone_at_once_from_words_and_meaning(index):
    await index.put(entry("a/1", "ducks", direction(0)), entry("b/1", "ducks", direction(1)))
    assert len(await index.found("ducks", direction(0))) == 2
    assert await index.drop("a") == 1
    assert await index.drop("a") == 0
    assert await index.found("ducks", direction(0)) == ["b/1"]


async def test_an_older_attempt_can_be_dropped_alone(index):
    await index.put(entry("a/old", "ducks", attempt=1), entry("a/new", "ducks", attempt=2))
    assert await index.drop("a", before_attempt=2) == 1
    assert await index.found("ducks") == ["a/new"]


async def test_some_kinds_can_be_dropped_alone(index):
    await index.put(
        entry("a/1", "ducks"),
        entry("q", "ducks?", direction(0), knowledge_id="a", chunk_id="a/1", kind=EntryKind.QUESTION),
        entry("s", "ducks.", direction(0), knowledge_id="a", chunk_id=None, kind=EntryKind.SUMMARY),
    )
    assert await index.drop("a", kinds=[EntryKind.QUESTION, EntryKind.SUMMARY]) == 2
    assert await index.drop("a", kinds=[]) == 0
    [hit] = await index.search("ducks", direction(0))
    assert hit.kinds == (EntryKind.TEXT,)


async def test_a_dropped_base_is_gone(index):
    await index.put(entry("a/1", "ducks", direction(0)), entry("b/1", "ducks", kb_id="other"))
    async with index.database.transaction() as session:
        assert await index.store.drop_base(session, "kb") == 1
    assert await index.found("ducks", direction(0)) == []
    assert await index.found("ducks", kb="other") == ["b/1"]


async def test_what_is_rolled_back_was_never_there(index):
    async with index.database.transaction() as session:
        await index.store.put(session, [entry("a/1", "ducks", direction(0))])
        await session.rollback()
    assert await index.found("ducks", direction(0)) == []


async def test_a_search_sees_nothing_of_an_open_transaction(index):
    async with index.database.transaction() as session:
        await index.store.put(session, [entry("a/1", "ducks", direction(0))])
        assert await index.found("ducks", direction(0)) == []
    assert await index.found("ducks", direction(0)) == ["a/1"]


HOSTILE = [
    '"', "'", "*", "a* OR", "NEAR(a b)", "words : ducks", "-ducks", "^ducks", "a AND", "(", "{words}", "%_",
    "\x00ducks\x00", "\ud800ducks", "🚀 ducks", "; DROP TABLE search_entries", "ducks " * 200_000,
]  # fmt: skip


@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
async def test_any_text_can_be_asked(index, query):
    await index.put(entry("a/1", "ducks", direction(0)))
    found = await index.found(query, direction(0))
    assert found == ([] if not any(map(str.isalnum, query)) else ["a/1"])


@pytest.mark.parametrize("query", ["", "   ", "?!", "🚀", "\x00", "\ud800"])
async def test_a_query_without_a_word_finds_nothing(index, query):
    await index.put(entry("a/1", "ducks 🚀", direction(0)))
    assert await index.found(query, direction(0)) == []


async def test_an_empty_base_and_an_unknown_one_answer_nothing(index):
    assert await index.search("ducks", direction(0)) == []


async def test_a_base_without_any_vector_is_searched_by_words(index):
    await index.put(entry("a/1", "ducks"), entry("b/1", "geese", np.zeros(4, np.float32)))
    assert await index.found("geese", direction(0)) == ["b/1"]
    assert await index.found("geese", np.zeros(4, np.float32)) == ["b/1"]


async def test_text_that_no_database_takes_is_stored_without_it(index):
    await index.put(entry("a/1", "du\x00cks \ud800 geese", heading="\x00"))
    [hit] = await index.search("geese")
    assert hit.text == "du\ufffdcks \ufffd geese"


@pytest.mark.parametrize("vector", [[np.nan, 1], [np.inf, 1], [[1.0, 2.0]], 1.0])
async def test_a_vector_that_cannot_be_compared_is_refused_and_nothing_is_put(index, vector):
    bad = np.array(vector, np.float32)
    with pytest.raises(ValueError, match="finite numbers"):
        await index.put(entry("a/1", "ducks"), entry("a/2", "geese", bad))
    with pytest.raises(ValueError, match="finite numbers"):
        await index.search("ducks", bad)
    assert await index.found("ducks") == []


async def test_a_vector_without_its_model_is_refused(index):
    with pytest.raises(ValueError, match="which model"):
        await index.put(entry("a/1", "ducks", direction(0), model=""))


async def test_the_number_of_hits_is_what_was_asked_for_within_bounds(index):
    await index.put(*(entry(f"d{n}/1", "ducks", direction(n / 10)) for n in range(150)))
    assert len(await index.search("ducks", direction(0), limit=3)) == 3
    assert len(await index.search("ducks", direction(0), limit=1_000_000)) <= 100
    assert await index.search("ducks", limit=0) == []
    assert await index.search("ducks", limit=-5) == []


async def test_a_thousand_entries_are_put_at_once_and_replaced(index):
    many = [entry(f"d{n // 20}/{n}", f"ducks number{n}", direction(n / 20)) for n in range(1_000)]
    await index.put(*many)
    await index.put(*many)
    assert (await index.found("number777"))[0] == "d38/777"
    assert await index.drop("d38") == 20


async def test_words_that_most_texts_share_are_not_even_read(index):
    common = (entry(f"d{n}/1", "the duck of the pond " * 5) for n in range(POSTINGS + 1))
    await index.put(*common, entry("x/1", "the okapi"))
    assert await index.found("the okapi of the pond") == ["x/1"]
    assert len(await index.found("the pond")) == 10, "unless nothing rarer was asked for"


async def test_what_is_gone_takes_no_place_among_the_best(index):
    await index.put(*(entry(f"d{n}/1", "duck") for n in range(2 * RANK_DEPTH)))
    async with index.database.transaction() as session:
        await index.store.drop_base(session, "kb")
    await index.put(entry("a/1", "a duck among many other birds of the pond " * 20))
    assert await index.found("duck") == ["a/1"]


async def test_the_same_question_gives_the_same_hits(index):
    await index.put(*(entry(f"d{n}/1", "ducks", direction(45)) for n in range(30)))
    first = await index.search("ducks", direction(0))
    assert [await index.search("ducks", direction(0)) for _ in range(3)] == [first] * 3


async def test_a_model_is_named_in_the_search_and_in_the_entry(index):
    await index.put(entry("a/1", "x1", direction(0)))
    assert await index.found("zzz", direction(0), model=MODEL) == ["a/1"]
