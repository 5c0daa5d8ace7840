"""Ranks fused, entries folded into passages, documents mixed: all pure."""

import pytest
from consumers.knowledge.search.ranking import PASSAGE_CHARS, Candidate, Place, Ranked, passages, rank
from consumers.knowledge.search.store import EntryKind
from hypothesis import given
from hypothesis import strategies as st


def own(chunk: str) -> Candidate:
    return Candidate(chunk.partition("/")[0], chunk, EntryKind.TEXT)


def question(chunk: str) -> Candidate:
    return Candidate(chunk.partition("/")[0], chunk, EntryKind.QUESTION)


def summary(document: str) -> Candidate:
    return Candidate(document, None, EntryKind.SUMMARY)


def order(*rankings: list[Candidate], limit: int = 100) -> list[str]:
    return [one.chunk_id or one.knowledge_id for one in rank(rankings, limit)]


def test_what_both_rankings_like_comes_before_what_one_likes_best():
    assert order([own("a/1"), own("b/1")], [own("c/1"), own("b/1")])[0] == "b/1"


def test_first_in_every_ranking_scores_one():
    [only] = rank([[own("a/1")], [own("a/1")]], 10)
    assert only.score == pytest.approx(1)


def test_nothing_found_is_nothing():
    assert rank([[], []], 10) == []


def test_a_question_counts_for_the_chunk_that_answers_it():
    ranked = rank([[own("a/1"), own("b/1"), question("b/1")]], 10)
    assert [one.chunk_id for one in ranked] == ["b/1", "a/1"]
    assert set(ranked[0].kinds) == {EntryKind.TEXT, EntryKind.QUESTION}


def test_a_question_alone_does_not_beat_the_own_words_of_a_text():
    assert order([question("b/1"), own("a/1")], [question("b/1"), own("a/1")]) == ["a/1", "b/1"]


def test_many_questions_of_a_chunk_count_once():
    once = rank([[question("a/1"), own("b/1")]], 10)
    often = rank([[*[question("a/1")] * 5, own("b/1")]], 10)
    assert once == often


def test_a_crowd_of_questions_does_not_push_the_answer_down():
    crowd = [question(f"q{n}/1") for n in range(60)]
    assert order([*crowd, own("a/1")])[0] == "a/1"


def test_a_summary_lends_its_rank_to_the_best_passage_of_its_document():
    ranking = [own("a/1"), own("b/1"), own("b/2"), summary("b")]
    assert order(ranking) == ["b/1", "a/1", "b/2"]


def test_a_summary_stands_for_itself_when_no_passage_was_found():
    assert order([own("a/1"), summary("b")]) == ["a/1", "b"]


def test_one_document_cannot_fill_the_page():
    ranking = [own(f"a/{n}") for n in range(9)] + [own("b/1"), own("c/1")]
    assert order(ranking, ranking)[:3] == ["a/0", "b/1", "c/1"]


def test_a_copy_of_a_document_does_not_repeat_it():
    ranking = [Candidate(document, f"{document}/1", EntryKind.TEXT, digest=7) for document in ("a", "copy")]
    assert order([*ranking, own("b/1"), own("c/1")]) == ["a/1", "b/1", "c/1", "copy/1"]


def test_a_document_alone_shows_all_its_passages():
    assert order([own(f"a/{n}") for n in range(4)]) == ["a/0", "a/1", "a/2", "a/3"]


entries = st.builds(
    lambda document, place, kind: (
        {"own": own, "question": question}[kind](f"{document}/{place}")
        if kind != "summary"
        else summary(document)
    ),
    st.sampled_from("abcd"),
    st.integers(0, 5),
    st.sampled_from(["own", "question", "summary"]),
)


@given(st.lists(st.lists(entries, max_size=30), max_size=3), st.integers(0, 20))
def test_scores_fall_within_one_and_zero_and_no_passage_comes_twice(rankings, limit):
    ranked = rank(rankings, limit)
    scores = [one.score for one in ranked]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 + 1e-9 for score in scores)
    assert len({(one.knowledge_id, one.chunk_id) for one in ranked}) == len(ranked) <= limit


def place(chunk: str, text: str, heading: str = "h") -> Place:
    document, _, position = chunk.partition("/")
    return Place("kb", document, chunk, int(position), heading, text)


def ranked(chunk: str, score: float = 0.5) -> Ranked:
    return Ranked(chunk.partition("/")[0], chunk, score, (EntryKind.TEXT,))


def test_a_passage_shows_its_neighbours_under_the_same_heading_in_order():
    around = [place("a/1", "one"), place("a/2", "two"), place("a/3", "three", heading="other")]
    [hit] = passages([ranked("a/2")], {"a/2": around}, {})
    assert hit.text == "one\n\ntwo"
    assert (hit.chunk_id, hit.position, hit.heading) == ("a/2", 2, "h")


def test_a_passage_grows_no_longer_than_a_reader_likes_and_what_follows_goes_first():
    long = "x" * (PASSAGE_CHARS // 2 - 1)
    around = [place("a/1", long), place("a/2", long), place("a/3", long)]
    [hit] = passages([ranked("a/2")], {"a/2": around}, {})
    assert hit.text == f"{long}\n\n{long}"
    assert len(passages([ranked("a/2")], {"a/2": [place("a/2", "y" * 5000)]}, {})[0].text) == 5000


def test_no_text_is_shown_twice():
    one, two, three = place("a/1", "one"), place("a/2", "two"), place("a/3", "three")
    chunks = {"a/1": [one, two], "a/2": [one, two, three], "a/3": [two, three]}
    hits = passages([ranked("a/1"), ranked("a/2"), ranked("a/3")], chunks, {})
    assert [hit.text for hit in hits] == ["one\n\ntwo", "three"]


def test_a_passage_whose_chunk_has_gone_is_left_out():
    assert passages([ranked("a/1"), Ranked("b", None, 0.1, ())], {}, {}) == []
