"""Questions with ready answers over HTTP: imported, kept, searched; each import ends, and its bad rows are named."""

import asyncio

import pytest
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.faq import storing as entries
from consumers.knowledge.long_work import tasks
from pipeline.store.keys import Capability

from tests.support.documents import xlsx
from tests.support.waiting import wait_until

PROGRESS = "/api/v1/faq/import/progress"
RESET = {"question": "How do I reset my password?", "answers": ["Use the link on the sign-in page."]}
REFUND = {
    "question": "Как вернуть товар?",
    "answers": ["Верните его в течение 14 дней."],
    "similar_questions": ["Можно ли получить деньги обратно?"],
}


@pytest.fixture
async def base(services):
    async with services.outbox.transaction() as sql:
        return (await ensure_base(sql, 1, "help")).id


@pytest.fixture
def faq(base):
    return f"/api/v1/knowledge-bases/{base}/faq"


async def run(operator, faq, at_work, **wanted):
    """Import, and return what came of it."""
    answer = await operator.post(f"{faq}/import", json=wanted)
    assert answer.status_code == 202, answer.text
    task_id = answer.json()["task_id"]
    async with at_work("maintenance"):
        return await ended(operator, task_id)


async def ended(operator, task_id):
    async def over():
        said = (await operator.get(f"{PROGRESS}/{task_id}")).json()
        return said if said["status"] not in {"pending", "processing"} else None

    return await wait_until(over, describe="the import has ended", timeout=60)


async def questions(operator, faq):
    return {one["question"] for one in (await operator.get(f"{faq}/entries")).json()["entries"]}


async def found(operator, faq, query):
    matches = (await operator.post(f"{faq}/search", json={"query": query})).json()["matches"]
    return [one["entry"]["question"] for one in matches]


async def test_what_is_imported_is_found_in_other_words_and_in_another_language(operator, faq, at_work):
    said = await run(operator, faq, at_work, entries=[RESET, REFUND])
    assert (said["status"], said["progress"], said["added_count"]) == ("completed", 100, 2)
    assert (await found(operator, faq, "I forgot my password"))[0] == RESET["question"]
    assert (await found(operator, faq, "получить деньги обратно"))[0] == REFUND["question"]
    assert (await found(operator, faq, "how can I return a product"))[0] == REFUND["question"]


async def test_bad_rows_are_named_and_the_rest_is_taken(operator, faq, at_work):
    said = await run(operator, faq, at_work, entries=[RESET, {"question": "Why?"}, {**RESET}])
    assert (said["status"], said["success_count"], said["failed_count"]) == ("completed", 1, 2)
    assert [one["reason"] for one in said["failed_entries"]] == ["it has no answer", "row 1 asks the same"]
    listed = await operator.get(said["failed_entries_url"])
    assert listed.headers["content-type"].startswith("text/csv")
    assert "it has no answer" in listed.text


async def test_a_dry_run_keeps_nothing(operator, faq, at_work):
    said = await run(operator, faq, at_work, entries=[RESET, {"question": "Why?"}], dry_run=True)
    assert (said["status"], said["added_count"], said["failed_count"]) == ("completed", 1, 1)
    assert await questions(operator, faq) == set()


async def test_appending_merges_what_is_there_and_replacing_removes_what_is_not(operator, faq, at_work):
    await run(operator, faq, at_work, entries=[RESET, REFUND])
    again = {**RESET, "question": "HOW do I reset my password?", "similar_questions": ["Forgot it"]}
    said = await run(operator, faq, at_work, entries=[again])
    assert (said["added_count"], said["merged_count"]) == (0, 1)
    entries = (await operator.get(f"{faq}/entries", params={"contains": "PASSWORD"})).json()["entries"]
    assert [one["similar_questions"] for one in entries] == [["Forgot it"]]
    said = await run(operator, faq, at_work, entries=[REFUND], mode="replace")
    assert (said["removed_count"], await questions(operator, faq)) == (1, {REFUND["question"]})
    assert RESET["question"] not in await found(operator, faq, "reset my password")


async def test_a_big_import_goes_by_reference_and_one_runs_at_a_time(operator, services, faq, at_work):
    many = [{"question": f"What is number {n}?", "answers": [f"It is {n}."]} for n in range(250)]
    first = (await operator.post(f"{faq}/import", json={"entries": many, "task_id": "big"})).json()
    assert first == {"task_id": "big", "duplicate": False, "delivery": "done"}
    twice = (await operator.post(f"{faq}/import", json={"entries": many, "task_id": "big"})).json()
    assert twice["duplicate"]
    other = await operator.post(f"{faq}/import", json={"entries": many, "task_id": "other"})
    assert (other.status_code, other.json()["code"]) == (400, "import_running")
    assert await services.files.delete(tasks.folder("other")) == 0  # nothing of it is left
    async with at_work("maintenance"):
        said = await ended(operator, "big")
    assert (said["status"], said["added_count"], said["total"]) == ("completed", 250, 250)
    again = await run(operator, faq, at_work, entries=[RESET], task_id="big")
    assert (again["status"], again["added_count"]) == ("completed", 1)


async def test_an_import_of_nothing_that_can_be_taken_fails(operator, faq, at_work):
    said = await run(operator, faq, at_work, entries=[{"question": "Why?"}])
    assert (said["status"], said["error"]) == ("failed", "no row could be taken")


async def test_a_cancelled_import_keeps_what_was_written_and_frees_the_base(operator, faq, at_work):
    await operator.post(f"{faq}/import", json={"entries": [RESET], "task_id": "t"})
    stopped = (await operator.post("/api/v1/tasks/t/cancel")).json()
    assert stopped["effect"] == "done"
    assert (await run(operator, faq, at_work, entries=[REFUND]))["status"] == "completed"
    assert await questions(operator, faq) == {REFUND["question"]}


async def test_an_entry_is_added_changed_and_deleted(operator, faq):
    made = (await operator.post(f"{faq}/entries", json=RESET)).json()
    assert (await found(operator, faq, "reset password"))[0] == RESET["question"]
    assert (await operator.post(f"{faq}/entries", json=RESET)).json()["code"] == "faq_entry_exists"
    url = f"{faq}/entries/{made['id']}"
    off = (await operator.put(url, json={**RESET, "enabled": False})).json()
    assert (off["id"], off["enabled"]) == (made["id"], False)
    assert await found(operator, faq, "reset password") == []
    moved = (await operator.put(url, json=REFUND)).json()
    assert moved["id"] != made["id"]
    assert (await operator.get(url)).status_code == 404
    answer = (await operator.post(f"{faq}/entries/delete", json={"ids": [moved["id"], "no"]})).json()
    assert answer == {"deleted": 1}
    assert await questions(operator, faq) == set()


async def test_entries_are_looked_for_in_any_case_of_any_alphabet(operator, faq):
    for entry in (RESET, REFUND):
        await operator.post(f"{faq}/entries", json=entry)
    for contains, question in (("KAK", None), ("кАК вЕРНУТЬ", REFUND), ("PASSword", RESET)):
        said = (await operator.get(f"{faq}/entries", params={"contains": contains})).json()["entries"]
        assert [one["question"] for one in said] == ([question["question"]] if question else [])


async def test_of_two_who_write_the_same_question_one_is_told_that_it_is_there(operator, faq):
    other = {"question": "Why?", "answers": ["Because."]}
    made = (await operator.post(f"{faq}/entries", json=other)).json()
    writing = [
        operator.post(f"{faq}/entries", json=RESET),
        operator.post(f"{faq}/entries", json={**RESET, "answers": ["No."]}),
        operator.put(f"{faq}/entries/{made['id']}", json={**RESET, "answers": ["Never."]}),
    ]
    answers = await asyncio.gather(*writing)
    assert sorted(answer.is_success for answer in answers) == [False, False, True]
    assert {answer.json().get("code") for answer in answers} == {None, "faq_entry_exists"}


async def test_an_entry_that_is_written_anew_is_as_old_as_before(operator, faq):
    made = (await operator.post(f"{faq}/entries", json=RESET)).json()
    url = f"{faq}/entries/{made['id']}"
    again = (await operator.put(url, json={**RESET, "answers": ["Call us."]})).json()
    assert again["created_at"] == made["created_at"] < again["updated_at"]


async def test_what_a_person_writes_while_an_import_merges_is_not_lost(operator, faq, at_work, monkeypatch):
    made = (await operator.post(f"{faq}/entries", json=RESET)).json()
    embed = entries.embed_forms

    async def and_a_person_writes(*given):
        monkeypatch.setattr(entries, "embed_forms", embed)
        by_hand = {**RESET, "similar_questions": ["Locked out"]}
        assert (await operator.put(f"{faq}/entries/{made['id']}", json=by_hand)).is_success
        return await embed(*given)

    monkeypatch.setattr(entries, "embed_forms", and_a_person_writes)
    said = await run(operator, faq, at_work, entries=[{**RESET, "similar_questions": ["Forgot it"]}])
    assert (said["status"], said["merged_count"]) == ("completed", 1)
    one = (await operator.get(f"{faq}/entries/{made['id']}")).json()
    assert one["similar_questions"] == ["Locked out", "Forgot it"]


async def test_a_question_that_an_entry_does_not_answer_does_not_find_it(operator, faq):
    await operator.post(f"{faq}/entries", json={**RESET, "negative_questions": ["How do I reset my router?"]})
    assert await found(operator, faq, "How do I reset my password?")
    assert await found(operator, faq, "how do I reset my router?") == []


async def test_an_entry_that_says_nothing_is_refused(operator, faq):
    answer = await operator.post(f"{faq}/entries", json={"question": "Why?", "answers": [" "]})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_entry")


async def test_the_questions_of_another_tenant_are_not_there(client, key, services, faq, base):
    client.headers.update(await key(*Capability, tenant=2))
    for answer in (
        await client.get(f"{faq}/entries"),
        await client.post(f"{faq}/entries", json=RESET),
        await client.post(f"{faq}/import", json={"entries": [RESET]}),
        await client.post(f"{faq}/search", json={"query": "why"}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "knowledge_base_not_found")


@pytest.mark.parametrize("name", ["faq.csv", "faq.xlsx"])
async def test_a_file_is_imported(operator, faq, at_work, name):
    lines = [["question", "answers"], ["How do I reset my password?", "Use the link."], ["Why?", ""]]
    data = xlsx(lines) if name.endswith("xlsx") else "\n".join(map(",".join, lines)).encode()
    answer = await operator.post(f"{faq}/import/file", files={"file": (name, data)}, params={"task_id": "f"})
    assert answer.status_code == 202, answer.text
    async with at_work("maintenance"):
        said = await ended(operator, "f")
    assert (said["status"], said["success_count"], said["failed_count"]) == ("completed", 1, 1)
    assert await questions(operator, faq) == {RESET["question"]}


async def test_a_file_that_is_no_table_of_questions_fails_and_says_why(operator, faq, at_work):
    answer = await operator.post(f"{faq}/import/file", files={"file": ("a.csv", b"name,age\nA,1\n")})
    async with at_work("maintenance"):
        said = await ended(operator, answer.json()["task_id"])
    assert said["status"] == "failed"
    assert "must name the columns" in said["error"]


async def test_a_copy_of_a_base_has_its_ready_answers_and_no_others(operator, services, faq, base, at_work):
    await run(operator, faq, at_work, entries=[RESET, REFUND])
    async with services.outbox.transaction() as sql:
        other = (await ensure_base(sql, 1, "copy")).id
    there = f"/api/v1/knowledge-bases/{other}/faq"
    await operator.post(f"{there}/entries", json={"question": "Why?", "answers": ["No."]})
    copied = await operator.post("/api/v1/knowledge-bases/copy", json={"source_id": base, "target_id": other})
    assert copied.is_success, copied.text

    async def ended():
        return (await operator.get(f"/api/v1/tasks/{copied.json()['task_id']}")).json()[
            "status"
        ] == "completed"

    async with at_work("maintenance"):
        await wait_until(ended, describe="the base is copied", timeout=60)
    assert await questions(operator, there) == {RESET["question"], REFUND["question"]}
    assert (await found(operator, there, "I forgot my password"))[0] == RESET["question"]
