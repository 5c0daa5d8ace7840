"""What people and programs do is written down: that it was begun, before it is, and what came of it, afterwards."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import structlog
from fastapi import Request

from pipeline.errors import JobNotFound, NotAllowed, StoreUnavailable
from pipeline.http.call import Call
from pipeline.http.desk import desk_of
from pipeline.http.errors import Problem
from pipeline.http.principal import Principal
from pipeline.store import audit
from pipeline.store.audit import PLATFORM, Deed, Outcome
from pipeline.store.engine import Database

log = structlog.get_logger(component="audit")


@dataclass(slots=True)
class Entry:
    """What is written of an action once it is over; whoever acts may say more."""

    details: dict[str, str] = field(default_factory=dict)
    outcome: Outcome = Outcome.SUCCESS


@asynccontextmanager
async def recorded(call: Call, deed: str, target: tuple[str, str], /, **details: str) -> AsyncIterator[Entry]:
    """Record what the block does to `target`, a type and an id. Raises StoreUnavailable before it runs."""
    async with written_down(call.desk.database, _deed(call, deed, target, details)) as entry:
        yield entry


@asynccontextmanager
async def written_down(database: Database, deed: Deed) -> AsyncIterator[Entry]:
    """Write down that something is done, and what the block came to. Raises StoreUnavailable before it runs."""
    entry = Entry(dict(deed.details))
    async with database.transaction() as sql:
        row = await audit.write(sql, deed)
    try:
        yield entry
    except BaseException as error:
        refused = isinstance(error, JobNotFound | NotAllowed) or (
            isinstance(error, Problem) and error.status < 500
        )
        entry.outcome = Outcome.DENIED if refused else Outcome.FAILED
        if isinstance(error, Exception):
            entry.details["error"] = str(error)[:500]
        if isinstance(error, Problem):
            entry.details["code"] = error.code
        raise
    finally:
        try:
            async with database.transaction() as sql:
                await audit.close(sql, row, entry.outcome, entry.details)
        except StoreUnavailable as error:  # what was done is done; the row says that it was begun
            log.warning("the outcome of an action could not be recorded", row=row, error=str(error))


async def refused(
    request: Request, principal: Principal, action: str, why: Problem, target: tuple[str, str] | None = None
) -> None:
    """Record that somebody was not let do something; by default to what the path names."""
    said = {"error": why.error, "code": why.code}
    deed = _deed(Call.of(request, principal), action, target or _target(request), said)
    async with desk_of(request).database.transaction() as sql:
        await audit.write(sql, replace(deed, outcome=Outcome.DENIED))


def _target(request: Request) -> tuple[str, str]:
    path = request.path_params
    if "task_id" in path:
        return "queue_task", path["task_id"]
    if "queue" in path:
        return "task_queue", path["queue"]
    if "kind" in path:
        return path["kind"], path.get("id", "")
    return "dead_letter", str(path.get("id", ""))


def _deed(call: Call, action: str, target: tuple[str, str], details: dict[str, str]) -> Deed:
    who = call.who
    return Deed(
        action=action,
        actor_user_id=who.id,
        actor_role=who.role,
        tenant_id=PLATFORM if who.tenant_id is None else who.tenant_id,
        target_type=target[0],
        target_id=target[1],
        request_path=call.path,
        request_method=call.method,
        details=dict(details),
    )
