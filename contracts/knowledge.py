"""The life of a document: its states, every legal move between them, and the spans that tell how it went."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class ParseStatus(StrEnum):
    """Where a document is in its life."""

    PENDING = "pending"
    """Registered; its `document:process` waits."""
    PROCESSING = "processing"
    """Being parsed, or parsed and having its pictures read."""
    FINALIZING = "finalizing"
    """Searchable; at least one enrichment holds a slot."""
    COMPLETED = "completed"
    """All that was asked for is there."""
    FAILED = "failed"
    """Given up; `error_message` says why."""
    DELETING = "deleting"
    """Being removed."""
    CANCELLED = "cancelled"
    """A person told it to stop."""


OPEN: Final = frozenset({ParseStatus.PENDING, ParseStatus.PROCESSING, ParseStatus.FINALIZING})
"""States that move on by themselves; from each of them a document can fail or be cancelled."""

KEEPS_RESULTS: Final = frozenset({ParseStatus.PROCESSING, ParseStatus.FINALIZING, ParseStatus.COMPLETED})
"""States in which results of the current attempt are kept; in all others they come too late."""

STOPPED: Final = frozenset({ParseStatus.FAILED, ParseStatus.CANCELLED, ParseStatus.DELETING})
"""States in which an attempt was given up."""

SILENT: Final = STOPPED
"""States in which a document contributes nothing to the pages of a wiki."""


class SummaryStatus(StrEnum):
    """Where the summary of a document is."""

    NONE = "none"
    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ParseTransition:
    """One legal move of a document. `source` None means a new one."""

    source: ParseStatus | None
    target: ParseStatus
    by: str
    note: str


def _each(sources: frozenset[ParseStatus], target: ParseStatus, by: str, note: str) -> list[ParseTransition]:
    return [ParseTransition(source, target, by, note) for source in ParseStatus if source in sources]


PARSE_TRANSITIONS: Final[tuple[ParseTransition, ...]] = (
    ParseTransition(None, ParseStatus.PENDING, "register", "a new source"),
    *_each(
        frozenset(ParseStatus) - {ParseStatus.DELETING},
        ParseStatus.PENDING,
        "register",
        "its content changed, or the last attempt failed or was cancelled: a new attempt",
    ),
    ParseTransition(ParseStatus.PENDING, ParseStatus.PROCESSING, "begin", "document:process started"),
    ParseTransition(
        ParseStatus.PROCESSING, ParseStatus.COMPLETED, "store_parsed", "neither text nor pictures"
    ),
    ParseTransition(
        ParseStatus.PROCESSING, ParseStatus.FINALIZING, "begin_finalizing", "each enrichment got a slot"
    ),
    ParseTransition(ParseStatus.PROCESSING, ParseStatus.COMPLETED, "begin_finalizing", "nothing to enrich"),
    ParseTransition(ParseStatus.FINALIZING, ParseStatus.COMPLETED, "finish_slot", "the last slot was closed"),
    *_each(OPEN, ParseStatus.FAILED, "fail", "an error that no retry helps, or retries used up"),
    *_each(OPEN, ParseStatus.CANCELLED, "cancel", "a person"),
    *_each(
        frozenset(ParseStatus) - {ParseStatus.DELETING},
        ParseStatus.PENDING,
        "reparse",
        "a person: a new attempt",
    ),
    *_each(
        frozenset(ParseStatus) - {ParseStatus.DELETING},
        ParseStatus.DELETING,
        "delete",
        "a person, or its base",
    ),
    ParseTransition(ParseStatus.DELETING, ParseStatus.FAILED, "fail_delete", "the removal was given up"),
)


def sources(by: str) -> frozenset[ParseStatus]:
    """Return the states from which `by` moves a document: what its conditional update is guarded with."""
    return frozenset(move.source for move in PARSE_TRANSITIONS if move.by == by and move.source is not None)


class DocumentVerb(StrEnum):
    """What a person can do to a document."""

    CANCEL = "cancel-parse"
    REPARSE = "reparse"
    DELETE = "delete"


class DocumentEffect(StrEnum):
    """What that came to."""

    DONE = "done"
    ALREADY = "already"
    """It was so before; what is left of its jobs is cancelled all the same."""
    REFUSED = "refused"
    """Its state does not let it."""
    NOT_FOUND = "not_found"
    """It is not there, or another tenant's."""


EXTRACTIVE: Final = "extractive"
"""The method of what was made of the document's own words, without a language model."""


class ChunkKind(StrEnum):
    """What the text of a chunk is."""

    TEXT = "text"
    """The document's own words."""
    OCR = "ocr"
    """Words read from a picture."""
    CAPTION = "caption"
    """What a picture shows."""


class DocumentKind(StrEnum):
    """How a document came in, and so where another parse of it begins."""

    FILE = "file"
    """Its content is kept."""
    URL = "url"
    """A page or file at an address; each parse fetches it."""
    PASSAGES = "passages"
    """Pieces of text that are chunks as they are."""
    MANUAL = "manual"
    """Written by hand."""


class ImageStatus(StrEnum):
    """Where a picture of a document is."""

    PENDING = "pending"
    READ = "read"
    SKIPPED = "skipped"
    FAILED = "failed"


class SlotKind(StrEnum):
    """What an open slot waits for. A document moves on when the last slot of its attempt is closed."""

    IMAGE = "image"
    SUMMARY = "summary"
    QUESTION = "question"
    GRAPH = "graph"
    WIKI = "wiki"


class SpanKind(StrEnum):
    """How a span stands to the others of an attempt."""

    ROOT = "root"
    STAGE = "stage"
    SUBSPAN = "subspan"
    GENERATION = "generation"


class SpanStatus(StrEnum):
    """How a span fares."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


ROOT_SPAN: Final = "knowledge_processing"


class Stage(StrEnum):
    """The stages of an attempt, in order."""

    DOCREADER = "docreader"
    CHUNKING = "chunking"
    EMBEDDING = "embedding"
    MULTIMODAL = "multimodal"
    POSTPROCESS = "postprocess"

    @property
    def dependants(self) -> tuple["Stage", ...]:
        """The stages that cannot happen once this one failed."""
        return _DEPENDANTS[self]


_DEPENDANTS: Final = {
    Stage.DOCREADER: (Stage.CHUNKING, Stage.EMBEDDING, Stage.MULTIMODAL, Stage.POSTPROCESS),
    Stage.CHUNKING: (Stage.EMBEDDING, Stage.MULTIMODAL, Stage.POSTPROCESS),
    Stage.EMBEDDING: (Stage.POSTPROCESS,),
    Stage.MULTIMODAL: (Stage.POSTPROCESS,),
    Stage.POSTPROCESS: (),
}


class SpanCode(StrEnum):
    """Why a span did not end well."""

    DOCREADER_FAILED = "DOCREADER_FAILED"
    DOCREADER_UNREADABLE = "DOCREADER_UNREADABLE"
    DOCREADER_UNSUPPORTED = "DOCREADER_UNSUPPORTED"
    DOCREADER_TIMEOUT = "DOCREADER_TIMEOUT"
    DOCREADER_LIMIT = "DOCREADER_LIMIT"
    CHUNKING_FAILED = "CHUNKING_FAILED"
    EMBEDDING_FAILED = "EMBEDDING_FAILED"
    EMBEDDING_RATE_LIMITED = "EMBEDDING_RATE_LIMITED"
    MULTIMODAL_VLM_FAILED = "MULTIMODAL_VLM_FAILED"
    SUMMARY_FAILED = "SUMMARY_FAILED"
    QUESTION_FAILED = "QUESTION_FAILED"
    GRAPH_EXTRACT_FAILED = "GRAPH_EXTRACT_FAILED"
    EXTRACT_FAILED = "EXTRACT_FAILED"
    LIST_CHUNKS_FAILED = "LIST_CHUNKS_FAILED"
    WIKI_TRIGGER_ENQUEUE_FAILED = "WIKI_TRIGGER_ENQUEUE_FAILED"
    AUTO_TAG_FAILED = "AUTO_TAG_FAILED"
    AUTO_TAG_NO_TAGS = "AUTO_TAG_NO_TAGS"
    AUTO_TAG_NO_CONTENT = "AUTO_TAG_NO_CONTENT"
    TASK_TIMEOUT = "TASK_TIMEOUT"
    USER_CANCELLED = "USER_CANCELLED"
    SERVER_RESTART = "SERVER_RESTART"
    UPSTREAM_FAILED = "UPSTREAM_FAILED"
    TASK_SUPERSEDED = "TASK_SUPERSEDED"
    TASK_STALLED = "TASK_STALLED"


HOPELESS: Final = frozenset({SpanCode.DOCREADER_UNREADABLE, SpanCode.DOCREADER_UNSUPPORTED})
"""What lies in the content of a document: trying again would not help."""

STAGE_CODES: Final = {
    Stage.DOCREADER: SpanCode.DOCREADER_FAILED,
    Stage.CHUNKING: SpanCode.CHUNKING_FAILED,
    Stage.EMBEDDING: SpanCode.EMBEDDING_FAILED,
    Stage.MULTIMODAL: SpanCode.MULTIMODAL_VLM_FAILED,
    Stage.POSTPROCESS: SpanCode.LIST_CHUNKS_FAILED,
}
"""The code of a stage that failed and has nothing more exact to say."""
