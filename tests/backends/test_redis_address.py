"""Where Redis is, as people are told: all of the URL but user and password."""

import pytest
from pipeline.backends.redis.address import parse
from pipeline.config import load
from pipeline.errors import ConfigurationError


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://app:s3cret@host", "redis://host:6379/0"),
        ("redis://:s3cret@host:7000/3", "redis://host:7000/3"),
        ("rediss://app:s3%40cret@[::1]:7000", "rediss://[::1]:7000/0"),
        ("unix://app:s3cret@/run/redis.sock?db=2", "unix:///run/redis.sock?db=2"),
        ("sentinel://app:s3cret@one,two:7001/main/1", "sentinel://one:26379,two:7001/main/1"),
        ("clusters://app:s3cret@one:7000,two:7001", "clusters://one:7000,two:7001"),
    ],
)
def test_the_address_is_shown_without_user_and_password(url: str, shown: str) -> None:
    assert str(parse(load(redis_url=url))) == shown


@pytest.mark.parametrize(
    "url",
    [
        "redis://app:s3cr/et@host:6379/0",
        "redis://:s3cr#et@host",
        "redis://host:6379/s3cr",
        "redis://host:99999",
        "redis://host:0",
        "redis://host:²/0",
        "redis://[::1/0",
        "redis://host:6379/0/1",
        "redis://host:6379?db=3",
        "redis://one,two/0",
        "sentinel://one/main/0/1",
        "unix:///run/redis.sock?db=s3cr",
    ],
)
def test_an_address_that_cannot_be_is_refused_and_nothing_secret_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError, match="STREAMLANE_REDIS_URL") as refused:
        parse(load(redis_url=url))
    assert "s3cr" not in str(refused.value)
    assert "et@" not in str(refused.value)
