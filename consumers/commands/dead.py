"""`streamlane dead`: jobs that were given up, and giving them another chance."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncSession

from consumers.commands.terminal import FAILED, OK, emit, moment, out, shown, table
from consumers.database import open_database, refuse_another
from pipeline import Database, Pipeline
from pipeline.errors import ConfigurationError
from pipeline.store import dead_letters
from pipeline.store.dead_letters import Letter, Narrowed


async def list_dead(task_type: str | None, limit: int, as_json: bool) -> int:
    """Print deaths, the last first."""
    async with _opened() as (_, database), database.read() as sql:
        found = await dead_letters.listed(sql, Narrowed(task_type=task_type), limit)
    if as_json:
        emit({"dead_letters": [_facts(letter) for letter in found]})
        return OK
    table(
        ("id", "job", "type", "reason", "tries", "died", "error"),
        [
            (one.id, one.job_id, one.task_type, one.reason, one.fail_count, moment(one.failed_at),
             shown(one.last_error, 80))
            for one in found
        ],
    )  # fmt: skip
    return OK


async def replay_dead(ids: Sequence[int], task_type: str | None, everything: bool, as_json: bool) -> int:
    """Give the jobs of these deaths another chance."""
    from consumers.api import replay  # it brings the whole HTTP service

    async with _opened() as (pipeline, database):
        async with database.read() as sql:
            letters = await _chosen(sql, ids, task_type, everything)
        effects = await replay(pipeline, database, letters)
    effects = dict.fromkeys(ids, "there is no such dead letter") | effects
    if as_json:
        emit({"effects": {str(one): effect for one, effect in effects.items()}})
    else:
        table(("id", "effect"), list(effects.items()))
    return OK if all(effect == "replayed" for effect in effects.values()) else FAILED


async def purge_dead(ids: Sequence[int], task_type: str | None, everything: bool, as_json: bool) -> int:
    """Delete deaths; their jobs are kept as long as others that were given up."""
    async with _opened() as (_, database), database.transaction() as sql:
        letters = await _chosen(sql, ids, task_type, everything)
        count = await dead_letters.remove(sql, [letter.id for letter in letters])
    if as_json:
        emit({"deleted": count})
    else:
        out.print(f"deleted {count}")
    return OK


async def _chosen(
    sql: AsyncSession, ids: Sequence[int], task_type: str | None, everything: bool
) -> list[Letter]:
    if ids:
        return await dead_letters.by_id(sql, ids)
    if not (task_type or everything):
        raise ConfigurationError("say which: their ids, --type TYPE, or --all")
    return await dead_letters.listed(sql, Narrowed(task_type=task_type), 2**31)


@asynccontextmanager
async def _opened() -> AsyncIterator[tuple[Pipeline, Database]]:
    async with Pipeline.open() as pipeline, open_database(pipeline.settings) as database:
        await refuse_another(pipeline, database)
        yield pipeline, database


def _facts(letter: Letter) -> dict[str, object]:
    return {
        "id": letter.id,
        "job_id": letter.job_id,
        "type": letter.task_type,
        "tenant_id": letter.tenant_id,
        "scope": f"{letter.scope}:{letter.scope_id}",
        "reason": letter.reason,
        "tries": letter.fail_count,
        "failed_at": moment(letter.failed_at),
        "last_error": letter.last_error,
    }
