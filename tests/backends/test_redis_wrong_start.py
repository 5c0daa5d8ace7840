"""What a start says when the URL names something else than it says, or nothing: one sentence with the next step."""

import pytest
from pipeline.backends.redis.broker import RedisBroker
from pipeline.config import load
from pipeline.errors import EnqueueFailed, StoreUnavailable

from tests.support.redis_server import RedisServer, free_port
from tests.support.redis_topologies import SERVICE, Watcher


async def refused(url: str) -> str:
    """Return what a start says."""
    with pytest.raises(StoreUnavailable) as said:
        await RedisBroker.open(load(redis_url=url))
    return str(said.value)


async def test_a_sentinel_url_at_a_server_that_is_none(redis_server: RedisServer) -> None:
    said = await refused(f"sentinel://127.0.0.1:{redis_server.port}/{SERVICE}/0")
    assert "it is no Sentinel: write redis://… in STREAMLANE_REDIS_URL" in said


async def test_a_server_url_at_a_sentinel(redis_server: RedisServer) -> None:
    sentinel = Watcher(redis_server.port, 1)
    try:
        sentinel.start()
        said = await refused(sentinel.url)
    finally:
        sentinel.close()
    assert "if it is a Sentinel, write sentinel://…/<service> in STREAMLANE_REDIS_URL" in said


async def test_a_cluster_url_at_a_server_that_is_none(redis_server: RedisServer) -> None:
    said = await refused(redis_server.url.replace("redis://", "cluster://"))
    assert "it is no Cluster: write redis://… in STREAMLANE_REDIS_URL" in said


async def test_sentinels_that_are_away_are_named_by_their_places() -> None:
    one, two = free_port(), free_port()
    said = await refused(f"sentinel://127.0.0.1:{one},127.0.0.1:{two}/{SERVICE}/0")
    assert f"127.0.0.1:{one} - " in said
    assert f"127.0.0.1:{two} - " in said
    assert "<" not in said


async def test_a_server_that_is_away_is_said_with_the_next_step() -> None:
    said = await refused(f"redis://127.0.0.1:{free_port()}/0")
    assert said.startswith(
        "Redis does not answer: see that it runs, and where STREAMLANE_REDIS_URL says it does ("
    )
    assert said.endswith(")")


def test_what_failed_an_enqueue_ends_where_its_sentence_does() -> None:
    assert str(EnqueueFailed("j", StoreUnavailable("it is away."))) == (
        "could not enqueue job j: it is away; repeat with id='j'"
    )


@pytest.mark.parametrize("login", ["", ":gu3ss@"])
async def test_a_sentinel_that_wants_another_login(redis_server: RedisServer, login: str) -> None:
    sentinel = Watcher(redis_server.port, 1, requirepass="secret")
    try:
        sentinel.start()
        said = await refused(f"sentinel://{login}127.0.0.1:{sentinel.port}/{SERVICE}/0")
    finally:
        sentinel.close()
    assert "password" in said
    assert "gu3ss" not in said
