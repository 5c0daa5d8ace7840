"""The page of a document as its visitors act on it: each button asks first, and says what truly came of it."""

import re

import pytest
from contracts.fences import coverage
from contracts.jobs import Scope
from contracts.knowledge import ParseStatus
from contracts.states import JobState
from pipeline.store import Outbox
from pipeline.store.tables import outbox as rows
from sqlalchemy import update

from tests.http.test_dashboard import ann, token
from tests.http.test_knowledge import bring, outbox, stands

__all__ = ["ann", "bring", "outbox", "stands", "token"]


async def say(client, token, ident, verb, *, sure=True):
    """Press a button, and say yes unless it is only to be asked; return the page that follows."""
    path = f"/documents/{ident}/{verb}"
    form = {"csrf_token": token}
    asked = await client.post(f"{path}/confirm", data=form)
    if not sure:
        return asked
    done = await client.post(path, data=form)
    assert done.status_code == 303
    return await client.get(done.headers["location"])


def buttons(page):
    return re.findall(r'action="/documents/[^/]+/([a-z-]+)/confirm"', page.text)


async def test_the_page_offers_what_its_state_allows(client, token, bring):
    ident = await bring()
    assert buttons(await client.get(f"/documents/{ident}")) == ["cancel-parse", "reparse", "delete"]
    await say(client, token, ident, "cancel-parse")
    assert buttons(await client.get(f"/documents/{ident}")) == ["reparse", "delete"]
    await say(client, token, ident, "delete")
    assert buttons(await client.get(f"/documents/{ident}")) == ["delete"]


VERBS = {
    "cancel-parse": ("Stop the parse of a.txt?", "The parse was stopped.", ParseStatus.CANCELLED),
    "reparse": ("Parse a.txt again?", "The document is parsed again.", ParseStatus.PENDING),
    "delete": ("Delete a.txt?", "The document is being deleted.", ParseStatus.DELETING),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_a_button_asks_and_then_does_it(client, token, bring, stands, audited, verb):
    ident, (asked, said, status) = await bring(begin=True), VERBS[verb]
    assert asked in (await say(client, token, ident, verb, sure=False)).text
    assert (await stands(ident))[0] is ParseStatus.PROCESSING
    assert said in (await say(client, token, ident, verb)).text
    assert (await stands(ident))[0] is status
    assert (await audited())[0].actor_role == "system_admin"


async def test_what_its_state_does_not_allow_is_said(client, token, bring):
    ident = await bring()
    await say(client, token, ident, "delete")
    page = await say(client, token, ident, "reparse")
    assert "The state of the document does not allow this." in page.text


async def test_no_form_without_the_token_of_the_session_changes_a_document(client, token, bring, stands):
    ident = await bring()
    answer = await client.post(f"/documents/{ident}/delete", data={"csrf_token": "x"})
    assert answer.status_code == 403
    assert await stands(ident) == (ParseStatus.PENDING, 1)


async def test_a_document_that_is_not_there_is_a_page(client, token):
    for path in ("/documents/nobody/delete/confirm", "/documents/nobody/burn"):
        assert (await client.post(path, data={"csrf_token": token})).status_code == 404


async def test_the_buttons_speak_the_language_of_the_visitor(client, token, bring):
    ident = await bring()
    await client.get("/preferences", params={"lang": "ru"})
    page = await client.get(f"/documents/{ident}")
    assert "Остановить разбор" in page.text
    assert "Удалить документ a.txt?" in (await say(client, token, ident, "delete", sure=False)).text


async def test_what_waits_long_to_be_delivered_is_said_on_the_first_page(client, token, bring, database):
    assert "delivered" not in (await client.get("/")).text
    await bring()
    async with database.transaction() as sql:
        await Outbox.cancel(sql, Scope("knowledge", "k"), coverage("knowledge"), 1)
        await sql.execute(update(rows).values(created_at=rows.c.created_at - 90_000))
    page = (await client.get("/")).text
    assert "1 job or cancel is kept in the database and waits to be delivered" in page


async def test_a_stopped_parse_takes_its_jobs_along(client, token, bring, pipeline):
    ident = await bring()
    [job] = (await pipeline.inspector.tasks("default", JobState.PENDING)).records
    await say(client, token, ident, "cancel-parse")
    assert (await pipeline.inspector.job(job.job.id)).state is JobState.CANCELLED
