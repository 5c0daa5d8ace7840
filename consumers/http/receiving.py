"""Files as they are sent: written to a folder while they come, so that none is ever held in memory."""

import asyncio
import errno
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, Final

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect

from consumers.knowledge.documents.uploading import Upload, file_name, refuse_unreadable
from consumers.knowledge.files.store import FileStoreFull
from consumers.knowledge.reading.formats import LOOKED_AT
from consumers.knowledge.reading.parsed import UnreadableDocument
from consumers.scratch import scratch
from pipeline.http.errors import Problem

MOST_FILES: Final = 100
"""Files of one request."""
_NO_ROOM: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@asynccontextmanager
async def received(request: Request) -> AsyncIterator[list[Upload]]:
    """Give the files of a form; they go with the block. Raises Problem 400, 415, FileStoreFull; what reading more than is
    allowed raises.
    """
    _, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary", b"")
    if not boundary:
        raise Problem(400, "the form names no boundary", "invalid_request")
    with scratch() as folder, _disk_errors():
        form = None
        try:
            form = _Form(boundary, folder)
            async for chunk in request.stream():
                await asyncio.to_thread(form.write, chunk)
            if not form.whole:
                raise Problem(400, "the form is cut off", "invalid_request")
        except FormParserError as error:
            raise Problem(400, f"the form cannot be read: {error}", "invalid_request") from None
        except ClientDisconnect:
            raise Problem(400, "the sender went away", "invalid_request") from None
        except RuntimeError:  # looking for the token of a form has read it
            raise Problem(403, "send the token of an upload as the header X-CSRF-Token", "csrf") from None
        finally:
            if form is not None:
                form.close()
        if not form.files:
            raise Problem(400, "the form has no file", "invalid_request")
        yield form.files


class _Form:
    """Writes each file of a form to a file of its own and passes over what is no file."""

    def __init__(self, boundary: bytes, folder: Path) -> None:
        self.files: list[Upload] = []
        self.whole = False
        self._folder = folder
        self._headers: dict[bytes, bytes] = {}
        self._header = b"", b""
        self._open: IO[bytes] | None = None
        self._head = b""
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._headers.clear,
                "on_header_field": self._on_header_field,
                "on_header_value": self._on_header_value,
                "on_header_end": self._on_header_end,
                "on_headers_finished": self._on_headers_finished,
                "on_part_data": self._on_part_data,
                "on_part_end": self._on_part_end,
                "on_end": self._on_end,
            },
        )

    def write(self, data: bytes) -> None:
        """Read on. Raises FormParserError, Problem, OSError."""
        self._parser.write(data)

    def close(self) -> None:
        """Let go of a file that is not whole."""
        if self._open is not None:
            self._open.close()

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header = self._header[0] + data[start:end], b""

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header = self._header[0], self._header[1] + data[start:end]

    def _on_header_end(self) -> None:
        name, value = self._header
        self._headers[name.lower()] = value
        self._header = b"", b""

    def _on_headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition"))
        if b"filename" not in options:
            return
        if len(self.files) == MOST_FILES:
            raise Problem(400, f"a request has at most {MOST_FILES} files", "too_many_files")
        name = file_name(options[b"filename"].decode("utf-8", "replace"))
        path = self._folder / str(len(self.files))
        self.files.append(Upload(name, path))
        self._open, self._head = path.open("wb"), b""

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._open is None:
            return
        if len(self._head) < LOOKED_AT:
            self._head += data[start : min(end, start + LOOKED_AT - len(self._head))]
            if len(self._head) == LOOKED_AT:  # refused before the rest is sent
                self._look()
        self._open.write(data[start:end])

    def _on_part_end(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None
            if len(self._head) < LOOKED_AT:
                self._look()

    def _on_end(self) -> None:
        self.whole = True

    def _look(self) -> None:
        name = self.files[-1].name
        try:
            refuse_unreadable(self._head)
        except UnreadableDocument as problem:
            raise Problem(415, f"{name}: {problem}", "unsupported_file") from None


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise FileStoreFull("no room for what is sent: free space on the disk, then repeat") from error
        raise
