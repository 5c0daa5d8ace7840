"""`streamlane jobs`: which there are, and why each is where it is."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from consumers.commands.terminal import OK, emit, moment, out, shown, table
from consumers.commands.wording import SAYS, checked, fate, why
from consumers.extras import KNOWLEDGE
from contracts.states import JobState
from contracts.topology import QUEUES
from contracts.topology import queue as known_queue
from pipeline import JobRecord, Pipeline
from pipeline.clock import now_ms
from pipeline.http.dashboard.filters import Filters
from pipeline.http.dashboard.job_view import about, attempts, events
from pipeline.projection import SHOWN, task_info
from pipeline.reasons import Reason
from pipeline.records import Relatives

PAGE: Final = 100
MORE: Final = frozenset({"allowed_actions", "is_orphaned", "knowledge_count", *SHOWN})
"""What `described` does not say of a job and `task_info` does; its times are for programs."""
ENDED: Final = frozenset({JobState.COMPLETED, JobState.CANCELLED})
Place = tuple[str, JobState]


@dataclass(frozen=True, slots=True)
class Choice:
    """Which jobs: those with these ids, or all that match. `queue` and `state` None: any."""

    ids: tuple[str, ...] = ()
    queue: str | None = None
    state: JobState | None = None
    filters: Filters = Filters()  # noqa: RUF009 - it is frozen

    @property
    def narrowed(self) -> bool:
        """Whether anything but ids says which."""
        return self.queue is not None or self.state is not None or self.filters.any

    def places(self, states: Sequence[JobState]) -> Iterator[Place]:
        """Yield where they may be: queues and, of these states, those that were asked for."""
        names = [known_queue(self.queue).name] if self.queue else list(QUEUES)
        yield from ((name, state) for name in names for state in states if self.state in {None, state})


async def list_jobs(choice: Choice, limit: int, as_json: bool) -> int:
    """Print jobs, a line each."""
    match = checked(choice.filters).match
    states = [state for state in JobState if choice.state or state not in ENDED]
    found: list[JobRecord] = []
    async with Pipeline.open() as pipeline:
        for name, state in choice.places(states):
            cursor: str | None = None
            while len(found) < limit:
                size = min(PAGE, limit - len(found))
                page = await pipeline.inspector.tasks(name, state, cursor, size, match=match)
                found += page.records
                cursor = page.next_cursor
                if cursor is None:
                    break
        documents = await _documents(pipeline, found)
    if as_json:
        emit({"jobs": [described(record, documents) for record in found]})
        return OK
    table(
        ("id", "type", "queue", "state", "retried", "due", "document", "last error"),
        [
            (r.job.id, r.job.type, r.job.queue, r.state, f"{r.job.retried}/{r.job.max_retry}", moment(r.due_at),
             documents.get(r.job.id), shown(r.job.last_error, 80))
            for r in found
        ],
    )  # fmt: skip
    if len(found) == limit:
        out.print(f"the first {limit}; --limit shows more")
    return OK


async def show(job_id: str, as_json: bool) -> int:
    """Print all that may be shown of a job."""
    async with Pipeline.open() as pipeline:
        see = pipeline.inspector
        record = await see.job(job_id)
        reasons, family = await see.why(record), await see.relatives(record)
        living = {beat.worker for beat in await see.workers()}
        actions = await see.actions(record)
        facts = described(record, await _documents(pipeline, [record]))
    facts |= {name: v for name, v in task_info(record, living=living).items() if name in MORE}
    facts["allowed_actions"] = list(actions)
    if as_json:
        emit(facts | _around(record, reasons, family))
    else:
        _print_job(record, facts, reasons, family)
    return OK


def _around(record: JobRecord, reasons: Sequence[Reason], family: Relatives) -> dict[str, Any]:
    return {
        "why": [{"code": one.code, "params": dict(one.params), "text": why(one)} for one in reasons],
        "history": [asdict(one) | {"at": moment(one.at)} for one in record.history],
        "options": _options(record),
        "root": family.root.job.id if family.root else None,
        "children": [_named(child) for child in family.children],
        "more_children": family.more,
    }


def _named(record: JobRecord) -> dict[str, str]:
    return {
        "id": record.job.id,
        "type": record.job.type,
        "queue": record.job.queue,
        "state": record.state.value,
    }


def _options(record: JobRecord) -> dict[str, Any]:
    job = record.job
    return {
        "timeout": job.timeout_ms / 1000 if job.timeout_ms else None,
        "retention": job.retention_ms / 1000,
        "deadline": moment(job.deadline or 0),
        "unique_key": job.unique.key if job.unique else None,
    }


def _print_job(
    record: JobRecord, facts: Mapping[str, Any], reasons: Sequence[Reason], family: Relatives
) -> None:
    names = {"scopes": " ".join(facts["scopes"]), "allowed_actions": " ".join(facts["allowed_actions"])}
    names |= {name: text for name in about(record) if (text := str(facts[name]))}
    options = {name: value for name, value in _options(record).items() if value}
    used = {"attempts": f"{attempts(record)} of {record.job.max_retry + 1}"}
    rows = [(name, value) for name, value in (dict(facts) | names | options | used).items() if value]
    table(("field", "value"), rows)
    waits_next = record.state is JobState.PENDING and not reasons
    sentences = [*map(why, reasons), *([SAYS("why.next")] if waits_next else []), fate(record)]
    _section("why", [[text] for text in sentences if text])
    happened = [
        (moment(e.at), SAYS(f"event.{e.code}"), e.worker, shown(e.error, 200))
        for e in reversed(events(record, now_ms()))
    ]
    _section("history", happened)
    relations = [("parent", family.parent), ("root", family.root)]
    relations += [("child", child) for child in family.children]
    _section("relatives", [(how, r.job.id, r.job.type, r.state) for how, r in relations if r])
    if family.more:
        out.print(SAYS("job.more_children"))


def _section(name: str, rows: Sequence[Sequence[object]]) -> None:
    if rows:
        out.print()
        table((name, *[""] * (len(rows[0]) - 1)), rows)


async def _documents(pipeline: Pipeline, records: Sequence[JobRecord]) -> Mapping[str, str]:
    """Return by the ids of jobs the paths of the documents they work on, as far as they can be looked up here."""
    about = {r.job.id: scope.id for r in records for scope in r.job.scopes if scope.kind == "knowledge"}
    if not about or KNOWLEDGE.absent:
        return {}
    from consumers.database import open_database  # whichever it is: another knows none of them
    from consumers.knowledge.progress.fates import named_of

    async with open_database(pipeline.settings) as database, database.read() as sql:
        paths = {ident: one.path for ident, one in (await named_of(sql, list(set(about.values())))).items()}
    return {job_id: paths[ident] for job_id, ident in about.items() if ident in paths}


def described(record: JobRecord, documents: Mapping[str, str] = {}) -> dict[str, Any]:
    """Return what may be shown of a job: never its payload. `documents` are their paths by the ids of jobs."""
    job = record.job
    facts: dict[str, Any] = {
        "id": job.id,
        "type": job.type,
        "queue": job.queue,
        "state": record.state.value,
        "document": documents.get(job.id),
        "reason": record.reason.value if record.reason else None,
        "retried": job.retried,
        "max_retry": job.max_retry,
        "crashes": job.crashes,
        "scopes": [str(scope) for scope in job.scopes],
        "worker": record.consumer or None,
        "enqueued_at": moment(job.enqueued_at),
        "due_at": moment(record.due_at),
        "started_at": moment(record.claimed_at),
        "ended_at": moment(record.ended_at),
        "last_failed_at": moment(job.last_failed_at),
        "last_error": job.last_error or None,
        "parent": job.parent_id or None,
        "cancel_requested": record.cancel_requested,
    }
    if record.progress:
        facts["progress"] = asdict(record.progress)
    return facts
