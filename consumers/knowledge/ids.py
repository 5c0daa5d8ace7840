"""Derived ids: the same work always has the same id, so doing it twice does it once."""

import unicodedata

from contracts.identity import derive_id


def process_job(knowledge_id: str, attempt: int) -> str:
    """The job that parses a document."""
    return derive_id(knowledge_id, attempt, "process")


def image_job(knowledge_id: str, attempt: int, position: int) -> str:
    """The job, and the slot, that reads one picture."""
    return derive_id(knowledge_id, attempt, "image", position)


def postprocess_job(knowledge_id: str, attempt: int) -> str:
    """The job that starts the enrichments."""
    return derive_id(knowledge_id, attempt, "postprocess")


def enrichment_job(knowledge_id: str, attempt: int, kind: str, index: int = 0) -> str:
    """The job, and the slot, of one enrichment."""
    return derive_id(knowledge_id, attempt, kind, index)


def delete_again_job(knowledge_id: str, moved_at: int) -> str:
    """The job that removes a document after that of its removal, asked for at `moved_at` (ms), was lost."""
    return derive_id(knowledge_id, "delete", moved_at)


def rearm_job(task_type: str, kb_id: str, *of: int) -> str:
    """The job that tells a wiki once more that it has work; `of` says which time."""
    return derive_id(kb_id, task_type, *of)


def chunk(knowledge_id: str, attempt: int, kind: str, position: int) -> str:
    """A passage, and its entry in the index."""
    return derive_id("chunk", knowledge_id, attempt, kind, position)


def image(knowledge_id: str, attempt: int, position: int) -> str:
    """A picture."""
    return derive_id("image", knowledge_id, attempt, position)


def summary(knowledge_id: str, attempt: int) -> str:
    """The entry of a summary in the index."""
    return derive_id("summary", knowledge_id, attempt)


def table(knowledge_id: str, attempt: int, position: int) -> str:
    """The description of a data table, and its entry in the index."""
    return derive_id("table", knowledge_id, attempt, position)


def question(chunk_id: str, position: int) -> str:
    """A question, and its entry in the index."""
    return derive_id("question", chunk_id, position)


def tag(kb_id: str, name: str) -> str:
    """A tag of a base; names that differ in case or spacing are one tag."""
    return derive_id("tag", kb_id, normal(name))


def entity(kb_id: str, name: str) -> str:
    """An entity of a base; names that differ in case, spacing or width are one entity."""
    return derive_id("entity", kb_id, normal(name))


def relation(kb_id: str, source_id: str, target_id: str, kind: str) -> str:
    """A relation of a base."""
    return derive_id("relation", kb_id, source_id, target_id, normal(kind))


def normal(name: str) -> str:
    """Return the form in which names are compared."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())
