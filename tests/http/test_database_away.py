"""While PostgreSQL is away every request is told so, at once; the process lives, and serves again as soon as it is back."""

import pytest
from pipeline.http import health
from pipeline.runtime import Pipeline

from tests.http.test_dashboard import PAGES, ann, token
from tests.http.test_rights import GUARDED, ask

__all__ = ["ann", "token"]

pytestmark = pytest.mark.postgres


@pytest.fixture
async def pipeline(postgres_server, tmp_path):
    url = postgres_server.url.render_as_string(hide_password=False)
    async with Pipeline.open(data_dir=tmp_path, database_url=url) as opened:
        yield opened


async def ready(client):
    return (await client.get("/readyz")).status_code == 200


async def test_every_endpoint_says_that_the_database_is_away_and_works_again_afterwards(
    operator, postgres_server
):
    assert await ready(operator)
    postgres_server.kill()
    for endpoint in sorted(GUARDED):
        answer = await ask(operator, endpoint)
        assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable"), endpoint
        assert "geheim" not in answer.text
    answer = await operator.get("/readyz")
    assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
    assert (await operator.get("/healthz")).status_code == 200
    postgres_server.start()
    assert await ready(operator)
    for endpoint in sorted(GUARDED):
        assert (await ask(operator, endpoint)).status_code < 500, endpoint


async def test_every_page_says_that_the_database_is_away(client, token, postgres_server):
    postgres_server.kill()
    client.headers["accept"] = "text/html"
    for page in PAGES:
        answer = await client.get(page)
        assert (answer.status_code, "The store does not answer" in answer.text) == (503, True), page
    assert (await client.post("/sign-in", data={"name": "ann", "password": "no"})).status_code == 503


async def test_a_database_that_says_nothing_is_given_up_soon_by_who_asks_for_readiness(
    client, postgres_server, monkeypatch
):
    assert await ready(client)
    postgres_server.suspend()
    with monkeypatch.context() as patch:
        patch.setattr(health, "LIMIT_S", 0.2)
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
    postgres_server.resume()
    assert await ready(client)
