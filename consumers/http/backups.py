"""Backups over HTTP: made, listed, saved, removed, and restored into a new base."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from consumers.http.callers import PREFIX, AskedTenant, Ident, Reader, base_of, services_of, tenant_of, writer
from consumers.http.documents import BINARY, Original
from consumers.http.knowledge_bases import Name
from consumers.http.receiving import received
from consumers.http.tasks import Started, delivery_of
from consumers.knowledge.backups import backing_up, recovering
from consumers.knowledge.backups.archive import ArchiveRefused, manifest_of
from consumers.knowledge.backups.restoring import NameTaken, free_name
from consumers.knowledge.files.store import FileStoreError
from consumers.knowledge.tables.backups import Backup
from consumers.services import Services
from contracts.identity import new_id
from pipeline.http.audit import recorded
from pipeline.http.bodies import LONGEST_BODY, allow
from pipeline.http.call import Call
from pipeline.http.errors import Problem, documented
from pipeline.http.principal import Principal

BASE: Final = f"{PREFIX}/knowledge-bases"
MOST: Final = 1_000
"""Of a base; no more are kept."""
FORM: Final = "multipart/form-data"

router = APIRouter(prefix=BASE, tags=["backups"], responses=documented(401, 403, 404))

BackupId = Annotated[str, Path(max_length=128)]
Writer = Annotated[Principal, writer("knowledge.backup_changed")]


class BackupOf(BaseModel):
    """A backup: an archive of a base as it was at one moment. Times are milliseconds since the epoch, sizes bytes."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    name: str
    size: int
    sha256: str
    documents: int
    created_at: int


class Backups(BaseModel):
    """The backups of a base, the newest first."""

    backups: Sequence[BackupOf]


class Restored(Started):
    """What was started, and the id of the base that is there once it is done."""

    knowledge_base_id: str


class FromBackup(BaseModel):
    """Which backup to restore, and the name of the base that it becomes; by default that which it had."""

    model_config = ConfigDict(extra="forbid")

    backup_id: Annotated[str, Field(min_length=1, max_length=128)]
    name: Name | None = None


@router.post("/{id}/backups", status_code=202, responses=documented(409))
async def back_up(request: Request, who: Writer, id: Ident) -> Started:  # noqa: A002 - the name in the path
    """Make a backup of a base; watch it as a task, whose id is that of the backup."""
    services = services_of(request)
    async with recorded(Call.of(request, who), "knowledge.base_backed_up", ("knowledge_base", id)):
        kb = await base_of(services, who, id)
        async with services.outbox.transaction() as sql:
            backup_id = await backing_up.ask_for(sql, kb.id)
    return Started(task_id=backup_id, delivery=delivery_of(sql))


@router.get("/{id}/backups")
async def backups(request: Request, who: Reader, id: Ident) -> Backups:  # noqa: A002 - the name in the path
    """The backups of a base that are kept, also of one that was deleted."""
    services = services_of(request)
    async with services.database.read() as sql:
        found = await backing_up.list_backups(sql, who.tenant_id, id, MOST)
    if not found:
        await base_of(services, who, id)
    return Backups(backups=[BackupOf.model_validate(one) for one in found])


@router.get(
    "/{id}/backups/{backup_id}",
    response_class=FileResponse,
    responses={200: {"content": {BINARY: {"schema": {"type": "string", "format": "binary"}}}}},
)
async def download(
    request: Request,
    who: Reader,
    id: Ident,  # noqa: A002 - the name in the path
    backup_id: BackupId,
) -> Original:
    """The archive of a backup."""
    found = await _backup(request, who, backup_id, id)
    return Original(services_of(request).files, found.file_key, f"{found.id}.zip")


@router.delete("/{id}/backups/{backup_id}")
async def delete(
    request: Request,
    who: Writer,
    id: Ident,  # noqa: A002 - the name in the path
    backup_id: BackupId,
) -> BackupOf:
    """Remove a backup."""
    services = services_of(request)
    async with recorded(Call.of(request, who), "knowledge.backup_deleted", ("backup", backup_id)):
        found = await _backup(request, who, backup_id, id)
        await backing_up.remove(services.database, services.files, found)
    return BackupOf.model_validate(found)


@router.post(
    "/restore",
    status_code=202,
    responses=documented(400, 409, 415, 507),
    openapi_extra={
        "requestBody": {
            "content": {
                "application/json": {"schema": FromBackup.model_json_schema()},
                FORM: {
                    "schema": {
                        "type": "object",
                        "required": ["file"],
                        "properties": {"file": {"type": "string", "format": "binary"}},
                    }
                },
            }
        }
    },
)
async def restore(
    request: Request,
    who: Writer,
    tenant: AskedTenant = None,
    name: Annotated[Name | None, Query(description="Of the base, where an archive is sent.")] = None,
) -> Restored:
    """Make a base of a backup, or of an archive that is sent as a form; nobody sees it before it is whole."""
    services = services_of(request)
    call, deed = Call.of(request, who), "knowledge.base_restored"
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == FORM:
        whose = tenant_of(who, tenant)
        allow(request, (services.settings.restore_max_gb << 30) + LONGEST_BODY)
        async with recorded(call, deed, ("tenant", str(whose))):
            task_id = new_id()
            key, base = await _kept(request, services, task_id)
            try:
                return await _begin(services, task_id, whose, key, base, name)
            except BaseException:
                with suppress(FileStoreError):
                    await services.files.delete(key)
                raise
    if kind != "application/json":
        raise Problem(415, f"send a form with an archive ({FORM}), or JSON", "unsupported_content_type")
    asked = _asked(await request.body())
    async with recorded(call, deed, ("backup", asked.backup_id)):
        found = await _backup(request, who, asked.backup_id)
        base = {"name": found.name}
        return await _begin(services, new_id(), found.tenant_id, found.file_key, base, asked.name)


async def _kept(request: Request, services: Services, task_id: str) -> tuple[str, Mapping[str, Any]]:
    """Put the archive that is sent into the file store; return its key, and what it says of its base."""
    key, most_bytes = recovering.key_of(task_id), services.settings.restore_max_gb << 30
    try:
        async with received(request) as uploads:
            manifest = await asyncio.to_thread(manifest_of, uploads[0].path, most_bytes=most_bytes)
            await services.files.put(key, uploads[0].path)
    except ArchiveRefused as error:
        raise Problem(400, str(error), "archive_refused") from None
    return key, manifest.base


async def _begin(
    services: Services, task_id: str, tenant_id: int, key: str, base: Mapping[str, Any], name: str | None
) -> Restored:
    try:
        async with services.outbox.transaction() as sql:
            wanted = await free_name(sql, base, tenant_id, name)
            kb_id = await recovering.ask_for(sql, task_id, tenant_id, key, wanted)
    except NameTaken as error:
        raise Problem(409, str(error), "name_taken") from None
    return Restored(task_id=task_id, delivery=delivery_of(sql), knowledge_base_id=kb_id)


async def _backup(request: Request, who: Principal, backup_id: str, kb_id: str | None = None) -> Backup:
    async with services_of(request).database.read() as sql:
        found = await backing_up.find(sql, who.tenant_id, backup_id)
    if found is None or kb_id not in {None, found.base_id}:
        raise Problem(404, f"no backup {backup_id[:64]} (any more)", "backup_not_found")
    return found


def _asked(body: bytes) -> FromBackup:
    try:
        return FromBackup.model_validate_json(body)
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False)) from None
