"""`streamlane dead`: jobs that were given up, and what to do about them: one, many or all."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from consumers.commands.jobs import described
from consumers.commands.terminal import FAILED, OK, UNCHANGED, agreed, emit, moment, out, shown, table
from consumers.commands.wording import SAYS, checked, plain
from consumers.database import open_database
from consumers.desk import by_hand
from consumers.knowledge.progress.overseeing import names_of
from pipeline import Database, Pipeline, Settings
from pipeline.errors import ConfigurationError, JobNotFound
from pipeline.http.answers import LetterRow
from pipeline.http.audit import recorded
from pipeline.http.call import Call
from pipeline.http.dashboard.filters import Filters
from pipeline.http.dashboard.letters import narrowed
from pipeline.http.dead_letters import DELETED, REPLAYED, delete, replay
from pipeline.store import dead_letters as rows
from pipeline.store.dead_letters import Letter, Narrowed

BATCH: Final = 500
"""Deaths of one row in the audit log."""
LONGEST_ID: Final = 19
"""Digits that are no id of a death any more."""
SECONDS: Final = len("2026-01-01T00:00:00")
NONE: Final = "no dead letter matches"


@dataclass(frozen=True, slots=True)
class Choice:
    """Which deaths: those with these ids, of theirs or of their jobs, or all that match."""

    ids: tuple[str, ...] = ()
    filters: Filters = Filters()  # noqa: RUF009 - it is frozen
    reason: str = ""
    all: bool = False

    @property
    def match(self) -> Narrowed:
        """Which deaths match. Raises ConfigurationError for filters that cannot be."""
        return narrowed(checked(self.filters), self.reason)


async def list_dead(choice: Choice, limit: int, *, replayed: bool, as_json: bool) -> int:
    """Print deaths, the last first, and how many there are by reason and type."""
    match = replace(choice.match, replayed=replayed)
    async with open_database(Settings.read()) as database, database.read() as sql:
        found = await rows.listed(sql, match, limit + 1)
        groups = await rows.counted(sql, match)
        names = await names_of(sql, [letter.related_id for letter in found])
    more, found = len(found) > limit, found[:limit]
    if as_json:
        told = [{"reason": why, "task_type": name, "count": n} for (why, name), n in groups.items()]
        emit({"dead_letters": [_told(letter, names) for letter in found], "groups": told, "more": more})
        return OK
    columns: dict[str, list[object]] = {
        "id": [letter.id for letter in found],
        "job": [letter.job_id for letter in found],
        "type": [letter.task_type for letter in found],
        "belongs to": [f"{letter.scope}:{letter.scope_id}" for letter in found],
        "document": [names.get(letter.related_id) for letter in found],
        "reason": [letter.reason for letter in found],
        "died": [
            (moment(letter.failed_at) or "")[: SECONDS if out.is_terminal else None] for letter in found
        ],
        "attempts": [letter.fail_count for letter in found],
        "error": [shown(letter.last_error, 80) for letter in found],
    }
    if out.is_terminal:
        del columns["job"]  # `dead show` names it; the error is worth the room
    table(list(columns), list(zip(*columns.values(), strict=True)))
    if more:
        out.print(f"the last {limit} of {sum(groups.values())}; --limit shows more")
    return OK


async def show(ident: str, as_json: bool) -> int:
    """Print a death, and its job if that is still there."""
    async with Pipeline.open() as pipeline, open_database(pipeline.settings) as database:
        (letter,) = await _named(database, [ident])
        record = await pipeline.broker.job(letter.job_id)
        async with database.read() as sql:
            names = await names_of(sql, [letter.related_id])
    if as_json:
        emit({"dead_letter": _told(letter, names), "job": described(record) if record else None})
        return OK
    facts = _told(letter, names) | {
        name: moment(getattr(letter, name)) for name in ("failed_at", "replayed_at")
    }
    job = f"its job is {record.state}" if record else "its job is no longer kept: a replay makes a new one"
    advice = SAYS.code_of("reason.do", letter.reason)
    table(("field", "value"), [(n, v) for n, v in (facts | {"job": job, "advice": advice}).items() if v])
    return OK


async def replay_dead(choice: Choice, *, yes: bool, as_json: bool) -> int:
    """Give the jobs of these deaths another chance."""
    effects: dict[int, str] = {}
    async with by_hand("dead replay") as call:
        wanted = await _chosen(call, choice, REPLAYED)
        if not await _agreed(call, choice, "replay", yes=yes):
            return FAILED
        async for ids in wanted:
            effects |= await replay(call, ids)
    refused = {one: effect for one, effect in effects.items() if effect != "replayed"}
    if as_json:
        emit({"success": not refused, "counts": Counter(effects.values()), "effects": effects})
        return FAILED if refused else OK
    done = len(effects) - len(refused)
    out.print(plain(SAYS("done.replayed", n=done)) if effects else NONE)
    for one, effect in refused.items():
        out.print(f"{one}: {shown(effect)}", markup=False)
    return FAILED if refused else OK


async def purge(choice: Choice, *, yes: bool, as_json: bool) -> int:
    """Delete these deaths, and their jobs that are still archived."""
    deleted = 0
    async with by_hand("dead purge") as call:
        wanted = await _chosen(call, choice, DELETED)
        if not await _agreed(call, choice, "delete_letters", yes=yes):
            return FAILED
        async for ids in wanted:
            deleted += await delete(call, ids)
    if as_json:
        emit({"success": True, "deleted": deleted})
    else:
        out.print(plain(SAYS("done.deleted", n=deleted)) if deleted else NONE)
    return OK


async def _chosen(call: Call, choice: Choice, deed: str) -> AsyncIterator[list[int]]:
    """Return the ids of the deaths that were chosen, in parts; one that is not there is refused the deed. Raises ConfigurationError, JobNotFound."""
    narrowed_down = choice.filters.any or bool(choice.reason) or choice.all
    if bool(choice.ids) == narrowed_down:
        raise ConfigurationError(
            "say which: by their ids, by filters that they match, or --all; `streamlane dead list` shows them"
        )
    if not choice.ids:
        return _matching(call.desk.database, choice.match)
    try:
        letters = await _named(call.desk.database, choice.ids)
    except JobNotFound:
        async with recorded(call, deed, ("dead_letter", " ".join(choice.ids))):
            raise
    return _parts([letter.id for letter in letters])


async def _parts(ids: Sequence[int]) -> AsyncIterator[list[int]]:
    for start in range(0, len(ids), BATCH):
        yield list(ids[start : start + BATCH])


async def _matching(database: Database, match: Narrowed) -> AsyncIterator[list[int]]:
    before: int | None = None
    while True:
        async with database.read() as sql:
            found = await rows.listed(sql, match, BATCH, before)
        if not found:
            return
        before = found[-1].id
        yield [letter.id for letter in found]


async def _agreed(call: Call, choice: Choice, act: str, *, yes: bool) -> bool:
    """Whether it is wanted, once it is said how many there are; those that were named were not many."""
    if choice.ids:
        return True
    async with call.desk.database.read() as sql:
        count = sum((await rows.counted(sql, choice.match)).values())
    question = plain(f"{SAYS(f'confirm.{act}', n=count)} {SAYS(f'confirm.{act}.about')}")
    if not count or await agreed(question, yes=yes):
        return True
    out.print(UNCHANGED)
    return False


async def _named(database: Database, idents: Sequence[str]) -> list[Letter]:
    """Return these deaths, each named by its id or by that of its job, whose last it then is. Raises JobNotFound."""
    found: dict[int, Letter] = {}
    async with database.read() as sql:
        for ident in idents:
            number = int(ident) if ident.isascii() and ident.isdecimal() and len(ident) < LONGEST_ID else 0
            letters = await rows.by_id(sql, [number]) if number else await rows.of_job(sql, ident)
            if not letters:
                raise JobNotFound(
                    f"no dead letter {ident} (any more); `streamlane dead list` shows those there are"
                )
            found[letters[-1].id] = letters[-1]
    return list(found.values())


def _told(letter: Letter, names: Mapping[str, str]) -> dict[str, Any]:
    return LetterRow.model_validate(letter).model_dump() | {"document": names.get(letter.related_id)}
