"""Whose embedder a base has: the one in the package, a service, or none that this process can serve."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest
from consumers.knowledge.embedding.embedder import (
    EmbeddingError,
    LocalEmbedder,
    ModelUnavailable,
    TextRefused,
)
from consumers.knowledge.embedding.embedders import Embedders
from consumers.knowledge.embedding.endpoint import BATCH, EndpointAway, EndpointBusy
from consumers.knowledge.embedding.hashing import HashingEmbedder
from contracts.outcomes import Retry
from pipeline.config import load
from pipeline.errors import ConfigurationError

from tests.support.embedding_server import EmbeddingServer, embedding_server
from tests.support.waiting import wait_until


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as opened:
        yield opened


@pytest.fixture
async def served(server: EmbeddingServer) -> AsyncIterator[Embedders]:
    embedders = Embedders(load(**server.settings()))
    yield embedders
    await embedders.close()


async def test_without_settings_a_new_base_gets_the_encoder_of_the_package():
    embedders = Embedders(load())
    assert isinstance(embedders.default, LocalEmbedder)
    assert embedders.get(LocalEmbedder.model, LocalEmbedder.dimension) is embedders.default is embedders.local


@pytest.mark.parametrize("dimension", [1, 7, 512, 3000])
async def test_hashing_makes_vectors_of_any_length_of_which_those_of_like_texts_are_near(dimension):
    embedder = Embedders(load()).get(HashingEmbedder.MODEL, dimension)
    texts = [
        "A worker pool has slots.",
        "The slots of worker pools.",
        "Bananas are yellow.",
        "",
        "!!!",
        "\ud800",
    ]
    rows = await embedder.embed(texts)
    assert rows.shape == (len(texts), dimension)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
    if dimension > 100:
        assert rows[0] @ rows[1] > 0.5
        assert rows[0] @ rows[2] < 0.2


@pytest.mark.parametrize(
    ("model", "dimension", "said"),
    [
        ("another", 3, "set STREAMLANE_EMBEDDING_BASE_URL"),
        (LocalEmbedder.model, 3, "512 numbers, not 3"),
        (HashingEmbedder.MODEL, 0, "not 0"),
        (HashingEmbedder.MODEL, 16_001, "1 to 16,000"),
    ],
)
async def test_what_this_process_cannot_make_is_refused_saying_what_would_help(model, dimension, said):
    with pytest.raises(ModelUnavailable, match=said):
        Embedders(load()).get(model, dimension)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"embedding_base_url": "localhost:8000"}, "write http://"),
        ({"embedding_base_url": "http://me:secret@localhost/v1"}, "write no name and password"),
        ({"embedding_base_url": "http://localhost:8000/v1"}, "STREAMLANE_EMBEDDING_MODEL"),
        ({"embedding_model": "another", "embedding_dimension": 3}, "STREAMLANE_EMBEDDING_BASE_URL"),
        ({"embedding_model": "another"}, "how many numbers"),
    ],
)
async def test_settings_that_do_not_go_together_are_refused(settings, said):
    with pytest.raises(ConfigurationError, match=said):
        Embedders(load(**settings))


async def test_a_service_gets_the_texts_in_batches_and_its_vectors_come_in_order_at_length_one(
    served, server
):
    texts = [f"text number {n}" for n in range(2 * BATCH + 3)]
    rows = await served.default.embed(["", *texts])
    assert rows.shape == (len(texts) + 1, 96)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
    alone = await served.default.embed(texts[100:101])
    assert np.allclose(rows[101], alone[0])
    assert sorted(len(call["input"]) for call in server.calls) == [1, 4, BATCH, BATCH]
    assert "" not in {text for call in server.calls for text in call["input"]}
    assert (await served.default.embed([])).shape == (0, 96)


async def test_another_model_of_the_same_service_and_a_shorter_vector_are_asked_for(served, server):
    assert (await served.get("large", 256).embed(["a"])).shape == (1, 256)
    shorter = served.get("large", 64)
    assert (await shorter.embed(["a"])).shape == (await shorter.embed(["b"])).shape == (1, 64)
    assert [call.get("dimensions") for call in server.calls] == [None, None, 64, 64]


async def test_how_near_unrelated_texts_are_to_a_model_is_measured_once(served, server):
    floor = await served.floor(served.default)
    assert 0 <= floor < 0.3
    assert await served.floor(served.default) == floor
    assert len(server.calls) == 1
    assert await served.floor(served.local) == 0


async def test_busy_is_a_retry_after_the_time_that_the_service_names_and_nobody_calls_before(served, server):
    server.faults.append((429, {"retry-after": "30"}, "slow down"))
    with pytest.raises(EndpointBusy, match="slow down") as told:
        await served.default.embed(["a"])
    assert isinstance(told.value, Retry)
    assert told.value.after == 30
    with pytest.raises(EndpointBusy) as again:
        await served.get("large", 256).embed(["b"])
    assert again.value.after is not None
    assert 25 < again.value.after <= 30
    assert len(server.calls) == 1


async def test_after_the_pause_it_is_called_again(served, server):
    server.faults.append((503, {"retry-after": "0.2"}, "starting"))
    with pytest.raises(EndpointBusy):
        await served.default.embed(["a"])

    async def works() -> bool:
        try:
            return len(await served.default.embed(["a"])) == 1
        except EndpointBusy:
            return False

    await wait_until(works, describe="the service is called again")


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("Wed, 21 Oct 2015 07:28:00 GMT", 0.1), ("soon", 5), ("", 5), ("nan", 5), ("-3", 0.1), ("9e9", 3600)],
)
async def test_any_retry_after_becomes_a_bounded_pause(served, server, said, seconds):
    server.faults.append((429, {"retry-after": said}, ""))
    with pytest.raises(EndpointBusy) as told:
        await served.default.embed(["a"])
    assert told.value.after == seconds


@pytest.mark.parametrize(
    ("fault", "error", "said"),
    [
        ((500, {}, "oops"), EndpointAway, "500: oops"),
        ((401, {}, "who?"), EndpointAway, "check STREAMLANE_EMBEDDING_API_KEY"),
        ((404, {}, "no model"), ModelUnavailable, "is 'small' a model"),
        ((400, {}, "too long"), TextRefused, "too long"),
        ((200, {}, "<html>"), EndpointAway, "no JSON"),
        ((200, {}, "[]"), EndpointAway, "no embeddings"),
        ((200, {}, '{"data": []}'), EndpointAway, "no embeddings"),
        ((200, {}, '{"data": [{"index": 0, "embedding": ["a"]}]}'), EndpointAway, "no embeddings"),
        ((200, {}, '{"data": [{"index": 0, "embedding": [1e999]}]}'), EndpointAway, "no embeddings"),
    ],
)
async def test_each_way_to_fail_has_a_type_and_says_what_the_service_said(served, server, fault, error, said):
    server.faults.append(fault)
    with pytest.raises(error, match=said) as told:
        await served.default.embed(["a"])
    assert isinstance(told.value, EmbeddingError)
    assert "sk-for-tests" not in str(told.value)


async def test_a_vector_of_another_length_is_refused(served, server):
    server.faults += [(200, {}, '{"data": [{"index": 0, "embedding": [1, 0]}]}')] * 2
    with pytest.raises(ModelUnavailable, match="2 numbers with 'small', not of 96"):
        await served.default.embed(["a"])


async def test_a_service_that_is_not_there_is_told(server):
    settings: dict[str, Any] = {**server.settings(), "embedding_base_url": "http://127.0.0.1:9/v1"}
    embedders = Embedders(load(**settings))
    with pytest.raises(EndpointAway, match="cannot be reached"):
        await embedders.default.embed(["a"])
    await embedders.close()
