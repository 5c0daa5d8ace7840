"""What the lines of a Markdown text are."""

import time

import pytest
from consumers.knowledge.reading.markdown import Kind, headings, lines, plain
from hypothesis import given
from hypothesis import strategies as st

texts = st.one_of(
    st.text(max_size=300),
    st.lists(
        st.sampled_from(
            [
                "# A #\n",
                "```\n",
                "~~~ x\n",
                "---\n",
                "k: v\n",
                "> - q\n",
                "| a | b |\n",
                "  ## B\r\n",
                "\n",
                "w ",
            ]
        ),
        max_size=40,
    ).map("".join),
)


@given(texts)
def test_the_lines_cover_the_text(text: str):
    found = list(lines(text))
    assert [line.start for line in found] == [0, *(at + 1 for at, char in enumerate(text) if char == "\n")][
        : len(found)
    ]
    assert len(found) == text.count("\n") + (bool(text) and not text.endswith("\n"))


@given(texts)
def test_the_fast_way_finds_the_same_headings(text: str):
    assert list(headings(text)) == [line for line in lines(text) if line.kind is Kind.HEADING]


@pytest.mark.parametrize(
    ("raw", "kind", "said"),
    [
        ("## The **title** #", Kind.HEADING, "The title"),
        ("#hashtag", Kind.PROSE, "#hashtag"),
        ("- [x] done", Kind.ITEM, "done"),
        ("12) twelfth", Kind.ITEM, "twelfth"),
        ("• пункт", Kind.ITEM, "пункт"),
        ("| a | **b** |", Kind.ROW, "a | b"),
        ("| a | | c |", Kind.ROW, "a |  | c"),
        ("|---|:-:|", Kind.NOISE, ""),
        ("> quoted [link](https://example.com 'title')", Kind.PROSE, "quoted link"),
        ("![picture](a.png)", Kind.NOISE, ""),
        ("***", Kind.NOISE, ""),
        ("const value = compute();", Kind.CODE, "const value = compute();"),
        ("snake_case stays, _emphasis_ goes", Kind.PROSE, "snake_case stays, emphasis goes"),
    ],
)
def test_a_line_is_judged_by_how_it_begins(raw: str, kind: Kind, said: str):
    (line,) = lines(raw)
    assert (line.kind, line.text) == (kind, said)


def test_front_matter_is_no_text():
    assert [line.text for line in lines("---\ntitle: A\ntags: [b]\n---\nText\n") if line.text] == ["Text"]
    assert [line.text for line in lines("---\nA ruler, then text.\n") if line.text] == ["A ruler, then text."]


def test_the_line_above_the_rule_of_a_table_names_its_columns():
    text = "| a | **b** |\n|---|:-:|\n| 1 | |\n\n| 2 | 3 |\n"
    assert [(line.kind, line.text) for line in lines(text) if line.text] == [
        (Kind.COLUMNS, "a | b"), (Kind.ROW, "1 |"), (Kind.ROW, "2 | 3"),
    ]  # fmt: skip


@pytest.mark.parametrize("mark", ["[", "](", "*a ", "`a", "<a ", "{:", "_a ", "![", "[[", "~~", "\\", "<!--"])
def test_marks_without_end_are_read_in_linear_time(mark: str):
    began = time.process_time()
    plain(mark * 50_000)
    assert time.process_time() - began < 10
