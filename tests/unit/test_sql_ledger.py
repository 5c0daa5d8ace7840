"""Dead letters in SQL: one row a death, whatever the record looks like."""

import json

import pytest
from contracts.states import ArchiveReason
from pipeline.broker import DeadLetter
from pipeline.store import Database, SqlLedger, dead_letters
from pipeline.store.ledger import letter_row
from pipeline.store.tables import task_dead_letters
from sqlalchemy import select


def letter(number=1, data='{"tenant_id": 7}', opts="{}", **fields):
    record = {"id": "j", "type": "document:process", "data": data, "opts": opts, **fields}
    return DeadLetter(
        death_id=f"j:{number}",
        queue="default",
        job_id="j",
        record=record,
        reason=ArchiveReason.EXHAUSTED,
        error="because",
        died_at=1000 + number,
    )


@pytest.fixture
async def database(database_url):
    opened = Database.open(database_url)
    yield opened
    await opened.close()


async def test_a_death_told_twice_is_one_row_and_a_second_death_another(database):
    ledger = SqlLedger(database)
    await ledger.record_deaths([letter(1), letter(1)])
    await ledger.record_deaths([letter(1), letter(2)])
    await ledger.record_deaths([])
    async with database.read() as session:
        rows = (await session.execute(select(task_dead_letters).order_by(task_dead_letters.c.id))).all()
    assert [(row.death_id, row.failed_at) for row in rows] == [("j:1", 1001), ("j:2", 1002)]
    assert (rows[0].task_type, rows[0].reason, rows[0].last_error) == (
        "document:process",
        "exhausted",
        "because",
    )


@pytest.mark.parametrize(
    ("payload", "scope", "scope_id", "related", "tenant"),
    [
        (
            {"tenant_id": 7, "knowledge_base_id": "kb", "knowledge_id": "k"},
            "knowledge_base",
            "kb",
            "k",
            7,
        ),
        ({"tenant_id": 7, "kb_id": "kb"}, "knowledge_base", "kb", "", 7),
        ({"tenant_id": 7, "source_kb_id": "kb", "target_kb_id": "other"}, "knowledge_base", "kb", "", 7),
        ({"tenant_id": 7, "knowledge_id": "k"}, "knowledge", "k", "k", 7),
        ({"tenant_id": 7, "knowledge_ids": ["k"]}, "tenant", "7", "", 7),
        ({"source_id": "a", "target_id": "b"}, "unknown", "", "", 0),
        ({"tenant_id": "seven", "knowledge_base_id": 5}, "unknown", "", "", 0),
        ({"tenant_id": 2**70}, "unknown", "", "", 0),
        ({"tenant_id": True}, "unknown", "", "", 0),
    ],
)
def test_a_death_belongs_to_the_first_scope_its_payload_names(payload, scope, scope_id, related, tenant):
    row = letter_row(letter(data=json.dumps(payload)))
    assert (row["scope"], row["scope_id"], row["related_id"], row["tenant_id"]) == (
        scope,
        scope_id,
        related,
        tenant,
    )


@pytest.mark.parametrize("data", ["", "not json", "[1, 2]", "[" * 100_000, "null"])
async def test_poison_is_recorded_as_it_was(database, data):
    await SqlLedger(database).record_deaths([letter(data=data, opts="{broken")])
    async with database.read() as session:
        row = (await session.execute(select(task_dead_letters))).one()
    assert row.payload == (data or "{}")
    assert (row.scope, row.fail_count) == ("unknown", 1)


async def test_a_record_without_anything_is_recorded(database):
    bare = DeadLetter("j:1", "default", "j", {}, ArchiveReason.POISON, "field 'type' is missing", 5)
    await SqlLedger(database).record_deaths([bare])
    async with database.read() as session:
        assert (await session.execute(select(task_dead_letters.c.task_type))).scalar_one() == ""


def test_the_failed_attempts_are_counted_with_the_last_one():
    assert letter_row(letter(opts='{"retried": 3}'))["fail_count"] == 4


def test_an_error_is_cut_to_eight_kilobytes():
    long = DeadLetter("j:1", "default", "j", {}, ArchiveReason.EXHAUSTED, "ж" * 9000, 5)
    assert len(letter_row(long)["last_error"].encode()) <= 8192


async def test_what_no_database_can_hold_is_replaced_and_the_death_recorded(database):
    data = '{"knowledge_id": "a\x00b", "note": "\ud800"}'
    await SqlLedger(database).record_deaths([letter(data=data, type="t\x00")])
    async with database.read() as session:
        (row,) = (await session.execute(select(task_dead_letters))).all()
    assert (row.payload, row.task_type) == ('{"knowledge_id": "a\ufffdb", "note": "?"}', "t\ufffd")


async def test_deaths_that_are_old_are_pruned_a_batch_at_a_time(database, monkeypatch):
    monkeypatch.setattr(dead_letters, "BATCH", 2)
    await SqlLedger(database).record_deaths([letter(n) for n in range(1, 5)])
    counts = []
    for _ in range(3):
        async with database.transaction() as session:
            counts.append(await dead_letters.prune(session, 1004))
    assert counts == [2, 1, 0]
