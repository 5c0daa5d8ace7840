"""The worker of `tests.support.worker_process` as an app: `faststream run tests.support.faststream_worker:app`."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pipeline import Pipeline, on, worker_app

from tests.support.worker_process import Act, Diary, act


@asynccontextmanager
async def diary(_: Pipeline) -> AsyncIterator[Diary]:
    yield Diary(Path(os.environ["STREAMLANE_TEST_DIARY"]))


app = worker_app(pools=["core"], handlers=[on(Act, act)], services=diary, only={Act.spec.type})
