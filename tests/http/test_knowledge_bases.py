"""Knowledge bases over HTTP: made, set up, shown to their tenant alone."""

import pytest
from pipeline.store.keys import Capability

from tests.http.conftest import BASES


async def test_a_base_is_made_listed_shown_and_renamed(operator, base):
    kb = await base("Zebras", question_count=5)
    await base("Apes")
    listed = (await operator.get(BASES, params={"tenant_id": 1})).json()["knowledge_bases"]
    assert [one["name"] for one in listed] == ["Apes", "Zebras"]
    shown = (await operator.get(f"{BASES}/{kb}")).json()
    assert (shown["settings"]["question_count"], shown["settings"]["wiki"]) == (5, False)
    assert (shown["documents"], shown["tags"]) == ({}, [])
    renamed = await operator.patch(f"{BASES}/{kb}", json={"name": "  Striped \n horses "})
    assert renamed.json()["name"] == "Striped horses"


async def test_a_name_is_taken_once_in_a_tenant(operator, base):
    kb = await base("a")
    await base("b")
    await base("a", tenant=2)
    again = await operator.post(BASES, params={"tenant_id": 1}, json={"name": "a"})
    assert (again.status_code, again.json()["code"]) == (409, "name_taken")
    renamed = await operator.patch(f"{BASES}/{kb}", json={"name": "b"})
    assert (renamed.status_code, renamed.json()["code"]) == (409, "name_taken")
    assert (await operator.patch(f"{BASES}/{kb}", json={"name": "a"})).status_code == 200


WRONG = {
    "read_picture": ("read_picture", True, "did you mean read_pictures?"),
    "a word for a number": ("question_count", "many", "question_count"),
    "too many": ("question_count", 11, "question_count"),
    "part": ("profile", {"enable": True}, "did you mean profile.enabled?"),
    "no part": ("profile", 7, "profile"),
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_settings_that_make_no_sense_are_refused_and_say_why(operator, base, wrong):
    name, value, said = WRONG[wrong]
    kb = await base("a")
    for answer in (
        await operator.patch(f"{BASES}/{kb}", json={"settings": {name: value}}),
        await operator.post(BASES, params={"tenant_id": 1}, json={"name": "b", "settings": {name: value}}),
    ):
        assert answer.status_code == 400
        assert said in answer.json()["error"]


async def test_a_part_of_the_settings_changes_and_the_rest_stays(operator, base):
    kb = await base("a", profile={"enabled": True, "custom_instructions": "Short."}, wiki=True)
    changed = {"settings": {"profile": {"enabled": False}, "models": {"chat": "small"}}}
    said = (await operator.patch(f"{BASES}/{kb}", json=changed)).json()["settings"]
    assert said["profile"] == {"enabled": False, "custom_instructions": "Short."}
    assert (said["models"]["chat"], said["wiki"]) == ("small", True)


async def test_the_tags_of_a_base_are_those_that_were_given_last(operator, base):
    kb = await base("a")
    for tags in (
        [{"name": "law"}, {"name": "tax", "description": "money"}],
        [{"name": "tax"}, {"name": "a b"}],
    ):
        said = (await operator.patch(f"{BASES}/{kb}", json={"tags": tags})).json()["tags"]
        assert {one["name"] for one in said} == {one["name"] for one in tags}


async def test_nobody_sees_or_changes_the_base_of_another_tenant(client, base, key):
    kb = await base("a", tenant=1)
    theirs = await key(*Capability, tenant=2)
    assert (await client.get(BASES, headers=theirs)).json() == {"knowledge_bases": []}
    for method, path, body in [
        ("GET", "", None),
        ("PATCH", "", {"name": "mine"}),
        ("POST", "/search", {"query": "a"}),
        ("POST", "/ask", {"question": "a"}),
    ]:
        answer = await client.request(method, f"{BASES}/{kb}{path}", json=body, headers=theirs)
        assert (answer.status_code, answer.json()["code"]) == (404, "knowledge_base_not_found")
    asked = await client.post(BASES, params={"tenant_id": 1}, json={"name": "b"}, headers=theirs)
    assert asked.status_code == 403


async def test_names_that_cannot_be_printed_are_refused(operator):
    for name in ("", " ", "a\0b", "\u202eb", "x" * 256):
        answer = await operator.post(BASES, params={"tenant_id": 1}, json={"name": name})
        assert answer.status_code == 422


async def test_what_is_done_to_a_base_is_written_down(operator, base, audited):
    kb = await base("a")
    await operator.patch(f"{BASES}/{kb}", json={"settings": {"wiki": True}})
    changed, created = await audited()
    assert (created.action, created.details) == ("knowledge.base_created", {"id": kb})
    assert (changed.action, changed.target_id) == ("knowledge.base_changed", kb)
