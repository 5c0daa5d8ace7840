"""What Redis refuses, in the words of the port: by itself, out of a script, and where a pipeline adds words of its own."""

from collections.abc import Callable

import pytest
from pipeline.backends.redis.broker import RedisBroker
from pipeline.backends.redis.errors import FULL, REFUSED, store_error
from pipeline.config import load
from pipeline.errors import StoreFull, StoreUnavailable
from redis._parsers.base import BaseParser
from redis.exceptions import RedisError

from tests.support.hand import new
from tests.support.redis_server import RedisServer
from tests.support.redis_topologies import Cluster


def read(line: str) -> RedisError:
    """The error that redis-py makes of a line from the server."""
    error: RedisError = BaseParser.parse_error(line)
    return error


def in_pipeline(line: str) -> RedisError:
    error = read(line)
    error.args = (f"Command # 1 (EVAL #!lua…) of pipeline caused error: {error.args}",)
    return error


@pytest.mark.parametrize("made", [read, in_pipeline])
@pytest.mark.parametrize("word", [*FULL, *REFUSED])
def test_a_refusal_means_that_the_store_is_away(word: str, made: Callable[[str], RedisError]) -> None:
    place = " 42 127.0.0.1:7001" if word in {"MOVED", "ASK"} else " for some reason"
    found = store_error(made(word + place))
    assert type(found) is (StoreFull if word in FULL else StoreUnavailable)
    assert REFUSED.get(word, "no room") in str(found)


@pytest.mark.parametrize("line", ["BUSYGROUP Consumer Group name already exists", "ERR syntax error"])
def test_a_mistake_of_ours_is_no_refusal(line: str) -> None:
    assert store_error(read(line)) is None


@pytest.mark.parametrize("replicas", [0, 1])
async def test_a_server_that_wants_replicas_and_has_none_is_away(replicas: int) -> None:
    server = RedisServer().start()
    store = await RedisBroker.open(load(redis_url=server.url, redis_wait_replicas=replicas))
    try:
        with server.client() as client:
            client.config_set("min-replicas-to-write", 1)
        with pytest.raises(StoreUnavailable, match="too few replicas"):
            await store.enqueue([new()])
    finally:
        await store.close()
        server.close()


async def test_the_url_of_a_cluster_for_a_server_that_is_none_is_told(redis_server: RedisServer) -> None:
    url = redis_server.url.replace("redis://", "cluster://")
    with pytest.raises(StoreUnavailable, match="it is no Cluster"):
        await RedisBroker.open(load(redis_url=url))


@pytest.mark.slow
async def test_the_url_of_a_server_for_a_node_of_a_cluster_is_told() -> None:
    async with Cluster() as cluster:
        node = next(one for one in cluster.servers if one is not cluster.home_of("sl:probe"))
        with pytest.raises(StoreUnavailable, match="begins with cluster://"):
            await RedisBroker.open(load(redis_url=node.url))
