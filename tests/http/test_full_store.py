"""Whatever is sent: a file store without room, or away, is said to be so, and no bug of this server."""

from typing import Any

import httpx
import pytest
from consumers.knowledge.files.noted import NotedStore
from consumers.knowledge.files.store import FileStoreError, FileStoreFull

MANY = [{"question": f"What is {n}?", "answers": ["a number"]} for n in range(3_000)]
FILE = {"files": {"file": ("a.txt", b"words of a file")}}
ROUTES: dict[str, dict[str, Any]] = {
    "knowledge": FILE,
    "manual": {"json": {"title": "Hours", "content": "We open at nine."}},
    "faq/import": {"json": {"entries": MANY}},
    "faq/import/file": {"files": {"file": ("a.csv", b"question,answers\nwhat,that\n")}},
}


@pytest.fixture(params=[(FileStoreFull, 507, "file_store_full"), (FileStoreError, 503, "store_unavailable")])
def lack(request, monkeypatch):
    """A store that takes nothing; what is answered then."""
    kind, *said = request.param

    async def put(_store, key, _data):
        raise kind(f"{key} cannot be stored")

    monkeypatch.setattr(NotedStore, "put", put)
    return said


def said(answer: httpx.Response) -> list[object]:
    return [answer.status_code, answer.json()["code"]]


@pytest.mark.parametrize("route", list(ROUTES))
async def test_what_is_sent_into_a_base_is_refused_with_the_reason(operator, base, lack, route):
    answer = await operator.post(f"/api/v1/knowledge-bases/{await base()}/{route}", **ROUTES[route])
    assert said(answer) == lack


async def test_a_file_of_a_session_is_refused_with_the_reason(operator, lack):
    answer = await operator.post("/api/v1/sessions/s/attachments", params={"tenant_id": 1}, **FILE)
    assert said(answer) == lack
