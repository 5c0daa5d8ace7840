"""Keys: shown once, kept as a digest, opening what they are for and nothing else, until they are revoked."""

import pytest
from pipeline.store import keys
from pipeline.store.keys import Capability
from pipeline.store.tables import metadata
from sqlalchemy import select

from tests.support.commands import streamlane

QUEUES = "/api/v1/system/admin/runtime/queues"


async def test_nothing_opens_without_a_key(client):
    answer = await client.get(QUEUES)
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_key_is_sent_in_either_of_two_headers(client, key):
    headers = await key(Capability.SYSTEM_RUNTIME_READ)
    assert (await client.get(QUEUES, headers=headers)).status_code == 200
    bearer = {"Authorization": f"Bearer {headers['X-API-Key']}"}
    assert (await client.get(QUEUES, headers=bearer)).status_code == 200


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-1] + ("A" if text[-1] != "A" else "B"),
        lambda text: text[:-1],
        lambda text: text + "A",
        lambda text: text.replace("slk_", ""),
        lambda text: "slk_" + "0" * 12 + text[16:],
        lambda _: "slk__",
        lambda _: "нет".encode().decode("latin-1"),
    ],
)
async def test_a_key_that_is_not_quite_right_opens_nothing(client, key, change):
    text = (await key(*Capability))["X-API-Key"]
    answer = await client.get(QUEUES, headers={"X-API-Key": change(text).encode("latin-1")})
    assert answer.status_code == 401


async def test_a_revoked_key_opens_nothing_at_once(client, key, database):
    headers = await key(*Capability)
    async with database.transaction() as sql:
        assert await keys.revoke(sql, "test") == 1
        assert await keys.revoke(sql, "test") == 0
    assert (await client.get(QUEUES, headers=headers)).status_code == 401


async def test_the_secret_of_a_key_lies_nowhere(key, database):
    secret = (await key(*Capability))["X-API-Key"].split("_", 2)[2]
    async with database.read() as sql:
        rows = [row for table in metadata.sorted_tables for row in await sql.execute(select(table))]
    assert rows
    assert secret not in repr(rows)


def test_the_command_line_makes_lists_and_revokes_keys(tmp_path):
    made = streamlane(
        "keys", "create", "--name", "ci", "--capability", "system_runtime_read", "--tenant", "7", "--json",
        data_dir=tmp_path,
    )  # fmt: skip
    assert made.code == 0
    assert made.json["key"].startswith("slk_")
    assert made.json["tenant_id"] == 7
    listed = streamlane("keys", "list", "--json", data_dir=tmp_path)
    assert [one["name"] for one in listed.json["keys"]] == ["ci"]
    assert made.json["key"] not in listed.out
    assert streamlane("keys", "revoke", "ci", "--json", data_dir=tmp_path).json == {"revoked": 1}
    assert streamlane("keys", "revoke", "ci", data_dir=tmp_path).code == 1


def test_a_capability_that_is_not_there_is_refused_naming_the_nearest(tmp_path):
    said = streamlane(
        "keys", "create", "--name", "x", "--capability", "system_runtime_reed", data_dir=tmp_path
    )
    assert said.code == 2
    assert "did you mean system_runtime_read?" in said.err
