"""Attached files whose jobs are lost have failed and say so; others are left alone."""

import pytest
from consumers.knowledge.answers import attachments
from consumers.knowledge.answers.attachments import Sent
from consumers.knowledge.documents.verdicts import Why
from consumers.knowledge.tables.attachments import Attachment
from contracts.attachments import AttachmentStatus
from pipeline.store import now_ms
from sqlalchemy import update

from tests.support.house import LONG_S, PLACES, open_house


@pytest.fixture(params=PLACES)
async def house(request, tmp_path):
    async with open_house(tmp_path, request.param) as opened:
        yield opened


async def attach(house, tmp_path, name="lease.txt"):
    """A file that is to be read since long."""
    path = tmp_path / name
    path.write_text("The rent is 12,400 crowns.")
    sent = Sent(tenant_id=7, session_id="s", name=name, path=path, kept_hours=24)
    ident = await attachments.attach(house.library.outbox, house.library.files, sent)
    await house.library.do(age)
    return ident


async def age(session):
    await session.execute(update(Attachment).values(updated_at=now_ms() - LONG_S * 1000))


async def file_of(house, ident):
    (row,) = await house.library.look(attachments.of_session, 7, "s")
    assert row.id == ident
    return row


async def lose(house, ident):
    await house.pipeline.inspector.cancel(attachments.reading_job(ident))


async def test_a_file_whose_job_was_cancelled_has_failed_and_says_what_to_do(house, tmp_path):
    ident = await attach(house, tmp_path)
    await lose(house, ident)
    dry = await house.sweep(dry=True)
    assert [(deed.document, deed.verdict) for deed in dry.deeds] == [(ident, "fail_attachment")]
    assert (await file_of(house, ident)).status is AttachmentStatus.UPLOADED
    await house.sweep()
    file = await file_of(house, ident)
    assert file.status is AttachmentStatus.FAILED
    assert file.error_message.startswith("its job was lost: no progress since")
    assert file.error_message.endswith("attach it again")
    assert (await house.sweep()).deeds == []


async def test_a_file_that_is_being_read_when_the_queue_forgets_everything_has_failed(house, tmp_path):
    ident = await attach(house, tmp_path)
    begun = await house.library.do(attachments.begin, ident)
    assert begun.status is AttachmentStatus.PROCESSING
    await house.lose_jobs()
    await house.library.do(age)
    await house.sweep()
    assert (await file_of(house, ident)).status is AttachmentStatus.FAILED


async def test_a_file_whose_job_waits_or_is_not_sent_yet_is_left_alone(house, tmp_path):
    ident = await attach(house, tmp_path)
    swept = await house.sweep()
    assert (swept.deeds, swept.deferred) == ([], {Why.QUEUED: 1})
    assert (await file_of(house, ident)).status is AttachmentStatus.UPLOADED


async def test_a_file_that_moved_since_it_was_seen_is_left_alone(house, tmp_path):
    ident = await attach(house, tmp_path)
    seen = (await file_of(house, ident)).updated_at
    await house.library.do(attachments.begin, ident)
    assert not await house.library.do(attachments.give_up, ident, seen, "lost")
    assert (await file_of(house, ident)).status is AttachmentStatus.PROCESSING
