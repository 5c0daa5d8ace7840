"""What a file is after parsing, the limits it must keep, and how it is refused."""

from dataclasses import dataclass

from contracts.knowledge import SpanCode

NO_TEXT = "the file holds no readable text; check that it is the right one"
ONLY_PICTURES = "the file holds only pictures, which its knowledge base is set not to read"


class UnreadableDocument(Exception):  # noqa: N818 - named as a person would say it
    """The file cannot become a document. `reason` is a sentence that says what to do; `code` tells whether trying
    again might help.
    """

    def __init__(self, reason: str, code: SpanCode = SpanCode.DOCREADER_UNREADABLE) -> None:
        super().__init__(reason)
        self.reason, self.code = reason, code


class NoDocument(UnreadableDocument):
    """The file is of a kind that is none of ours."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, SpanCode.DOCREADER_UNSUPPORTED)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a file is taken. What is over a limit on text is refused, never cut: half a document misleads."""

    file_mb: int = 200
    unpacked_mb: int = 300  # of a zipped office file, all its parts together
    text_chars: int = 10_000_000
    pictures: int = 64  # more of them, and bigger ones, are left out with a warning
    picture_mb: int = 10
    pictures_mb: int = 64  # all together
    picture_pixels: int = 50_000_000


@dataclass(frozen=True, slots=True)
class ExtractedImage:
    """A picture that may hold words. `page` counts from 1, and is None where the format has no pages; a `scan` is a whole page
    that has no text beside it.
    """

    data: bytes
    mime: str
    page: int | None
    index: int
    scan: bool = False


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """`text` is Markdown without NULs and lone surrogates; empty only where `images` holds what there is to read.

    `language` is an ISO 639 code of two letters where there is one, None where the text is too short to tell.
    """

    text: str
    title: str
    mime: str
    language: str | None = None
    pages: int | None = None
    images: tuple[ExtractedImage, ...] = ()
    warnings: tuple[str, ...] = ()
