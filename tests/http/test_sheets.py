"""The data tables of documents: described in numbers and words, found by what they hold."""

import pytest
from consumers.knowledge.bases.knowledge_bases import ensure_base

from tests.support.documents import xlsx
from tests.support.waiting import wait_until

ORDERS = [["Order", "Date", "Amount", "City"]] + [
    [f"A-{n}", f"2024-01-{n:02}", str(n * 10), "Oslo" if n % 2 else "Bergen"] for n in range(1, 21)
]


@pytest.fixture
async def base(services):
    async with services.outbox.transaction() as sql:
        return f"/api/v1/knowledge-bases/{(await ensure_base(sql, 1, 'numbers')).id}"


@pytest.mark.usefixtures("working")
@pytest.mark.parametrize("name", ["orders.csv", "orders.xlsx"])
async def test_the_tables_of_a_document_are_described_and_found(operator, base, name):
    data = xlsx(ORDERS) if name.endswith("xlsx") else "\n".join(map(",".join, ORDERS)).encode()
    sent = (await operator.post(f"{base}/knowledge", files={"file": (name, data)})).json()["knowledge"][0]

    async def described():
        return (await operator.get(f"/api/v1/knowledge/{sent['id']}/tables")).json()["tables"]

    (table,) = await wait_until(described, describe="the table is described", timeout=60)
    assert (table["rows"], table["method"]) == (20, "extractive")
    columns = {column["name"]: column for column in table["columns"]}
    assert {name: column["type"] for name, column in columns.items()} == {
        "Order": "text",
        "Date": "date",
        "Amount": "number",
        "City": "text",
    }
    assert (columns["Amount"]["min"], columns["Amount"]["max"], columns["Amount"]["mean"]) == (10, 200, 105)
    assert (columns["Date"]["min"], columns["Date"]["max"]) == ("2024-01-01", "2024-01-20")
    assert columns["City"]["examples"] == ["Bergen", "Oslo"]
    assert "has 20 rows and 4 columns" in table["description"]
    hits = (await operator.post(f"{base}/search", json={"query": "table with order amount by city"})).json()[
        "hits"
    ]
    assert any("has 20 rows" in hit["text"] for hit in hits)


async def test_a_document_of_nobody_has_no_tables(operator):
    assert (await operator.get("/api/v1/knowledge/none/tables")).status_code == 404
