"""Where Redis is, as people are told: all of the URL but user and password."""

import pytest
from pipeline.backends.redis.address import parse
from pipeline.config import load


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
