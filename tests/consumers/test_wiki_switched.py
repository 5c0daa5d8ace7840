"""The wiki of a base is switched on while its documents are under way."""

from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from consumers.handlers import postprocess
from consumers.knowledge.bases.wiki_lane import ingest_lane, switch
from consumers.knowledge.documents.contents import chunks_of, store_parsed
from consumers.knowledge.documents.documents import begin_processing
from contracts.payloads.documents import KnowledgePostProcess
from pipeline.store.pending_ops import peek

from tests.support.library import open_library, parsed


@pytest.fixture
async def library(tmp_path, database_url):
    async with open_library(tmp_path, database_url) as opened:
        yield opened


@pytest.mark.parametrize("on", [True, False])
async def test_a_document_fanned_out_while_the_wiki_is_switched_is_written_about_if_it_is_on(
    library, monkeypatch, on
):
    await library.do(switch, library.kb, on=not on)
    found = await library.register()
    place = found.knowledge_id, found.attempt
    await library.do(begin_processing, *place)
    await library.do(store_parsed, library.index, *place, parsed("a swan swims"))

    async def meanwhile(session, *args):
        chunks = await chunks_of(session, *args)
        await library.do(switch, library.kb, on=on)
        return chunks

    monkeypatch.setattr(postprocess, "chunks_of", meanwhile)
    job = KnowledgePostProcess(
        tenant_id=7, knowledge_base_id=library.kb.id, knowledge_id=place[0], attempt=place[1]
    )
    services = SimpleNamespace(database=library.database, outbox=library.outbox)
    ctx: Any = SimpleNamespace(services=services, job=None, log=structlog.get_logger())
    await postprocess.post_process(job, ctx)
    waiting = await library.look(peek, ingest_lane(library.kb.id), 10)
    assert [op.dedup_key for op in waiting] == [place[0]] * on
