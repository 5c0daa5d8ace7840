"""An app over a real queue and a real database, and callers of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from consumers.api import api_of
from consumers.database import open_database
from pipeline.runtime import Pipeline
from pipeline.store.engine import Database

from tests.support.backends import BACKENDS


@asynccontextmanager
async def calling(pipeline, database) -> AsyncIterator[httpx.AsyncClient]:
    """Give a client of the app over these; it knows nobody's key."""
    transport = httpx.ASGITransport(api_of(pipeline, database), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://streamlane.test") as client:
        yield client


@pytest.fixture(params=list(BACKENDS.values()), ids=list(BACKENDS))
async def pipeline(request, tmp_path) -> AsyncIterator[Pipeline]:
    backend = request.param(tmp_path)
    try:
        async with Pipeline.open(**backend.settings()) as opened:
            yield opened
    finally:
        await backend.close()


@pytest.fixture
async def database(pipeline) -> AsyncIterator[Database]:
    async with open_database(pipeline.settings) as opened:
        yield opened


@pytest.fixture
async def client(pipeline, database) -> AsyncIterator[httpx.AsyncClient]:
    async with calling(pipeline, database) as client:
        yield client
