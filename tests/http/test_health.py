"""Health answers anybody: whether the process lives, and whether it can work."""

import pytest
from consumers.database import open_database
from pipeline.http.bodies import LONGEST_BODY
from pipeline.runtime import Pipeline

from tests.http.conftest import calling


async def test_a_process_that_serves_says_that_it_lives(client):
    answer = await client.get("/healthz")
    assert answer.status_code == 200
    assert answer.json()["status"] == "ok"
    assert answer.json()["uptime_s"] >= 0


async def test_it_is_ready_while_queue_and_database_answer(client):
    assert (await client.get("/readyz")).json() == {"status": "ready"}


async def test_it_is_not_ready_while_its_queue_is_away(redis_server):
    async with (
        Pipeline.open(url=redis_server.url) as pipeline,
        open_database(pipeline.settings) as database,
        calling(pipeline, database) as client,
    ):
        redis_server.kill()
        answer = await client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["code"] == "store_unavailable"
        assert (await client.get("/healthz")).status_code == 200


async def test_what_is_not_there_is_an_error_body_too(client):
    answer = await client.get("/nowhere")
    assert answer.status_code == 404
    assert answer.json() == {"error": "Not Found", "code": "not_found"}


async def test_every_answer_forbids_a_browser_what_it_need_not_do(client):
    answer = await client.get("/nowhere")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("form", [False, True])
async def test_a_request_that_is_too_long_is_not_read(client, form):
    long = b"x" * (LONGEST_BODY + 1)
    kind = "application/x-www-form-urlencoded" if form else "application/json"
    path = "/sign-in" if form else "/api/v1/system/admin/session"
    answer = await client.post(path, content=long, headers={"Content-Type": kind})
    assert answer.status_code == 413
