"""Signing in: a name and a password for a cookie, never for a guess, and no change without the session's token."""

import asyncio

import pytest
from pipeline.clock import now_ms
from pipeline.http.sign_in import FROM_ONE, OF_ONE_FROM_ONE
from pipeline.store import people
from pipeline.store.tables_people import admin_sessions, sign_in_failures
from sqlalchemy import update

SESSION = "/api/v1/system/admin/session"
QUEUES = "/api/v1/system/admin/runtime/queues"
PASSWORD = "correct horse"


@pytest.fixture(autouse=True)
async def ann(database, monkeypatch):
    monkeypatch.setattr(people, "COST", 2**4)  # a guess costs nothing here
    async with database.transaction() as sql:
        await people.add(sql, "ann", people.hashed(PASSWORD))


async def sign_in(client, password=PASSWORD, name="ann", **headers):
    return await client.post(SESSION, json={"name": name, "password": password}, headers=headers)


async def test_who_signs_in_sees_and_with_the_token_changes(client):
    answer = await sign_in(client)
    cookie = answer.headers["set-cookie"]
    assert all(said in cookie for said in ("HttpOnly", "SameSite=strict", "Path=/"))
    assert "Secure" not in cookie
    assert (await client.get(QUEUES)).status_code == 200
    without = await client.post(f"{QUEUES}/default/pause")
    assert (without.status_code, without.json()["code"]) == (403, "csrf")
    token = {"X-CSRF-Token": answer.json()["csrf_token"]}
    assert (await client.post(f"{QUEUES}/default/pause", headers=token)).status_code == 200
    form = await client.post(
        f"{QUEUES}/default/resume", data={"csrf_token": answer.json()["csrf_token"], "other": "x"}
    )
    assert form.status_code == 200
    wrong = await client.post(f"{QUEUES}/default/pause", headers={"X-CSRF-Token": "x"})
    assert wrong.status_code == 403


async def test_behind_tls_the_cookie_stays_there(client):
    client.base_url = "https://streamlane.test"
    assert "Secure" in (await sign_in(client)).headers["set-cookie"]


async def test_who_signs_out_is_out_wherever_the_cookie_went(client):
    answer = await sign_in(client)
    cookie = dict(client.cookies)
    out = await client.delete(SESSION, headers={"X-CSRF-Token": answer.json()["csrf_token"]})
    assert out.json() == {"success": True}
    client.cookies.update(cookie)
    assert (await client.get(QUEUES)).status_code == 401


async def test_a_session_ends_with_its_time(client, database):
    await sign_in(client)
    async with database.transaction() as sql:
        await sql.execute(update(admin_sessions).values(expires_at=now_ms()))
    assert (await client.get(QUEUES)).status_code == 401


async def test_a_new_password_ends_every_session(client, database):
    await sign_in(client)
    async with database.transaction() as sql:
        await people.add(sql, "ann", people.hashed("another horse"))
    assert (await client.get(QUEUES)).status_code == 401
    assert (await sign_in(client)).status_code == 401


@pytest.mark.parametrize(("name", "password"), [("ann", "wrong horse"), ("bob", PASSWORD), ("Ann", PASSWORD)])
async def test_a_wrong_name_and_a_wrong_password_are_refused_alike(client, audited, name, password):
    answer = await sign_in(client, password, name)
    assert (answer.status_code, answer.json()) == (401, {"error": "wrong name or password", "code": "wrong"})
    (deed,) = await audited()
    assert (deed.action, deed.outcome, deed.target_id) == ("system.admin_signed_in", "denied", name)
    assert password not in str(deed)


async def test_after_some_guesses_no_more_are_taken_for_a_while(client, database, audited):
    for _ in range(OF_ONE_FROM_ONE):
        assert (await sign_in(client, "wrong horse")).status_code == 401
    refused = await sign_in(client)
    assert (refused.status_code, refused.json()["code"]) == (429, "too_many")
    assert refused.headers["retry-after"] == "900"
    assert len(await audited()) == OF_ONE_FROM_ONE
    async with database.transaction() as sql:
        await sql.execute(update(sign_in_failures).values(since=now_ms() - people.WINDOW_MS))
    assert (await sign_in(client)).status_code == 200


async def test_guesses_made_at_once_are_counted_all_the_same(client):
    answers = await asyncio.gather(*(sign_in(client, f"wrong {n}") for n in range(OF_ONE_FROM_ONE + 5)))
    assert sorted(answer.status_code for answer in answers) == [401] * OF_ONE_FROM_ONE + [429] * 5


async def test_an_address_that_tries_many_names_is_stopped_too(client):
    for number in range(FROM_ONE):
        await sign_in(client, name=f"n{number}")
    assert (await sign_in(client, name="another")).status_code == 429


async def test_another_site_cannot_sign_somebody_in(client):
    answer = await sign_in(client, **{"Sec-Fetch-Site": "cross-site"})
    assert (answer.status_code, answer.json()["code"]) == (403, "csrf")


async def test_signing_in_and_out_is_written_down(client, audited):
    answer = await sign_in(client)
    await client.delete(SESSION, headers={"X-CSRF-Token": answer.json()["csrf_token"]})
    deeds = await audited()
    assert [(deed.action, deed.outcome) for deed in deeds] == [
        ("system.admin_signed_out", "success"),
        ("system.admin_signed_in", "success"),
    ]
    assert {deed.actor_role for deed in deeds} == {"system_admin"}
