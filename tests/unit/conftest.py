"""A pipeline of its own for each test."""

from collections.abc import AsyncIterator, Iterator

import pytest
import structlog
from pipeline.runtime import Pipeline


@pytest.fixture(autouse=True)
def own_log() -> Iterator[None]:
    """Each test configures the log, as each process does."""
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()


@pytest.fixture
async def pipeline() -> AsyncIterator[Pipeline]:
    """On a queue file in the test's own data folder."""
    async with Pipeline.open(log_level="debug", lease_s=2, grace_s=0.3) as found:
        yield found
