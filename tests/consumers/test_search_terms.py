"""The words of a text, as the index and a query see them."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from consumers.knowledge.language.terms import (
    MAX_QUERY_TERMS,
    MAX_TERM_CHARS,
    clean,
    index_terms,
    query_terms,
)
from hypothesis import given
from hypothesis import strategies as st


def matches(text: str, query: str) -> bool:
    """Whether FTS5, tokenizing as the index does, finds the text by the query's terms."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute(
            "CREATE VIRTUAL TABLE t USING fts5(words, tokenize=\"unicode61 remove_diacritics 0 categories 'L* N* M* C*'\")"
        )
        db.execute("INSERT INTO t VALUES (?)", (" ".join(index_terms(text)),))
        terms = query_terms(query)
        return bool(terms and db.execute("SELECT 1 FROM t WHERE t MATCH ?", (" OR ".join(terms),)).fetchone())


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("The Complex is better", "COMPLEX"),
        ("МАССОВАЯ РАССЫЛКА", "массовая"),
        ("массовых рассылок", "рассылка"),
        ("Ёлка", "елка"),
        ("naïve café", "NAIVE"),
        ("STRASSE", "straße"),
        ("三种传输方式", "传输"),
        ("三种传输方式", "式"),
        ("東京都", "京"),
        ("ｆｕｌｌ width", "full"),
        ("한국어 검색", "검색"),
        ("ภาษาไทย", "ไทย"),
        ("use JSONMessageFormat here", "MessageFormat"),
        ("use JSONMessageFormat here", "jsonmessageformat"),
        ("the worker_pool size", "pool"),
        ("version 0.7 of it", "0.7"),
        ("Go is a language", "go"),
        ("价格 349.99 元", "349"),
        ("companies", "company"),
    ],
)
def test_a_query_finds_the_text_that_means_it(text, query):
    assert matches(text, query)


@pytest.mark.parametrize(
    ("text", "query"),
    [("传统输入", "传输"), ("349", "3"), ("the cart", "car"), ("redis", "dis"), ("anything", "")],
)
def test_a_query_does_not_find_what_only_looks_alike(text, query):
    assert not matches(text, query)


@pytest.mark.parametrize("query", ["", " \n\t", "?!…", "🚀🔥", '"" * ( ^ : -', "\x00\x00", "\ud800", "___"])
def test_a_query_without_a_word_has_no_terms(query):
    assert query_terms(query) == []


def test_a_huge_query_costs_no_more_than_a_long_one():
    assert len(query_terms("word1 слово2 词语 " * 60_000)) <= 5
    assert len(query_terms(" ".join(f"w{n}" for n in range(200_000)))) == MAX_QUERY_TERMS
    assert max(map(len, query_terms("x" * 1_000_000))) <= MAX_TERM_CHARS + 3


def test_a_long_word_is_found_by_itself():
    word = "ab" * 500
    assert matches(f"it says {word}", word)


@given(st.text())
def test_every_text_is_found_by_itself_unless_it_has_no_word(text):
    assert matches(text, text) == bool(query_terms(text))


@given(st.text(st.characters(codec=None, categories=None)))
def test_any_text_whatever_gives_terms_that_can_be_stored_and_asked_for(text):
    stored: Iterator[str] = index_terms(text)
    assert all(term.encode() and term.split() == [term] and '"' not in term for term in stored)
    matches("some text", text)
    clean(text).encode()


def test_clean_keeps_what_can_be_stored():
    assert clean("a\x00b\ud800c 🚀") == "a\ufffdb\ufffdc 🚀"
