"""The things a piece of text names, and how its sentences relate them."""

import pytest
from consumers.knowledge.language.extraction import (
    LONGEST_EVIDENCE,
    LONGEST_NAME,
    MAX_ENTITIES,
    MAX_RELATIONS,
    extract_graph,
)
from consumers.knowledge.language.relation_verbs import BESIDE, between
from hypothesis import given
from hypothesis import strategies as st


def names(text: str) -> set[str]:
    return {entity.name for entity in extract_graph(text).entities}


def related(text: str) -> set[tuple[str, str, str]]:
    return {(relation.source, relation.kind, relation.target) for relation in extract_graph(text).relations}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("In April the company of Bill Gates moved to New Mexico.", {"Bill Gates", "New Mexico"}),
        ("See `RedisBroker` and the option `max_retry` for LLMs.", {"RedisBroker", "max_retry", "LLM"}),
        ("Then we met. However, Ryen W. White was late.", {"Ryen W. White"}),
        (
            "Система Streamlane хранит данные рядом с «реестром очередей».",
            {"Система Streamlane", "реестром очередей"},
        ),
        (
            "沙箱模板由镜像构建。管理员注册沙箱模板，然后使用 CubeSandbox 运行沙箱模板。",
            {"沙箱模板", "CubeSandbox"},
        ),
    ],
)
def test_names_identifiers_quotes_and_frequent_terms_are_entities(text: str, expected: set[str]):
    assert expected <= names(text)


def test_words_that_are_capital_only_at_the_beginning_are_no_entities():
    assert (
        names("Downstream features fail. Reporting issues helps. The answer is short. Yes! Step 2 follows.")
        == set()
    )


@pytest.mark.parametrize(
    ("text", "relation"),
    [
        (
            "FastStream provides a RedisClusterBroker for clusters.",
            ("FastStream", "provides", "RedisClusterBroker"),
        ),
        ("Microsoft acquired GitHub in 2018.", ("Microsoft", "acquires", "GitHub")),
        ("The engine of SQLite is used by Streamlane.", ("Streamlane", "uses", "SQLite")),
        ("Сервис Harvester использует PostgreSQL.", ("Сервис Harvester", "uses", "PostgreSQL")),
        ("WeKnora 使用 PostgreSQL 存储数据。", ("WeKnora", "uses", "PostgreSQL")),
    ],
)
def test_a_verb_between_two_names_is_a_relation(text: str, relation: tuple[str, str, str]):
    assert relation in related(text)


def test_names_side_by_side_are_only_related():
    assert related("We compared Celery, Dramatiq and Huey yesterday.") == {
        ("Celery", BESIDE, "Dramatiq"),
        ("Dramatiq", BESIDE, "Huey"),
    }


@pytest.mark.parametrize(
    ("words", "language", "said"),
    [
        (" uses ", "en", ("uses", False)),
        (" is not replaced by ", "en", (BESIDE, False)),
        (" was replaced by ", "en", ("replaces", True)),
        (", which uses ", "en", (BESIDE, False)),
        (" reuses ", "en", (BESIDE, False)),
        (" не использует ", "ru", (BESIDE, False)),
        (" — это ", "ru", ("is_a", False)),
        ("不支持", "zh", (BESIDE, False)),
        ("支持", "zh", ("supports", False)),
        (" uses ", "de", (BESIDE, False)),
        (" uses" + " very" * 20 + " ", "en", (BESIDE, False)),
    ],
)
def test_what_denies_or_parts_is_no_verb(words: str, language: str, said: tuple[str, bool]):
    assert between(words, language) == said


def test_spellings_of_one_name_are_counted_together():
    (entity,) = extract_graph("We asked LLMs. An LLM answers. Two LLMs agree.").entities
    assert (entity.name, entity.count) == ("LLM", 3)


def test_evidence_is_the_sentence():
    (relation,) = extract_graph("It rained. Microsoft acquired GitHub in 2018. It rained again.").relations
    assert relation.evidence == "Microsoft acquired GitHub in 2018."


@given(
    st.one_of(
        st.text(max_size=300),
        st.lists(st.sampled_from(["Ab Cd", "uses", "EfGh", ".\n", "汉字", "x_y", "«q»"]), max_size=80).map(
            " ".join
        ),
    )
)
def test_a_graph_is_bounded_closed_and_always_the_same(text: str):
    graph = extract_graph(text)
    found = {entity.name for entity in graph.entities}
    assert len(found) == len(graph.entities) <= MAX_ENTITIES
    assert all(0 < len(entity.name) <= LONGEST_NAME and entity.count > 0 for entity in graph.entities)
    assert len(graph.relations) <= MAX_RELATIONS
    assert all(r.source in found and r.target in found and r.source != r.target for r in graph.relations)
    assert all(0 < len(r.evidence) <= LONGEST_EVIDENCE for r in graph.relations)
    assert extract_graph(text) == graph
