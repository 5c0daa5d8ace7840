"""The sentences of a text."""

import pytest
from consumers.knowledge.language.sentences import LONGEST, Sentence, sentences, split_sentences
from consumers.knowledge.reading.markdown import Kind
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He paid $3.50 for v1.2.3. Really? Yes!", ["He paid $3.50 for v1.2.3.", "Really?", "Yes!"]),
        ("Dr. Smith met J. K. Rowling. See Fig. 2.", ["Dr. Smith met J. K. Rowling.", "See Fig. 2."]),
        ("Use lists, e.g. this one. Then stop.", ["Use lists, e.g. this one.", "Then stop."]),
        ("Это т.е. пример, г. Москва. Конец.", ["Это т.е. пример, г. Москва.", "Конец."]),
        ("А. С. Пушкин писал стихи. Все читали.", ["А. С. Пушкин писал стихи.", "Все читали."]),
        ("今天天气好。我们走吧！真的吗？", ["今天天气好。", "我们走吧！", "真的吗？"]),
        ("今日は。いい天気ですね。", ["今日は。", "いい天気ですね。"]),
        ("مرحبا. كيف حالك؟ جيد.", ["مرحبا.", "كيف حالك؟", "جيد."]),
        ('She said "yes." He left.', ['She said "yes."', "He left."]),
    ],
)
def test_a_sentence_ends_where_a_reader_says(text: str, expected: list[str]):
    assert list(split_sentences(text)) == expected


def test_wrapped_lines_are_one_sentence_and_separate_lines_are_not():
    wrapped = (
        "The worker takes no more jobs than it has free slots and\nnothing waits behind a running one.\n"
    )
    assert [s.text for s in sentences(wrapped)] == [wrapped.replace("\n", " ").strip()]
    assert [s.text for s in sentences("interactive\nlow latency\n")] == ["interactive", "low latency"]
    chinese = "内置模型是系统级别的模型配置，对所有空间可见，敏感信息会被隐藏，普通用户只能查看，\n不能修改。"
    assert [s.text for s in sentences(chinese)] == [chinese.replace("\n", "")]


def test_only_the_kinds_asked_for_are_given():
    text = "# Title\n\nProse here.\n\n- item\n\n| a | b |\n|---|---|\n\n```\ncode = 1\n```\n"
    assert sentences(text) == (Sentence("Prose here.", Kind.PROSE), Sentence("item", Kind.ITEM))
    assert [s.text for s in sentences(text, kinds=set(Kind))] == [
        "Title",
        "Prose here.",
        "item",
        "a | b",
        "code = 1",
    ]


@given(st.one_of(st.text(max_size=500), st.text("ab ,.\n。", max_size=3000)), st.integers(20, LONGEST))
def test_no_sentence_is_empty_or_too_long(text: str, longest: int):
    assert all(
        0 < len(s.text) <= longest and s.text == s.text.strip() for s in sentences(text, longest=longest)
    )


@given(st.text("ab cд汉。.! \n", max_size=300))
def test_no_letter_of_prose_is_lost(text: str):
    said = "".join(s.text for s in sentences(text, kinds=set(Kind)))
    assert [c for c in said if c.isalnum()] == [c for c in text if c.isalnum()]
