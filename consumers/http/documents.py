"""What a document is made of: its original, to be saved, and its chunks."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse
from pydantic import BaseModel
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.types import Receive, Scope, Send

from consumers.http.callers import PREFIX, Ident, Reader, services_of
from consumers.knowledge.documents.contents import chunks_from
from consumers.knowledge.files.store import FileMissing, FileStore
from consumers.knowledge.reading.passages import PASSAGES
from consumers.knowledge.tables.knowledge import Knowledge, Question
from contracts.knowledge import ChunkKind
from pipeline.errors import CursorInvalid
from pipeline.http.admin import PageSize, ShortCursor, page_of
from pipeline.http.errors import Problem, documented
from pipeline.http.principal import Principal
from pipeline.inspector import PAGE

router = APIRouter(
    prefix=f"{PREFIX}/knowledge/{{id}}", tags=["knowledge"], responses=documented(401, 403, 404)
)

BINARY: Final = "application/octet-stream"


class ChunkOf(BaseModel):
    """A chunk of a document. `start` and `end` are character offsets in what was read out of it; `questions` it answers."""

    id: str
    kind: ChunkKind
    position: int
    text: str
    heading: Sequence[str]
    start: int
    end: int
    questions: Sequence[str]


class Chunks(BaseModel):
    """Some chunks of a document in their order: its own words, those read from pictures, what pictures show."""

    chunks: Sequence[ChunkOf]
    page_size: int
    has_more: bool
    next_cursor: str | None = None


class Original(Response):
    """A stored file, as one that is saved and never shown: what it holds was sent by somebody else."""

    media_type = BINARY

    def __init__(self, files: FileStore, key: str, name: str) -> None:
        super().__init__()
        self._files, self._key, self._name = files, key, name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI. Raises Problem 404, FileStoreError before anything was sent."""
        try:
            async with self._files.local(self._key) as path:
                await FileResponse(path, media_type=BINARY, filename=self._name)(scope, receive, send)
        except FileMissing:
            raise _no_original() from None


@router.get(
    "/download",
    response_class=FileResponse,
    responses={200: {"content": {BINARY: {"schema": {"type": "string", "format": "binary"}}}}},
)
async def download(request: Request, who: Reader, id: Ident) -> Original:  # noqa: A002 - the name in the path
    """The original of a document, as it came in."""
    services = services_of(request)
    async with services.database.read() as sql:
        found = await _document(sql, who, id)
    if not found.file_key:
        raise _no_original()
    name = f"{found.file_name}.json" if found.file_type == PASSAGES else found.file_name
    return Original(services.files, found.file_key, name)


@router.get("/chunks", responses=documented(400), response_model_exclude_none=True)
async def chunks(
    request: Request,
    who: Reader,
    id: Ident,  # noqa: A002 - the name in the path
    *,
    kind: Annotated[ChunkKind | None, Query(description="only these")] = None,
    cursor: ShortCursor = None,
    page_size: PageSize = PAGE,
) -> Chunks:
    """The chunks of a document, as its last parse left them."""
    size = page_of(page_size)
    async with services_of(request).database.read() as sql:
        document = await _document(sql, who, id)
        found = await chunks_from(sql, id, document.parsed_attempt, kind, _place(cursor), size + 1)
        asked = await _questions(sql, [chunk.id for chunk in found[:size]])
    last = found[size - 1] if len(found) > size else None
    return Chunks(
        chunks=[
            ChunkOf(
                id=one.id,
                kind=one.kind,
                position=one.position,
                text=one.text,
                heading=one.heading,
                start=one.start,
                end=one.end,
                questions=asked.get(one.id, ()),
            )
            for one in found[:size]
        ],
        page_size=size,
        has_more=last is not None,
        next_cursor=f"{last.kind}.{last.position}" if last else None,
    )


async def _document(sql: AsyncSession, who: Principal, ident: str) -> Knowledge:
    found = await sql.get(Knowledge, ident)
    if found is None or who.tenant_id not in {None, found.tenant_id}:
        raise Problem(404, f"no document {ident[:64]} (any more)", "knowledge_not_found")
    return found


async def _questions(sql: AsyncSession, chunk_ids: Sequence[str]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    asked = select(Question.chunk_id, Question.text).where(Question.chunk_id.in_(chunk_ids))
    for chunk_id, text in await sql.execute(asked.order_by(Question.position)):
        found.setdefault(chunk_id, []).append(text)
    return found


def _place(cursor: str | None) -> tuple[ChunkKind, int] | None:
    if not cursor:
        return None
    kind, _, position = cursor.partition(".")
    if kind not in set(ChunkKind) or not (position.isascii() and position.isdecimal() and len(position) < 10):
        raise CursorInvalid("this is not a page cursor; start from the first page")
    return ChunkKind(kind), int(position)


def _no_original() -> Problem:
    return Problem(404, "there is no original of this document (yet)", "no_original")
