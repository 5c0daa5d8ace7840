"""The real documents, cut and embedded as the pipeline does it: every question finds its file and its passage.

The questions themselves lie in the base too, word for word, and one document is there twice.
"""

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from consumers.knowledge.embedding.embedder import LocalEmbedder
from consumers.knowledge.embedding.summarising import TooLittleText, summarise
from consumers.knowledge.language.questioning import Source, generate_questions
from consumers.knowledge.reading.chunking import split
from consumers.knowledge.reading.parsed import UnreadableDocument
from consumers.knowledge.reading.parsing import parse_document
from consumers.knowledge.search.store import EntryKind, IndexEntry

from tests.support.indexes import Index, open_index

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

FIRST = 3


async def own_words(root: Path, path: Path, embedder: LocalEmbedder) -> list[IndexEntry]:
    chunks = split(parse_document(path, path.name).text)
    vectors = await embedder.embed([chunk.context() for chunk in chunks])
    name = str(path.relative_to(root))
    return [
        IndexEntry(
            id=f"{name}#{chunk.index}",
            kb_id="kb",
            knowledge_id=name,
            attempt=1,
            kind=EntryKind.TEXT,
            text=chunk.text,
            chunk_id=f"{name}#{chunk.index}",
            position=chunk.index,
            heading=" > ".join(chunk.heading),
            vector=vector,
            model=embedder.model,
        )
        for chunk, vector in zip(chunks, vectors, strict=True)
    ]


async def hearsay(own: list[IndexEntry], embedder: LocalEmbedder) -> AsyncIterator[IndexEntry]:
    """The questions and the summary that the pipeline writes about a document."""
    written = generate_questions(
        [Source(one.text, tuple(filter(None, one.heading.split(" > ")))) for one in own], count=3
    )
    said = [
        (EntryKind.QUESTION, one.chunk_id, text)
        for one, texts in zip(own, written, strict=True)
        for text in texts
    ]
    with contextlib.suppress(TooLittleText):
        said.append(
            (EntryKind.SUMMARY, None, (await summarise("\n\n".join(one.text for one in own), embedder)).text)
        )
    for n, ((kind, chunk_id, text), vector) in enumerate(
        zip(said, await embedder.embed([text for _, _, text in said]), strict=True)
    ):
        yield IndexEntry(
            id=f"{own[0].knowledge_id}?{n}",
            kb_id="kb",
            knowledge_id=own[0].knowledge_id,
            attempt=1,
            kind=kind,
            text=text,
            chunk_id=chunk_id,
            vector=vector,
            model=embedder.model,
        )


async def missed(index: Index, root: Path, embedder: LocalEmbedder) -> list[str]:
    """Every question whose file is not among the first hits, or whose passage does not say what was asked."""
    asked = [
        json.loads(line)
        for line in (root / "questions.jsonl").read_text("utf-8").splitlines()
        if line.strip()
    ]
    vectors = await embedder.embed([one["q"] for one in asked])
    wrong = []
    for one, vector in zip(asked, vectors, strict=True):
        hits = await index.search(one["q"], vector, model=embedder.model, limit=FIRST)
        texts = [hit.text.casefold() for hit in hits if hit.knowledge_id == one["file"]]
        if not any(all(word.casefold() in text for word in one["words"]) for text in texts):
            wrong.append(f"{one['q']} -> {[hit.knowledge_id for hit in hits]}")
    assert len(asked) == 12
    return wrong


async def test_every_question_finds_its_file_and_the_passage_that_answers_it(samples, database_url):
    embedder = LocalEmbedder()
    async with open_index(database_url) as index:
        documents = []
        for path in sorted(samples.rglob("*")):
            if path.is_file():
                try:
                    documents.append(await own_words(samples, path, embedder))
                except UnreadableDocument:
                    continue
        documents = [own for own in documents if own]
        assert len(documents) > 45
        for own in documents:
            await index.put(*own)
        assert await missed(index, samples, embedder) == []
        for own in documents:
            await index.put(*[one async for one in hearsay(own, embedder)])
        assert await missed(index, samples, embedder) == [], "with questions and summaries too"
