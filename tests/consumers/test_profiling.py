"""What a base is about: asked for once in a window, made of what its documents say, and not made anew of the same."""

import pytest
from consumers.knowledge.bases import profile_asking
from consumers.knowledge.bases.knowledge_bases import change_settings, ensure_base, fix_embedding
from consumers.knowledge.bases.profile_asking import ask_at_once, ask_for_profile
from consumers.knowledge.bases.settings import Profile
from consumers.knowledge.documents.enrichments import fail_summary
from consumers.knowledge.documents.lifecycle import delete
from consumers.knowledge.tables.knowledge import Knowledge
from consumers.knowledge.tables.profiles import ProfileStatus
from consumers.knowledge.upkeep import profiling
from consumers.knowledge.upkeep.carrying import move_document
from consumers.knowledge.upkeep.profiling import (
    ExtractiveWriter,
    Material,
    gather,
    profile_of,
    store,
    store_written,
)
from contracts.payloads.enrichment import KnowledgeBaseProfile
from pipeline.store import now_ms
from sqlalchemy import update

from tests.support.library import MODEL, open_library
from tests.support.library_work import work

WINDOW = 1_800_000_000_000


@pytest.fixture
async def library(tmp_path, database_url):
    async with open_library(tmp_path, database_url) as opened:
        await opened.do(change_settings, opened.kb, profile={"enabled": True})
        yield opened


@pytest.fixture
def clock(monkeypatch):
    """Let it be so many milliseconds into a window."""

    def set_(at):
        monkeypatch.setattr(profile_asking, "now_ms", lambda: WINDOW + at)

    set_(0)
    return set_


def profiles(library):
    return [job for job in library.queue.waiting.values() if isinstance(job, KnowledgeBaseProfile)]


async def test_a_burst_of_a_hundred_changes_within_a_window_is_one_job_and_the_next_window_another(
    library, clock
):
    for at in range(100):
        clock(at * 299)
        assert await library.do(ask_for_profile, library.kb.id)
    assert len(profiles(library)) == 1
    clock(30_000)
    await library.do(ask_for_profile, library.kb.id)
    assert len(profiles(library)) == 2


async def test_a_job_that_was_given_up_keeps_nobody_from_the_next_window(library, clock):
    await library.do(ask_for_profile, library.kb.id)
    library.queue.waiting.clear()  # archived: its id stays known
    await library.do(ask_for_profile, library.kb.id)
    assert profiles(library) == []
    clock(30_000)
    await library.do(ask_for_profile, library.kb.id)
    assert len(profiles(library)) == 1


async def test_a_base_that_does_not_want_one_is_asked_by_a_person_only(library, clock):
    await library.do(change_settings, library.kb, profile={"enabled": False})
    assert not await library.do(ask_for_profile, library.kb.id)
    assert not await library.do(ask_for_profile, "nowhere")
    await library.do(ask_at_once, library.kb)
    (job,) = profiles(library)
    assert job.force


async def test_a_summary_that_ends_a_delete_and_a_move_ask_for_one(library, clock):
    source = library.kb
    await library.do(fix_embedding, source.id, MODEL, 4)
    ident = (await library.register("/birds/ducks.txt", "ducks")).knowledge_id
    other = (await library.register("/birds/geese.txt", "geese")).knowledge_id
    await work(library)
    assert asked_of(library, clock, 30_000) == {source.id}
    assert await library.do(fail_summary, ident, 1)
    assert asked_of(library, clock, 60_000) == {source.id}
    target = await library.do(ensure_base, 7, "target", {"profile": {"enabled": True}})
    await library.do(move_document, library.index, ident, source, target)
    assert asked_of(library, clock, 90_000) == {source.id, target.id}
    await library.stop(delete, [other])
    assert asked_of(library, clock, 120_000) == {source.id}


def asked_of(library, clock, at):
    """The bases of which something asked for a profile since the last look, in a window of its own."""
    found = {job.knowledge_base_id for job in [*library.profiled, *profiles(library)]}
    library.profiled.clear()
    library.queue.waiting.clear()
    clock(at)
    return found


async def material(library):
    return await gather(library.database, library.kb, Profile(enabled=True))


async def test_the_hash_stands_for_what_a_profile_is_made_of(library):
    empty = await material(library)
    assert (empty.stats["document_count"], empty.gists) == (0, [])
    ident = (await library.register("/birds/ducks.txt", "ducks")).knowledge_id
    assert (await material(library)).hash == empty.hash, "it says nothing yet"

    async def say(session, **values):
        await session.execute(update(Knowledge).where(Knowledge.id == ident).values(**values))

    await library.do(say, parse_status="completed", summary="Ducks swim.")
    first = await material(library)
    assert first.hash != empty.hash
    assert (await material(library)).hash == first.hash
    await library.do(say, updated_at=now_ms() + 5)
    assert (await material(library)).hash == first.hash
    await library.do(say, summary="Ducks fly.")
    assert (await material(library)).hash != first.hash
    other = await gather(library.database, library.kb, Profile(enabled=True, custom_instructions="briefly"))
    assert other.hash != (await material(library)).hash


async def test_figures_are_counted_and_what_is_read_is_capped(library):
    for number in range(65):
        await library.register(f"/{number % 25}/{number}.txt", f"c{number}")

    async def say(session):
        values = {"parse_status": "completed", "summary": "Ducks swim in ponds. " * 40}
        await session.execute(update(Knowledge).values(**values))

    await library.do(say)
    found = await material(library)
    assert (found.stats["document_count"], found.stats["profiled_count"]) == (65, 65)
    assert found.stats["file_types"] == {"txt": 65}
    assert (len(found.stats["folders"]), len(found.titles), len(found.gists)) == (20, 60, 20)
    assert all(len(summary) <= 300 and summary.endswith(".") for _, summary in found.gists)
    assert found.stats["earliest_at"] <= found.stats["latest_at"]


class Near:
    """Vectors that tell nothing."""

    model, dimension = MODEL, 4

    async def embed(self, texts):
        import numpy as np

        return np.ones((len(texts), 4), np.float32) / 2


async def test_a_profile_is_made_of_the_documents_own_words():
    said = Material(
        gists=[("Ducks", "Ducks swim in the Great Pond. They sleep at the Great Pond, too."),
               ("Geese", "Geese fly over the Great Pond every autumn. Geese land on the Great Pond.")],
        titles=["Ducks", "Geese of the Great Pond"],
        questions=["Who sleeps?", "What is the Great Pond?", "who sleeps?", *[f"Why {n}?" for n in range(9)]],
    )  # fmt: skip
    written = await ExtractiveWriter(Near()).write(said, language="en", custom_instructions="")
    assert "Pond" in written.gist
    assert any("Great Pond" in topic for topic in written.topics)
    assert len(written.topics) <= 10
    assert written.questions[0] == "What is the Great Pond?"
    assert len(written.questions) == 5
    nothing = await ExtractiveWriter(Near()).write(
        Material(titles=["Ducks"]), language=None, custom_instructions=""
    )
    assert "Ducks" in nothing.gist


async def test_what_was_said_before_is_kept_when_it_cannot_be_said_anew(library):
    made = Material(hash="h", stats={"document_count": 1})
    written = profiling.Written(gist="Ducks.", topics=["ducks"], raw_topics=["ducks"], questions=["Who?"])
    await library.do(store_written, library.kb.id, made, written, "extractive")
    await library.do(store, library.kb.id, status=ProfileStatus.FAILED, error="no")
    found = await library.look(profile_of, library.kb.id)
    assert (found.status, found.error, found.gist, found.topics) == ("failed", "no", "Ducks.", ["ducks"])
    assert found.stats == {"document_count": 1, "raw_topics": ["ducks"]}
