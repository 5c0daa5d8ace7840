"""The wiki of a base: written in batches that settle whole or not at all, whatever happens to those who write it."""

import asyncio
from dataclasses import replace

import pytest
from consumers.handlers.wiki import ACTIVE_TTL_S, pages_lost
from consumers.knowledge.answers.asking import look
from consumers.knowledge.bases.knowledge_bases import change_settings
from consumers.knowledge.bases.tenants import delete_tenant
from consumers.knowledge.bases.wiki_lane import MAX_FAILS, ask_for_all, ingest_lane
from consumers.knowledge.documents.again import another_chance
from consumers.knowledge.documents.documents import cancel, fail, register
from consumers.knowledge.documents.lifecycle import delete
from consumers.knowledge.documents.removal import remove
from consumers.knowledge.wiki.batch import Batch
from consumers.knowledge.wiki.mapping import map_document
from consumers.knowledge.wiki.reading import read_part
from contracts.identity import derive_id
from contracts.knowledge import ParseStatus
from contracts.outcomes import Retry
from contracts.payloads.wiki import WikiIngest
from contracts.states import ArchiveReason, JobState
from pipeline import DeadLetter
from pipeline.errors import StoreUnavailable
from pipeline.store import now_ms, pending_ops

from tests.support.backends import BACKENDS
from tests.support.databases import POSTGRES, migrated
from tests.support.library import file
from tests.support.waiting import wait_until
from tests.support.wiki import HANDLERS, LEASE, POOL, QUEUE, TENANT, changed, open_wiki

WORLDS = [("lite", "sqlite"), ("redis", "sqlite"), ("redis", "postgres")]


@pytest.fixture(
    params=[pytest.param(one, marks=POSTGRES.marks if one[1] == "postgres" else ()) for one in WORLDS],
    ids="-".join,
)
async def world(request, tmp_path):
    queue, database = request.param
    if queue not in BACKENDS:
        pytest.skip("this run tests Sentinel or Cluster alone; the usual run has this one")
    backend = BACKENDS[queue](tmp_path)
    try:
        with migrated(database, tmp_path / "sql") as url:
            async with open_wiki(backend, url, tmp_path / "data") as opened:
                yield opened
    finally:
        await backend.close()


async def failed(session, world, again):
    return await fail(session, world.services.search, again.knowledge_id, again.attempt, "given up")


async def cancelled(session, _world, again):
    return await cancel(session, again.knowledge_id)


async def three(world):
    return [
        await world.write("pools", POOL, LEASE),
        await world.write("queues", QUEUE, POOL),
        await world.write("leases", LEASE, "Without a Job Lease nobody settles what the Core Pool has done."),
    ]


async def test_documents_get_pages_topics_an_index_and_complete(world):
    places = await three(world)
    async with world.working():
        await world.settled()
    pages = await world.pages()
    assert {"core-pool", "job-lease", "index"} < set(pages)
    assert pages["core-pool"].startswith(
        "# Core Pool\n\nThe Core Pool is a set of queues with its own slots.[^1]"
    )
    assert len([slug for slug in pages if slug.startswith(("pools-", "queues-", "leases-"))]) == 3
    assert "(wiki:core-pool)" in pages["job-lease"]
    assert "(wiki:core-pool)" in pages["index"]
    assert [await world.status(ident) for ident, _ in places] == [ParseStatus.COMPLETED] * 3
    assert await world.rows("SELECT path FROM wiki_folders ORDER BY path") == [("notes",), ("topics",)]


async def test_a_burst_makes_one_batch(world):
    await three(world)
    async with world.working():
        await world.settled()
    assert set((await world.versions()).values()) == {1}


async def test_run_twice_it_changes_nothing(world):
    await three(world)

    async def twice(run, job, ctx):
        await run(job, ctx)
        return await run(job, ctx)

    async with world.working([changed(one, twice) for one in HANDLERS]):
        await world.settled()
    once = await world.end()
    async with world.working():
        for job in (WikiIngest(tenant_id=TENANT, knowledge_base_id=world.kb.id),):
            await world.pipeline.wait((await world.pipeline.enqueue(job)).id, timeout=30)
        await world.settled()
    assert await world.end() == once
    assert set((await world.versions()).values()) == {1}


async def test_a_batch_whose_answer_was_lost_is_not_written_again(world):
    await three(world)

    async def lost(run, job, ctx):
        await run(job, ctx)
        if ctx.retried == 0:
            raise Retry(after=0, reason="the reply was lost")

    async with world.working([changed(one, lost) for one in HANDLERS]):
        await world.settled()
    assert set((await world.versions()).values()) == {1}


async def test_a_changed_document_takes_back_what_it_said(world):
    await three(world)
    async with world.working():
        await world.settled()
        await world.write(
            "leases",
            "The Night Permit is a right to enter. Every Night Permit names a door. The Night Permit ends at dawn.",
        )
        await world.settled()
    pages = await world.pages()
    assert "night-permit" in pages
    said = await world.rows("SELECT count(*) FROM wiki_page_sources WHERE slug = 'job-lease'")
    assert said == [(1,)]
    assert "leases.md" not in pages.get("job-lease", "")


async def test_a_deleted_document_is_taken_out_of_the_pages(world):
    places = await three(world)
    async with world.working():
        await world.settled()
        cut = await world.services.outbox.choose_cut()
        async with world.services.outbox.transaction() as session:
            await delete(session, TENANT, [places[2][0]], cut)
        await world.settled()
        assert not [slug for slug in await world.pages() if slug.startswith("leases-")]
        assert "Without a Job Lease" not in "".join((await world.pages()).values())
        async for _ in remove(
            world.services.database, world.services.search, world.services.files, places[2][0]
        ):
            pass
        await world.settled()
    assert "wiki:leases" not in "".join((await world.pages()).values())
    assert (
        await world.rows("SELECT slug FROM wiki_page_sources WHERE knowledge_id = :id", id=places[2][0]) == []
    )


@pytest.mark.parametrize("stop", [failed, cancelled], ids=["failed", "cancelled"])
async def test_what_a_stopped_attempt_would_have_renewed_is_taken_out_of_the_pages(world, stop):
    places = await three(world)
    async with world.working():
        await world.settled()
        async with world.services.outbox.transaction() as session:
            again = await register(session, world.kb, file("/notes/leases.md", "other content"))
        async with world.services.outbox.transaction() as session:
            assert await stop(session, world, again)
        await world.settled()
    pages = await world.pages()
    assert not [slug for slug in pages if slug.startswith("leases-")]
    assert places[2][0] == again.knowledge_id


async def test_a_folder_in_which_nothing_lies_any_more_goes(world):
    place = await world.write("pools", POOL)
    async with world.working():
        await world.settled()
        assert await world.rows("SELECT path FROM wiki_folders") == [("notes",)]
        async with world.services.outbox.transaction() as session:
            await delete(session, TENANT, [place[0]], await world.services.outbox.choose_cut())
        await world.settled()
    assert await world.rows("SELECT path FROM wiki_folders") == []
    assert await world.pages() == {}


async def test_a_base_or_tenant_that_is_gone_costs_nothing(world):
    await three(world)
    async with world.services.database.transaction() as session:
        await delete_tenant(session, TENANT)
    async with world.working():
        await world.settled()
    assert await world.pages() == {}


async def test_a_wiki_switched_off_frees_its_documents(world):
    places = await three(world)
    async with world.services.database.transaction() as session:
        await change_settings(session, world.kb, wiki=False)
    async with world.working():
        await world.settled()
    assert await world.pages() == {}
    assert [await world.status(ident) for ident, _ in places] == [ParseStatus.COMPLETED] * 3


async def test_a_document_deleted_after_its_wiki_was_switched_off_is_taken_out_of_the_pages(world):
    places = await three(world)
    async with world.working():
        await world.settled()
        async with world.services.database.transaction() as session:
            await change_settings(session, world.kb, wiki=False)
        cut = await world.services.outbox.choose_cut()
        async with world.services.outbox.transaction() as session:
            await delete(session, TENANT, [places[2][0]], cut)
        await world.settled()
    pages = await world.pages()
    assert "Without a Job Lease" not in "".join(pages.values())
    assert [slug for slug in pages if slug.startswith("pools-")]


async def test_no_former_version_of_a_page_says_what_a_deleted_document_said(world):
    places = await three(world)
    async with world.working():
        await world.settled()
        for number in range(2):  # so that there are former versions of its pages and of the index
            await world.write(f"more-{number}", POOL.replace("set", f"set {number}"), LEASE)
            await world.settled()
        was = await world.rows("SELECT version FROM wiki_page_versions WHERE written LIKE '%Without a Job%'")
        assert len(was) > 1
        cut = await world.services.outbox.choose_cut()
        async with world.services.outbox.transaction() as session:
            await delete(session, TENANT, [places[2][0]], cut)
        await world.settled()
    written = [text for (text,) in await world.rows("SELECT written FROM wiki_page_versions")]
    assert any("Core Pool" in text for text in written)
    assert not [text for text in written if "Without a Job" in text or "Leases" in text]


async def test_when_all_places_are_taken_a_batch_comes_again_in_fifteen_seconds_and_has_not_failed(world):
    await world.write("pools", POOL)
    async with world.services.database.transaction() as session:
        await change_settings(session, world.kb, wiki_limits={"ingest_max_inflight": 1})
    name = f"wiki:active:{world.kb.id}"
    assert await world.pipeline.broker.lock(name, "another", 60_000, 1)
    job = WikiIngest(tenant_id=TENANT, knowledge_base_id=world.kb.id)
    async with world.working():
        receipt = await world.pipeline.enqueue(job)
        record = await wait_until(
            lambda: _scheduled(world, receipt.id), describe="the refused batch waits for its turn"
        )
        assert 13_000 < record.due_at - now_ms() <= 15_000
        assert (record.job.retried, record.job.last_error) == (0, "")
        assert await world.pipeline.broker.unlock(name, "another")
        await world.settled()
    assert "pools-" in "".join(await world.pages())


async def _scheduled(world, job_id):
    record = await world.pipeline.inspector.job(job_id)
    return record if record.state is JobState.SCHEDULED and record.due_at - now_ms() > 10_000 else None


async def test_a_batch_that_is_cancelled_gives_its_documents_back_at_once(world, monkeypatch):
    await three(world)
    reading = asyncio.Event()

    async def hangs(*_args):
        reading.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr("consumers.knowledge.wiki.batch.map_document", hangs)
        async with world.working():
            await world.pipeline.enqueue(WikiIngest(tenant_id=TENANT, knowledge_base_id=world.kb.id))
            await reading.wait()
            assert await _claimed(world) == 3
    assert await _claimed(world) == 0
    async with world.working():
        await world.settled()
    assert set((await world.versions()).values()) == {1}


async def _claimed(world):
    return (await world.rows("SELECT count(*) FROM task_pending_ops WHERE claimed_by <> ''"))[0][0]


async def test_cleanup_happens_after_the_deadline_of_the_job(world, monkeypatch):
    await three(world)
    monkeypatch.setattr("consumers.knowledge.wiki.batch.map_document", lambda *_: asyncio.Event().wait())
    async with world.working():
        job = WikiIngest(tenant_id=TENANT, knowledge_base_id=world.kb.id)
        receipt = await world.pipeline.enqueue(job, timeout=0.5, max_retry=0)

        async def over():
            return (await world.pipeline.inspector.job(receipt.id)).state is JobState.ARCHIVED

        await wait_until(over, describe="its time is up")
        await wait_until(lambda: _nothing_claimed(world), describe="its documents are given back")


async def _nothing_claimed(world):
    return await _claimed(world) == 0


async def test_a_poisoned_document_fails_alone_and_is_given_up_after_five_failures(world, monkeypatch):
    monkeypatch.setattr("consumers.knowledge.wiki.batch.FAILED_S", 0.0)
    places = await three(world)
    poison = places[1][0]

    async def poisoned(database, embedder, due):
        if due.knowledge_id == poison:
            raise ValueError("poison")
        return await map_document(database, embedder, due)

    monkeypatch.setattr("consumers.knowledge.wiki.batch.map_document", poisoned)
    async with world.working():
        await world.settled()
    assert [await world.status(ident) for ident, _ in places] == [ParseStatus.COMPLETED] * 3
    letters = await world.rows(
        "SELECT task_type, scope, scope_id, related_id, last_error, fail_count FROM task_dead_letters"
    )
    error = "exceeded wikiMaxFailRetries=5 (in-batch retries)"
    assert letters == [("wiki:ingest", "knowledge_base", world.kb.id, poison, error, 6)]
    pages = await world.pages()
    assert [slug for slug in pages if slug.startswith("pools-")]
    assert not [slug for slug in pages if slug.startswith("queues-")]


async def test_a_document_that_was_given_up_is_written_about_when_its_death_is_replayed(world, monkeypatch):
    monkeypatch.setattr("consumers.knowledge.wiki.batch.FAILED_S", 0.0)
    await three(world)

    async def poisoned(_database, _embedder, due):
        raise ValueError("poison")

    with monkeypatch.context() as patch:
        patch.setattr("consumers.knowledge.wiki.batch.map_document", poisoned)
        async with world.working():
            await world.settled()
    assert await world.pages() == {}
    job = WikiIngest(tenant_id=TENANT, knowledge_base_id=world.kb.id)
    async with world.services.outbox.transaction() as session:
        assert (await another_chance(session, "died", job, 0)).afresh
    async with world.working():
        await world.settled()
    assert "core-pool" in await world.pages()
    async with world.services.outbox.transaction() as session:
        assert (await another_chance(session, "died", job, 0)).refusal


async def test_two_batches_never_touch_the_same_document(world, monkeypatch):
    async with world.services.database.transaction() as session:
        await change_settings(session, world.kb, wiki_limits={"ingest_batch_size": 1})
    places = [await world.write(f"note{number}", POOL, QUEUE, LEASE) for number in range(8)]
    inside: set[str] = set()
    full = asyncio.Event()

    async def watched(database, embedder, due):
        assert due.knowledge_id not in inside
        inside.add(due.knowledge_id)
        if len(inside) == 4:
            full.set()
        await asyncio.wait_for(full.wait(), 20)
        try:
            return await map_document(database, embedder, due)
        finally:
            inside.discard(due.knowledge_id)

    monkeypatch.setattr("consumers.knowledge.wiki.batch.map_document", watched)
    async with world.working():
        await world.settled()
    assert [await world.status(ident) for ident, _ in places] == [ParseStatus.COMPLETED] * 8
    pages = await world.pages()
    assert pages["core-pool"].count("[^") > 4


async def test_an_operation_that_is_taken_back_meanwhile_writes_nothing(world, monkeypatch):
    places = await three(world)

    async def overtaken(database, embedder, due):
        mapped = await map_document(database, embedder, due)
        if due.knowledge_id == places[2][0]:
            async with world.services.outbox.transaction() as session:
                ident, attempt = places[2]
                await fail(session, world.services.search, ident, attempt, "given up")
                await pending_ops.delete_key(session, ingest_lane(world.kb.id), places[2][0])
        return mapped

    monkeypatch.setattr("consumers.knowledge.wiki.batch.map_document", overtaken)
    async with world.working():
        await world.settled()
    pages = await world.pages()
    assert not [slug for slug in pages if slug.startswith("leases-")]
    assert [slug for slug in pages if slug.startswith("pools-")]
    assert (
        await world.rows("SELECT slug FROM wiki_page_sources WHERE knowledge_id = :id", id=places[2][0]) == []
    )


async def test_a_page_is_found_and_cited_with_what_it_is_made_from(world):
    await three(world)
    async with world.working():
        await world.settled()
    found = await look(world.services, world.kb.id, "Core Pool", limit=20)
    paths = [passage.path for passage in found.passages]
    assert "wiki core-pool, made from pools.md, queues.md, leases.md" in paths
    assert "/notes/pools.md" in paths


async def test_a_very_long_document_does_not_start_over(world, monkeypatch):
    texts = [f"The Part{number} Engine is a machine of its own. {POOL}" for number in range(150)]
    place = await world.write("book", *texts)
    read: list[int] = []
    stopped = asyncio.Event()

    def counted(part, first=0, language=None):
        if len(read) == 2 and not stopped.is_set():
            stopped.set()
            raise StoreUnavailable("as if the process had ended here")
        read.append(first)
        return read_part(part, first, language)

    monkeypatch.setattr("consumers.knowledge.wiki.mapping.read_part", counted)
    async with world.working():
        await world.settled()
    assert read == [0, 40, 80, 120]
    assert await world.status(place[0]) is ParseStatus.COMPLETED
    assert await world.rows("SELECT part FROM wiki_readings") == []


async def test_a_base_whose_batches_were_all_killed_moves_on_once_their_places_are_free(world, monkeypatch):
    monkeypatch.setattr("consumers.handlers.wiki.BUSY_S", 0.3)
    name = f"wiki:active:{world.kb.id}"
    for number in range(4):
        assert await world.pipeline.broker.lock(name, f"killed {number}", 1500, 4)
    await three(world)
    async with world.working():
        await world.settled(timeout=20)
    assert "core-pool" in await world.pages()
    assert ACTIVE_TTL_S + 15 <= 75


async def test_what_a_killed_batch_had_claimed_is_taken_by_its_next_delivery(world):
    places = await three(world)
    job = WikiIngest(tenant_id=TENANT, knowledge_base_id=world.kb.id)
    async with world.services.database.transaction() as session:
        await pending_ops.claim_batch(
            session, ingest_lane(world.kb.id), 5, owner=f"{derive_id('killed')}:1", stale_before=0
        )

    async def crashed(run, job, ctx):
        return await run(job, replace(ctx, job=replace(ctx.job, crashes=1)))

    async with world.working([changed(one, crashed) for one in HANDLERS]):
        await world.pipeline.enqueue(job, id="killed")
        await world.settled()
    assert [await world.status(ident) for ident, _ in places] == [ParseStatus.COMPLETED] * 3


async def test_a_document_that_kills_every_worker_that_reads_it_is_given_up(world, monkeypatch):
    monkeypatch.setattr("consumers.handlers.wiki.STALE_S", 0.0)
    places = await three(world)
    lane, job = ingest_lane(world.kb.id), WikiIngest(tenant_id=TENANT, knowledge_base_id=world.kb.id)
    for number in range(MAX_FAILS + 1):
        async with world.services.database.transaction() as session:
            owner = f"{derive_id(f'killed-{number}')}:1"
            ops = await pending_ops.claim_batch(session, lane, 5, owner=owner, stale_before=0)
            assert len(ops) == 3
        error = "lost its worker 4 times"
        letter = DeadLetter(
            f"killed-{number}:1", "wiki", f"killed-{number}", {}, ArchiveReason.WORKER_LOST, error, now_ms()
        )
        await pages_lost(job, letter, world.services)
    async with world.working():
        await world.settled()
    assert [await world.status(ident) for ident, _ in places] == [ParseStatus.COMPLETED] * 3
    assert await world.rows("SELECT count(*) FROM task_dead_letters") == [(3,)]
    assert await world.pages() == {}


async def test_who_lost_its_worker_works_on_one_document_at_a_time(world, monkeypatch):
    await three(world)
    sizes: list[int] = []

    async def counted(batch):
        sizes.append(len(batch.due))
        await work(batch)

    work = Batch.work
    monkeypatch.setattr(Batch, "work", counted)

    async def crashed(run, job, ctx):
        return await run(job, replace(ctx, job=replace(ctx.job, crashes=1)))

    async with world.working([changed(one, crashed) for one in HANDLERS]):
        await world.settled()
    assert sizes == [1, 1, 1]


async def test_a_hung_batch_does_not_keep_its_place(world, monkeypatch):
    await three(world)
    async with world.services.database.transaction() as session:
        await change_settings(session, world.kb, wiki_limits={"ingest_max_inflight": 1})
    hung = asyncio.Event()

    async def hangs(database, embedder, due):
        if not hung.is_set():
            hung.set()
            await asyncio.Event().wait()
        return await map_document(database, embedder, due)

    monkeypatch.setattr("consumers.knowledge.wiki.batch.map_document", hangs)
    async with world.working():
        job = WikiIngest(tenant_id=TENANT, knowledge_base_id=world.kb.id)
        await world.pipeline.enqueue(job, timeout=1, max_retry=0)
        await hung.wait()
        await world.settled(timeout=30)
    assert "core-pool" in await world.pages()


async def test_a_page_that_another_batch_holds_lets_its_documents_wait(world, monkeypatch):
    monkeypatch.setattr("consumers.knowledge.wiki.batch.SLUG_WAIT_S", 0.2)
    monkeypatch.setattr("consumers.knowledge.wiki.batch.FOLLOW_UP_S", 0.2)
    places = await three(world)
    name = f"wiki:slug:{world.kb.id}:{derive_id('job-lease')}"
    assert await world.pipeline.broker.lock(name, "another", 60_000, 1)
    async with world.working():
        await world.pipeline.enqueue(WikiIngest(tenant_id=TENANT, knowledge_base_id=world.kb.id))

        async def only_one_is_done():
            return [await world.status(ident) for ident, _ in places] == [
                ParseStatus.FINALIZING,
                ParseStatus.COMPLETED,
                ParseStatus.FINALIZING,
            ]

        await wait_until(only_one_is_done, describe="the documents that do not touch the page are done")
        assert await world.pipeline.broker.unlock(name, "another")
        await world.settled()
    assert await world.rows("SELECT sum(fail_count) FROM task_pending_ops") == [(None,)]
    assert [await world.status(ident) for ident, _ in places] == [ParseStatus.COMPLETED] * 3


async def test_what_failed_in_an_outage_counts_as_no_failure(world, monkeypatch):
    await three(world)
    away = [True, True]

    async def failing(database, embedder, due):
        if away:
            away.pop()
            raise StoreUnavailable("the database is away")
        return await map_document(database, embedder, due)

    monkeypatch.setattr("consumers.knowledge.wiki.batch.map_document", failing)
    async with world.working():
        await world.settled()
    assert await world.rows("SELECT id FROM task_dead_letters") == []
    assert "core-pool" in await world.pages()


async def test_documents_that_were_there_before_get_their_pages_when_the_wiki_is_switched_on(world):
    await three(world)
    async with world.services.database.transaction() as session:
        await change_settings(session, world.kb, wiki=False)
    async with world.working():
        await world.settled()
        async with world.services.outbox.transaction() as session:
            await change_settings(session, world.kb, wiki=True)
            assert await ask_for_all(session, world.kb) == 3
            assert await ask_for_all(session, world.kb) == 0
        await world.settled()
        async with world.services.outbox.transaction() as session:
            assert await ask_for_all(session, world.kb) == 0
    assert "core-pool" in await world.pages()
