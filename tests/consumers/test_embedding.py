"""Texts as vectors of meaning."""

import asyncio

import numpy as np
import pytest
from consumers.knowledge.embedding.embedder import Embedder, LocalEmbedder


@pytest.fixture
def embedder() -> Embedder:
    return LocalEmbedder()


async def test_a_row_a_text_each_of_length_one_whatever_the_text(embedder: Embedder):
    texts = ["", " ", "hello", "你好" * 4000, "word " * 5000, "\x00\ud800 broken", "👩‍👩‍👧", "مرحبا"]
    rows = await embedder.embed(texts)
    assert rows.shape == (len(texts), embedder.dimension)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-4)
    assert (await embedder.embed([])).shape == (0, embedder.dimension)


async def test_the_same_meaning_is_nearer_than_another_in_every_language(embedder: Embedder):
    topics = [
        ["The cat sleeps on the sofa", "Кошка спит на диване", "猫在沙发上睡觉"],
        ["The bank raised interest rates", "Банк повысил процентные ставки", "银行提高了利率"],
    ]
    cats, banks = [await embedder.embed(topic) for topic in topics]
    assert (cats @ cats.T).min() > 2 * (cats @ banks.T).max()


async def test_a_text_has_the_same_vector_alone_and_in_a_crowd(embedder: Embedder):
    texts = [f"sentence number {n} about {word}" for n, word in enumerate(["ships", "rain", "tax"] * 30)]
    together = await embedder.embed(texts)
    alone = await embedder.embed(texts[40:41])
    assert np.allclose(together[40], alone[0], atol=1e-5)


async def test_the_vectors_of_a_model_never_change_under_its_name(embedder: Embedder):
    """Stored vectors are compared with new ones as long as the name is the same."""
    (row,) = await embedder.embed(["Streamlane runs the background work of a knowledge platform."])
    assert embedder.model == "universal-sentence-encoder-multilingual-3:6bit"
    assert np.allclose(row[:6], FIRST_SIX, atol=1e-3)


FIRST_SIX = [0.0302, -0.0071, 0.0843, 0.0398, 0.0068, -0.0874]


async def test_of_a_very_long_text_only_the_beginning_is_read(embedder: Embedder):
    limit = LocalEmbedder.WINDOW * LocalEmbedder.MAX_WINDOWS
    long = "The ship left the harbour. " * (1 + limit // 27)
    read, more = await embedder.embed([long[:limit], long[:limit] + "The bank failed. " * 100_000])
    assert np.array_equal(read, more)


async def test_a_question_does_not_wait_until_a_book_is_done(embedder: Embedder):
    book = asyncio.create_task(embedder.embed(["A page of a very long book about the sea. " * 15] * 600))
    question = asyncio.create_task(embedder.embed(["What is the sea?"]))
    done, _ = await asyncio.wait({book, question}, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    assert done == {question}
    book.cancel()
    with pytest.raises(asyncio.CancelledError):
        await book
