"""The dashboard as its visitors' browsers talk to it: who may see it, and what no form may do."""

import asyncio
import re
from contextlib import AsyncExitStack

import pytest
from consumers.knowledge.tables.knowledge import Knowledge
from contracts.jobs import Job
from contracts.outcomes import Skip
from contracts.payloads.agents import AgentRun
from contracts.states import JobState
from pipeline.broker import NewJob
from pipeline.errors import StoreUnavailable
from pipeline.store import SqlLedger, people
from pipeline.store.sqlite import READERS
from sqlalchemy import text, update

from tests.http.conftest import document
from tests.support.hand import Hand
from tests.support.standing import let_stand

PASSWORD = "correct horse"
PAGES = [
    "/",
    "/queues/agent",
    "/jobs/j",
    "/dead",
    "/workers",
    "/documents",
    "/wiki",
    "/wiki/b",
    "/wiki/b/index",
    "/audit",
    "/find?id=j",
]


@pytest.fixture(autouse=True)
async def ann(database, monkeypatch):
    monkeypatch.setattr(people, "COST", 2**4)
    async with database.transaction() as sql:
        await people.add(sql, "ann", people.hashed(PASSWORD))


async def enter(client, password=PASSWORD, back="/"):
    return await client.post("/sign-in", data={"name": "ann", "password": password, "back": back})


@pytest.fixture
async def token(client) -> str:
    """Sign in; return what a form of the session carries."""
    await enter(client)
    page = (await client.get("/")).text
    found = re.search(r'name="csrf_token" value="([^"]+)"', page)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("page", PAGES)
async def test_a_stranger_is_asked_who_it_is_and_comes_back_to_the_page(client, page):
    answer = await client.get(page)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/sign-in?back=/")
    assert "Sign in" in (await client.get(answer.headers["location"])).text


@pytest.mark.parametrize(
    "back", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:x", "/a\nb"]
)
async def test_nobody_is_led_to_another_site(client, back):
    assert (await enter(client, back=back)).headers["location"] == "/"
    assert (await client.get("/preferences", params={"lang": "ru", "back": back})).headers["location"] == "/"


async def test_a_wrong_password_is_refused_in_the_language_of_the_visitor(client):
    client.headers["accept-language"] = "ru"
    answer = await enter(client, "guess")
    assert answer.status_code == 401
    assert "Неверное имя или пароль." in answer.text
    assert 'value="ann"' in answer.text
    assert "guess" not in answer.text


@pytest.mark.parametrize(
    "path",
    ["/queues/agent/pause", "/queues/agent/jobs", "/jobs/j", "/dead", "/scopes/tenant/1/cancel", "/sign-out"],
)
async def test_a_form_without_the_token_of_the_session_changes_nothing(client, pipeline, token, path):
    answer = await client.post(
        path, data={"csrf_token": "guess", "action": "all:delete", "state": "archived"}
    )
    assert answer.status_code == 403
    assert "this form is from another session" in answer.text
    assert not any(stat.paused for stat in await pipeline.inspector.queues())
    assert (await client.get("/")).status_code == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/queues/nope", 404),
        ("/jobs/nope", 404),
        ("/documents/nope", 404),
        ("/queues/agent?cursor=made-up", 200),
        ("/queues/agent?state=nope", 200),
        ("/queues/agent?scope=x", 200),
        ("/queues/agent?tenant=x&type=%00", 200),
        ("/dead?cursor=x&reason=nope&tenant=99999999999999999999999", 400),
        ("/documents?status=nope&tenant=999999999999999999999999&cursor=.", 200),
        ("/documents?tenant=11111111111111111111x", 200),
        (f"/documents?tenant={'9' * 5000}", 200),
        ("/documents?tenant=99999999999999999999", 200),
        ("/documents/d?attempt=nope", 404),
        ("/documents/d?attempt=99999999999999999999", 404),
        ("/documents/d?attempt=-1", 404),
        ("/audit?cursor=99999999999999999999", 400),
        ("/find?id=%00%ff", 404),
        ("/static/x/nope.js", 404),
    ],
)
async def test_an_address_that_leads_nowhere_says_so_on_a_page(client, token, path, status):
    answer = await client.get(path)
    assert answer.status_code == status
    assert "text/html" in answer.headers["content-type"]


async def test_a_parse_that_no_document_had_is_no_page(client, token, register_one):
    document_id, _ = await register_one("a.txt")
    assert (await client.get(f"/documents/{document_id}?attempt=1")).status_code == 200
    assert (await client.get(f"/documents/{document_id}?attempt={2**63}")).status_code == 404


async def test_a_queue_that_is_slow_to_answer_keeps_nobody_from_the_database(
    client, token, pipeline, database, register_one, monkeypatch
):
    async def slow(_kind, _ids):
        async with AsyncExitStack() as all_of_them:
            for _ in range(READERS):
                await (await all_of_them.enter_async_context(database.read())).execute(text("SELECT 1"))
        return {}

    document_id, _ = await register_one("a.txt")
    async with database.transaction() as sql:
        await sql.execute(update(Knowledge).values(updated_at=1))
    monkeypatch.setattr(pipeline.inspector, "stall_state", slow)
    for page in ("/documents", f"/documents/{document_id}"):
        async with asyncio.timeout(10):
            assert (await client.get(page)).status_code == 200


async def test_a_form_that_holds_what_nobody_can_keep_is_refused(client, token):
    part = b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n\\ud800\r\n'
    sent = part % b"name" + part % b"password" + part % b"csrf_token" + b"--x--\r\n"
    coded = {"content-type": "multipart/form-data; boundary=x; charset=unicode_escape"}
    assert (await client.post("/sign-in", content=sent, headers=coded)).status_code == 400
    assert (await client.post("/queues/agent/pause", content=sent, headers=coded)).status_code == 403


@pytest.mark.parametrize("number", ["9" * 19, "9" * 5000])
async def test_a_form_that_names_a_letter_that_cannot_be_is_about_no_letter(client, token, number):
    form = {"csrf_token": token, "action": "delete", "id": number}
    answer = await client.post("/dead/confirm", data=form)
    assert answer.status_code == 200


@pytest.mark.parametrize("action", ["", "explode", "all:", "all:explode"])
async def test_an_action_that_does_not_exist_is_refused(client, token, action):
    form = {"csrf_token": token, "action": action, "state": "archived", "id": "1"}
    for path in ("/queues/agent/jobs", "/queues/agent/jobs/confirm", "/dead", "/dead/confirm"):
        assert (await client.post(path, data=form)).status_code == 400


async def test_a_filter_that_cannot_be_read_never_acts_on_all(client, pipeline, token):
    receipt = await pipeline.enqueue(document())
    form = {"csrf_token": token, "action": "all:cancel", "state": "pending", "tenant": "1", "scope": "x:1"}
    assert (await client.post("/queues/default/jobs", data=form)).status_code == 400
    assert (await pipeline.inspector.job(receipt.id)).state is JobState.PENDING


@pytest.mark.parametrize("scope", ["tenant:acme", "tenant:2", "session:1"])
async def test_a_filter_that_no_dead_letter_meets_is_about_none(client, token, die, scope):
    await die()
    form = {"csrf_token": token, "action": "all:delete", "scope": scope}
    answer = await client.post("/dead", data=form)
    assert "Nothing was changed" in (await client.get(answer.headers["location"])).text
    assert "no use" in (await client.get("/dead")).text


async def test_a_dead_job_names_the_document_that_it_worked_on(client, token, die, database):
    await let_stand(database, "k1", file_name="contract.pdf")
    await die()
    assert '<a class="small" href="/documents/k1">contract.pdf</a>' in (await client.get("/dead")).text


async def test_a_stranger_is_not_told_how_many_have_died(client, die):
    await die()
    answer = await client.get("/static/x/nope.js")
    assert (answer.status_code, 'class="count"' in answer.text) == (404, False)


async def test_a_bulk_action_goes_page_by_page_and_says_what_truly_happened(client, pipeline, token, audited):
    hand = Hand(pipeline.broker)
    for n in range(3):
        await pipeline.enqueue(run(n))
    for delivery in await hand.take(3, "agent"):
        await hand.settle(delivery, Skip("no"))
    form = {"csrf_token": token, "action": "all:delete", "state": "archived"}
    question = await client.post("/queues/agent/jobs/confirm", data=form)
    assert "Delete 3 jobs?" in question.text
    answer = await client.post("/queues/agent/jobs", data=form)
    assert "3 deleted" in (await client.get(answer.headers["location"])).text
    assert "3 deleted" not in (await client.get("/queues/agent")).text
    assert next((deed.action, deed.outcome) for deed in await audited()) == (
        "system.queue_tasks_deleted",
        "success",
    )


@pytest.mark.parametrize(("action", "said"), [("run_now", "1 put in its queue"), ("delete", "1 deleted")])
async def test_a_dead_job_that_is_run_or_deleted_elsewhere_is_no_dead_letter_any_more(
    client, token, die, action, said
):
    job_id = await die()
    assert job_id in (await client.get("/dead")).text
    answer = await client.post(f"/jobs/{job_id}", data={"csrf_token": token, "action": action})
    assert said in (await client.get(answer.headers["location"])).text
    assert "Nothing has died" in (await client.get("/dead")).text


async def test_two_who_act_at_once_learn_who_was_faster(client, pipeline, token):
    receipt = await pipeline.enqueue(document())
    form = {"csrf_token": token, "action": "delete"}
    answer = await client.post(f"/jobs/{receipt.id}", data=form)
    assert "left alone" in (await client.get(answer.headers["location"])).text


async def test_what_was_done_is_told_once_and_a_forged_telling_is_ignored(client, token):
    for forged in (
        "x",
        '{"deleted": "<b>"}',
        "[]",
        '{"nope": 1}',
        '{"n": {}}',
        '{"paused": {"a": 1}}',
        "[" * 20_000,
    ):
        client.cookies.set("streamlane_said", forged)
        answer = await client.get("/")
        assert answer.status_code == 200
        assert "<b>" not in answer.text


async def test_the_pages_keep_the_payload_to_themselves(client, pipeline, token):
    receipt = await pipeline.enqueue(document(file_name="secret-name.pdf"))
    page = (await client.get(f"/jobs/{receipt.id}")).text
    assert "k1" in page
    assert "secret-name" not in page


async def test_static_files_are_kept_for_ever_under_their_version_only(client, token):
    page = (await client.get("/")).text
    css = re.search(r'href="(/static/[^"]+\.css)"', page)
    assert css is not None
    assert "immutable" in (await client.get(css[1])).headers["cache-control"]
    assert (await client.get("/static/x/..%2ftexts.py")).status_code == 404
    other = await client.get("/static/old/dashboard.css")
    assert (other.status_code, other.headers["cache-control"]) == (200, "no-cache")


async def test_a_store_that_is_away_is_a_page_too(pipeline, client, token, monkeypatch):
    async def away():
        raise StoreUnavailable("away")

    monkeypatch.setattr(pipeline.inspector, "queues", away)
    answer = await client.get("/")
    assert answer.status_code == 503
    assert "The store does not answer" in answer.text
    assert (await client.get("/audit")).status_code == 200


def run(number: int) -> AgentRun:
    return AgentRun(tenant_id=1, agent_id="a", session_id=f"s{number}", message_id=f"m{number}")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/queues/agent?state=bogus", "There is no such state."),
        ("/dead?reason=bogus", "There is no such reason."),
        ("/documents?status=bogus", "There is no such state."),
        ("/dead?cursor=bogus", "Begin at the first page."),
        ("/audit?cursor=-1", "Begin at the first page."),
        ("/queues/nowhere", "There is no queue with this name"),
        ("/nowhere", "There is no such page"),
    ],
)
async def test_what_a_page_cannot_show_is_told_instead_of_shown_empty(client, token, die, path, said):
    await die()
    client.headers["accept"] = "text/html"
    assert said in (await client.get(path)).text


async def test_a_refusal_is_told_in_the_language_of_who_reads_it(client, token, pipeline, die, operator):
    job = await die()
    await operator.post(f"/api/v1/system/admin/runtime/queues/default/tasks/{job}/actions/cancel")
    assert "cannot be cancelled" in (await client.get("/audit")).text
    client.headers["accept-language"] = "ru"
    page = (await client.get("/audit")).text
    assert "этого не позволяют" in page
    assert "cannot be" not in page


async def test_who_asks_no_page_of_a_path_that_is_not_there_is_told_so_in_json(client):
    answer = await client.get("/nowhere", headers={"accept": "text/html"})
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_lists_are_narrowed_to_types_that_only_other_processes_know(client, token, pipeline, database):
    for job_id in ("a", "b"):
        strange = Job(id=job_id, type="boom:go", queue="agent", data="{}")
        await pipeline.broker.enqueue([NewJob(strange)])
    hand = Hand(pipeline.broker)
    await hand.settle(await hand.take_one("agent"), Skip("no"))
    await SqlLedger(database).record_deaths(await pipeline.broker.dead_letters(["agent"], 10))
    for path in ("/queues/agent", "/dead"):
        assert "<option>boom:go</option>" in (await client.get(path)).text


async def test_a_cancel_of_all_that_belongs_to_something_first_says_on_how_many(client, token, pipeline):
    for n in range(3):
        await pipeline.enqueue(AgentRun(tenant_id=7, agent_id="a", session_id="s", message_id=str(n)))
    asked = await client.post("/scopes/tenant/7/cancel/confirm", data={"csrf_token": token})
    assert "3 jobs are under way." in asked.text
    page = await client.get("/queues/agent", params={"scope": "tenant:7"})
    assert '<span class="soft small">All that belongs to tenant 7' in page.text


async def test_dead_jobs_that_nobody_recorded_are_not_hidden(client, token, pipeline, hand):
    await pipeline.enqueue(document())
    await hand.settle(await hand.take_one(), Skip("no"))
    page = (await client.get("/dead")).text
    assert "1 more job is dead and not recorded here" in page
    assert 'href="/queues/default?state=archived"' in page
    assert "Nothing has died" not in page
