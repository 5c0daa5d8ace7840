"""A pipeline of its own for each test."""

from collections.abc import AsyncIterator

import pytest
from pipeline.runtime import Pipeline


@pytest.fixture
async def pipeline() -> AsyncIterator[Pipeline]:
    """On a queue file in the test's own data folder."""
    async with Pipeline.open(log_level="debug", lease_s=2, grace_s=0.3) as found:
        yield found
