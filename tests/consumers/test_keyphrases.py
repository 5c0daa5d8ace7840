"""The phrases a text keeps coming back to."""

import time

import pytest
from consumers.knowledge.language.keyphrases import MAX_TEXT, keyphrases
from hypothesis import given
from hypothesis import strategies as st

ENGLISH = """# Worker pools

Every worker pool is a consumer group. A worker pool has its own queues, and queues have weights.
The shared worker pool borrows queues of other pools. Redis Streams hold the queues.
"""
RUSSIAN = """# Массовая рассылка

Массовая рассылка идёт фоном. Транзакционная почта не ждёт, пока идёт массовая рассылка.
Очередь для массовой рассылки своя.
"""
CHINESE = """# 沙箱模板

管理员先注册沙箱模板。沙箱模板由镜像构建，镜像里包含 Python。如果没有沙箱模板，就会重新构建镜像。
"""


@pytest.mark.parametrize(
    ("text", "phrase"), [(ENGLISH, "worker pool"), (RUSSIAN, "массовая рассылка"), (CHINESE, "沙箱模板")]
)
def test_what_is_named_often_and_in_the_heading_comes_first(text: str, phrase: str):
    best = keyphrases(text, limit=3)
    assert best[0].weight == 1
    assert phrase in {found.text.casefold().removesuffix("s") for found in best}


def test_words_that_only_bind_are_in_no_phrase():
    words = {word for found in keyphrases(ENGLISH, limit=50) for word in found.text.casefold().split()}
    assert not words & {"the", "is", "a", "of", "and", "its"}


def test_a_short_text_still_has_phrases_and_an_empty_one_none():
    assert keyphrases("Quarterly revenue report") != ()
    assert keyphrases("") == keyphrases("12 34. — !") == keyphrases("```\nx = 1\n```") == ()


@given(st.text(max_size=300), st.integers(1, 20))
def test_weights_fall_from_one_and_phrases_differ(text: str, limit: int):
    found = keyphrases(text, limit=limit)
    assert len(found) <= limit
    assert [f.weight for f in found] == sorted((f.weight for f in found), reverse=True)
    assert all(0 < f.weight <= 1 for f in found)
    assert len({f.text for f in found}) == len(found)
    assert keyphrases(text, limit=limit) == found


@pytest.mark.parametrize(
    "text", ["汉" * MAX_TEXT, "word " * MAX_TEXT, "字文" * MAX_TEXT], ids=["one", "word", "pair"]
)
def test_a_pathological_text_is_read_in_bounded_time(text: str):
    began = time.process_time()
    keyphrases(text)
    assert time.process_time() - began < 30


def test_of_phrases_that_weigh_the_same_the_first_comes_first() -> None:
    """Otherwise every process would take others, as the order of a set is its own."""
    words = ["lantern", "harbour", "violin", "meadow", "copper", "glacier", "walnut", "thunder", "pepper"]
    text = " ".join(f"Then {word} and." for word in words * 2)
    assert [one.text for one in keyphrases(text, limit=6)] == words[:6]
