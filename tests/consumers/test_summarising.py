"""What a document says in a few of its own sentences."""

import pytest
from consumers.knowledge.embedding.embedder import LocalEmbedder
from consumers.knowledge.embedding.summarising import (
    FIRST_WORDS,
    LIMIT,
    TooLittleText,
    first_words,
    summarise,
)
from hypothesis import given
from hypothesis import strategies as st

ENGLISH = """# Worker pools

Streamlane runs background jobs in worker pools that share queues by weight. Every worker pool is a consumer group with
its own concurrency. The weather in Lisbon was pleasant on the day this was written. Workers of a pool claim jobs from
its queues and settle them when they are done. It also has a logo.

```
pools = {"core": 8}
```

Jobs of crashed workers are claimed again by other workers of the same pool.
"""
RUSSIAN = (
    "Очереди разведены по нагрузке на три лейна. Массовая рассылка отделена от транзакционной почты. "
    "Каждый лейн обслуживает свой воркер с отдельным параллелизмом. Упавший воркер не теряет задачи из очереди.\n"
)
CHINESE = "沙箱模板由镜像构建。管理员先注册沙箱模板，再切换集群的默认模板。镜像里包含 Python 3.11 运行环境。构建失败时会原地重建模板。\n"


@pytest.fixture
def embedder() -> LocalEmbedder:
    return LocalEmbedder()


@pytest.mark.parametrize("text", [ENGLISH, RUSSIAN, CHINESE], ids=["en", "ru", "zh"])
async def test_a_summary_is_made_of_whole_sentences_in_their_order(embedder: LocalEmbedder, text: str):
    summary = await summarise(text, embedder, limit_chars=200)
    assert summary.method == "extractive"
    assert 0 < len(summary.text) <= 200
    said = " ".join(text.split())
    places = [said.find(part.strip()) for part in summary.text.replace("。", ".").split(".") if part.strip()]
    assert places == sorted(places)
    assert -1 not in places


async def test_a_summary_keeps_to_the_subject(embedder: LocalEmbedder):
    summary = await summarise(ENGLISH, embedder, limit_chars=260)
    assert "worker pool" in summary.text
    assert "weather" not in summary.text
    assert "logo" not in summary.text


async def test_the_same_text_always_has_the_same_summary(embedder: LocalEmbedder):
    assert await summarise(ENGLISH, embedder) == await summarise(ENGLISH, embedder)


async def test_what_is_said_twice_is_summarised_once(embedder: LocalEmbedder):
    text = "Workers claim jobs from the queues of their pool. " * 5 + ENGLISH
    summary = await summarise(text, embedder)
    assert summary.text.count("Workers claim jobs from the queues of their pool.") <= 1


async def test_a_book_is_summarised_from_all_its_parts_in_bounded_time(embedder: LocalEmbedder):
    text = "".join(
        f"Chapter {n} tells how the ship number {n} sailed from port {n} to the sea.\n" for n in range(50_000)
    )
    summary = await summarise(text, embedder)
    assert 0 < len(summary.text) <= LIMIT


@pytest.mark.parametrize(
    "text", ["", "One sentence is all there is here.", "| 1 | 2 |\n" * 50, "```\nx = 1\n```"]
)
async def test_too_little_text_is_told_and_has_first_words(embedder: LocalEmbedder, text: str):
    with pytest.raises(TooLittleText):
        await summarise(text, embedder)
    assert first_words(text).method == "extractive"


@given(st.one_of(st.text(max_size=100), st.text("ab c汉\n# |", min_size=400, max_size=1500)))
def test_first_words_are_the_beginning_and_short(text: str):
    words = first_words(text).text
    assert len(words) <= FIRST_WORDS + 1
    assert not any(char.isalnum() for char in text) or words


def test_first_words_end_between_words():
    assert first_words("word " * 200).text == ("word " * 100).strip() + "…"
    assert len(first_words("汉" * 900).text) == FIRST_WORDS + 1
