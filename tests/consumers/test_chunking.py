"""How a document is cut into pieces."""

import itertools
import time

import pytest
from consumers.knowledge.reading import chunking
from consumers.knowledge.reading.chunking import BLOCK, TooManyChunks, split
from consumers.knowledge.reading.rendering import table
from hypothesis import given
from hypothesis import strategies as st

GUIDE = """---
title: Guide
---

# Guide

Read this first.

## Installing

### On Linux

Run the installer.

```
# not a heading
```

## 使用

先打开应用，然后选择文件，最后等待处理完成。
"""

fragments = st.sampled_from(
    [
        "# A\n",
        "## B\n\n",
        "word ",
        "文字。",
        "```\n",
        "| a | b |\n",
        "| - | - |\n",
        "- item\n",
        "\n\n",
        "é👩‍👩‍👧 ",
        "x" * 900,
        "\r\n",
        "\u00a0",
    ]
)
texts = st.one_of(st.text(max_size=300), st.lists(fragments, max_size=60).map("".join))


@given(texts, st.integers(1, 200), st.integers(0, 50))
def test_every_piece_is_exactly_what_stands_at_its_place(text: str, size: int, overlap: int):
    for index, chunk in enumerate(split(text, size=size, overlap=min(overlap, size - 1))):
        assert chunk.index == index
        assert chunk.text == chunk.columns + text[chunk.start : chunk.end]
        assert 0 < chunk.end - chunk.start <= size


@given(texts)
def test_no_word_is_lost_between_pieces(text: str):
    without_fences = text.replace("```", "")
    chunks = split(without_fences, size=50)
    borders = [0, *(edge for chunk in chunks for edge in (chunk.start, chunk.end)), len(without_fences)]
    assert borders == sorted(borders)
    for left, right in zip(borders[::2], borders[1::2], strict=True):
        assert not any(char.isalnum() for char in without_fences[left:right])


@given(st.lists(fragments, min_size=200, max_size=400).map("".join))
def test_a_long_text_is_cut_into_blocks_without_losing_a_place(text: str):
    text *= 1 + 3 * BLOCK // max(1, len(text))
    chunks = split(text)
    assert all(chunk.columns + text[chunk.start : chunk.end] == chunk.text for chunk in chunks)
    assert all(first.end <= second.start for first, second in itertools.pairwise(chunks))


def test_a_piece_knows_the_headings_it_stands_under():
    chunks = split(GUIDE, size=40)
    assert [chunk.heading for chunk in chunks if "installer" in chunk.text] == [
        ("Guide", "Installing", "On Linux")
    ]
    assert [chunk.heading for chunk in chunks if "not a heading" in chunk.text] == [
        ("Guide", "Installing", "On Linux")
    ]
    assert [chunk.heading for chunk in chunks if "打开" in chunk.text] == [("Guide", "使用")]


def test_what_is_embedded_names_the_headings_once_and_leaves_the_marks_out():
    text = "# Guide\n\n## Links\n\n" + "See **the** [manual](https://example.com/a/b). " * 3
    (chunk,) = split(text)
    assert chunk.context().splitlines() == [
        "# Guide",
        "## Links",
        "See the manual. See the manual. See the manual.",
    ]
    inner = split(text + "\n\nAnother paragraph of words. " * 40)[-1]
    assert inner.context().startswith("Guide › Links\n")


@pytest.mark.parametrize("columns", [3, 12, 40])
def test_every_piece_of_a_long_table_begins_with_the_names_of_its_columns(columns: int):
    header = [f"column_{n}" for n in range(columns)]
    rows = [[f"value {row} {n}" for n in range(columns)] for row in range(300)]
    text = f"# Orders\n\nAll of them:\n\n{table([header, *rows])}\n\nThat was all.\n"
    names = "| " + " | ".join(header) + " |\n| --- "
    with_rows = [chunk for chunk in split(text) if "| value" in chunk.text]
    assert len(with_rows) > 10
    assert all(chunk.text.count(names) == 1 for chunk in with_rows)
    assert max(len(chunk.text) for chunk in with_rows) <= 1.5 * chunking.SIZE
    assert any("That was all" in chunk.text for chunk in split(text))


def test_a_row_too_long_for_a_piece_still_stands_under_its_columns():
    text = table([["id", "story"], *[[str(n), f"Once {n} upon a time. " * 60] for n in range(5)]])
    assert all(chunk.text.startswith("| id | story |") for chunk in split(text))


def test_columns_too_many_for_a_piece_are_not_repeated():
    header = [f"a_rather_long_name_of_a_column_{n}" for n in range(60)]
    chunks = split(table([header, *[[str(n)] * 60 for n in range(100)]]))
    assert sum(header[-1] in chunk.text for chunk in chunks) == 1


def test_ideographs_get_shorter_pieces_because_they_take_more_tokens():
    latin = max(len(chunk.text) for chunk in split("Words and more words here. " * 200))
    chinese = max(len(chunk.text) for chunk in split("这里有很多文字。" * 400))
    assert chinese < latin / 2


def test_text_without_a_letter_gives_no_piece():
    assert split("") == split(" \n\n\t") == split("---\n***\n|---|---|\n") == ()


def test_a_fence_alone_is_no_piece():
    assert all(
        chunk.text != "```python" for chunk in split("Before.\n\n```python\n" + "value = 1\n" * 200 + "```\n")
    )


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        "汉" * 200_000,
        "\n" * 1_000_000,
        "[" * 500_000,
        "| a | b |\n" * 100_000,
        "| a | b |\n| - | - |\n" * 50_000,
        "| a | b |\n| - | - |\n| c | d |\n\n" * 30_000,
        "- x\n" * 100_000,
    ],
    ids=["one word", "no stop", "newlines", "brackets", "table", "rules", "tables", "list"],
)
def test_a_pathological_text_is_cut_in_linear_time(text: str):
    began = time.process_time()
    assert len(split(text)) < chunking.MAX_CHUNKS
    assert time.process_time() - began < 30  # some take minutes when the splitter sees them whole


def test_a_text_of_too_many_pieces_is_refused_with_advice(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(chunking, "MAX_CHUNKS", 3)
    assert len(split("Word. " * 300, size=600)) == 3
    with pytest.raises(TooManyChunks, match="split the document into smaller files"):
        split("Word. " * 400, size=600)


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (10, 10), (10, -1)])
def test_a_size_that_cannot_be_is_refused(size: int, overlap: int):
    with pytest.raises(ValueError, match="size > overlap"):
        split("text", size=size, overlap=overlap)
