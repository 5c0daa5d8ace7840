"""The pages that change something: each first says what it would do to how many, and does it when told again."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter, Response

from contracts.jobs import Scope
from contracts.states import JobState
from contracts.topology import queue as known_queue
from pipeline.actions import Action
from pipeline.errors import JobNotFound
from pipeline.http import steering
from pipeline.http.dashboard.filters import Filters
from pipeline.http.dashboard.frame import Frame, PageRoute, Visit, back_with
from pipeline.http.errors import Problem
from pipeline.records import Count, JobRecord, TaskFilter

BATCH: Final = 100
SAMPLE: Final = 5
LONGEST_S: Final = 20.0
"""After so long a bulk action says how far it came, instead of letting the browser wait."""
ALL: Final = "all:"

Form = Mapping[str, Sequence[str]]
router = APIRouter(route_class=PageRoute, include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Wish:
    """What the form of a queue asks for: an action on those jobs, or on all in a state that match."""

    queue: str
    action: Action
    state: JobState
    ids: tuple[str, ...] | None
    match: TaskFilter

    @classmethod
    def read(cls, queue: str, form: Form) -> "Wish":
        """Read a form. Raises Problem 400, UnknownNameError."""
        filters = Filters.read({name: values[0] for name, values in form.items()})
        said = first(form, "action")
        action, state = said.removeprefix(ALL), first(form, "state")
        if action not in set(Action) or state not in set(JobState) or filters.problem:
            raise Problem(400, "this form is not one of ours", "invalid_request")
        ids = None if said.startswith(ALL) else tuple(form.get("id", ()))[:BATCH]
        return cls(known_queue(queue).name, Action(action), JobState(state), ids, filters.match)


async def form_of(visit: Frame) -> dict[str, list[str]]:
    """Return what was sent, without the token that let it in."""
    found: dict[str, list[str]] = {}
    for name, value in (await visit.request.form()).multi_items():
        if isinstance(value, str) and name != "csrf_token":
            found.setdefault(name, []).append(value)
    return found


def first(form: Form, name: str) -> str:
    """Return the one value of a field, empty if it was not sent."""
    return (form.get(name) or [""])[0]


def back(visit: Frame, form: Form, otherwise: str) -> str:
    """Return where a person came from."""
    referrer, site = visit.request.headers.get("referer", ""), str(visit.request.base_url)
    return first(form, "back") or (
        f"/{referrer.removeprefix(site)}" if referrer.startswith(site) else otherwise
    )


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked. `sample` is (type, id) of some of them; `key` names the texts, `note` is said beside them."""

    key: str
    about: Mapping[str, Any]
    count: int = 1
    at_least: bool = False
    sample: Sequence[tuple[str, str]] = ()
    grave: bool = True
    note: str = ""


async def ask(visit: Frame, question: Question, form: Form, to: str) -> Response:
    """Show a question; its form sends the same again, to the page that does it."""
    t, key, possible = visit.t, question.key, question.count > 0 or question.at_least
    note = f"{question.note} " if question.note else ""
    consequence = (
        note + t(f"confirm.{key}.about") + (f" {t('confirm.at_least')}" if question.at_least else "")
    )
    return await visit.page(
        "confirm.html",
        question=t(f"confirm.{key}", **question.about) if possible else t("confirm.nothing"),
        consequence=consequence if possible else t("confirm.nothing.about"),
        yes=t(f"act.{key}"),
        possible=possible,
        grave=question.grave,
        sample=question.sample[:SAMPLE],
        more=question.count - len(question.sample[:SAMPLE]) if question.sample else 0,
        action=visit.request.url.path.removesuffix("/confirm"),
        fields=[(name, value) for name, values in form.items() for value in values if name != "back"],
        back=to,
    )


@router.post("/queues/{name}/jobs/confirm")
async def ask_queue(visit: Visit, name: str) -> Response:
    """Ask before acting on jobs of a queue."""
    form = await form_of(visit)
    wish = Wish.read(name, form)
    count, found = await _found(visit, wish)
    sample = [(record.job.type, record.job.id) for record in found]
    key, grave = wish.action.value, wish.action is not Action.RUN_NOW
    question = Question(key, {"n": count.number}, count.number, count.more, sample, grave)
    return await ask(visit, question, form, back(visit, form, f"/queues/{name}"))


async def _found(visit: Frame, wish: Wish) -> tuple[Count, Sequence[JobRecord]]:
    """Return how many jobs an action would meet now, and some of them."""
    see = visit.desk.inspector
    if wish.ids is None:
        count = await see.count(wish.queue, wish.state, wish.match)
        return count, (await see.tasks(wish.queue, wish.state, None, SAMPLE, match=wish.match)).records
    found: list[JobRecord] = []
    for job_id in wish.ids:
        with suppress(JobNotFound):
            found.append(await see.job(job_id))
    return Count(len(found)), found


@router.post("/queues/{name}/jobs")
async def do_queue(visit: Visit, name: str) -> Response:
    """Act on jobs of a queue."""
    form = await form_of(visit)
    wish, effects = Wish.read(name, form), Counter[str]()
    end, cursor = asyncio.get_running_loop().time() + LONGEST_S, await _act(visit, wish, effects)
    while cursor is not None and asyncio.get_running_loop().time() < end:
        cursor = await _act(visit, wish, effects, cursor)
    if cursor is not None:
        effects["more"] = 0
    return back_with(back(visit, form, f"/queues/{name}"), effects or {"nothing": 0})


async def _act(visit: Frame, wish: Wish, effects: Counter[str], cursor: str | None = None) -> str | None:
    """Count what happened to those named, or to the next that match; return where to go on."""
    desk, who = visit.desk, visit.who
    matching = steering.Matching(desk, who, wish.queue, wish.state, wish.match, cursor)
    records = steering.named(desk, who, wish.queue, wish.ids) if wish.ids is not None else matching.records()
    done = await steering.act_on_records(visit.call, wish.queue, wish.action, records)
    effects.update(one.effect.value for one in done.values())
    return matching.cursor if wish.ids is None else None


REFUSED: Final[Mapping[str, str]] = {
    "task_gone": "not_found",
    "action_not_allowed": "not_allowed",
    "task_changed": "too_late",
}


@router.post("/jobs/{job_id}/confirm")
async def ask_job(visit: Visit, job_id: str) -> Response:
    """Ask before acting on one job. Raises JobNotFound."""
    form = await form_of(visit)
    record, action = await visit.desk.inspector.job(job_id), _action(form)
    sample = [(record.job.type, job_id)]
    question = Question(action.value, {"n": 1}, sample=sample, grave=action is not Action.RUN_NOW)
    return await ask(visit, question, form, f"/jobs/{job_id}")


@router.post("/jobs/{job_id}")
async def do_job(visit: Visit, job_id: str) -> Response:
    """Act on one job. Raises JobNotFound."""
    action, record = _action(await form_of(visit)), await visit.desk.inspector.job(job_id)
    try:
        code: str = await steering.act_on_task(visit.call, record.job.queue, job_id, action)
    except Problem as problem:
        if problem.code not in REFUSED:
            raise
        code = REFUSED[problem.code]
    return back_with(f"/jobs/{job_id}" if code != "deleted" else f"/queues/{record.job.queue}", {code: 1})


def _action(form: Form) -> Action:
    said = first(form, "action")
    if said not in set(Action):
        raise Problem(400, "this form is not one of ours", "invalid_request")
    return Action(said)


@router.post("/queues/{name}/{verb}/confirm")
async def ask_steering(visit: Visit, name: str, verb: str) -> Response:
    """Ask before a queue is paused, or goes on."""
    queue = known_queue(name).name
    if verb not in {"pause", "resume"}:
        raise Problem(404, "no such page", "not_found")
    return await ask(visit, Question(verb, {"queue": queue}, grave=False), {}, f"/queues/{queue}")


@router.post("/queues/{name}/pause")
async def pause(visit: Visit, name: str) -> Response:
    """Let a queue start nothing."""
    await steering.set_paused(visit.call, name, paused=True)
    return back_with(f"/queues/{name}", {"paused": name})


@router.post("/queues/{name}/resume")
async def resume(visit: Visit, name: str) -> Response:
    """Let a queue go on."""
    await steering.set_paused(visit.call, name, paused=False)
    return back_with(f"/queues/{name}", {"resumed": name})


@router.post("/scopes/{kind}/{ident}/cancel/confirm")
async def ask_scope(visit: Visit, kind: str, ident: str) -> Response:
    """Ask before all that belongs to something is cancelled, in whatever queue."""
    scope, form = _scope(kind, ident), await form_of(visit)
    found = await visit.desk.inspector.count_scope(scope)
    queued = found.number or int(await visit.desk.inspector.has_queued(kind, ident))
    note = visit.t("confirm.cancel_scope.count", n=queued)
    question = Question("cancel_scope", {"scope": str(scope)}, count=queued, at_least=found.more, note=note)
    return await ask(visit, question, form, back(visit, form, "/"))


@router.post("/scopes/{kind}/{ident}/cancel")
async def cancel_scope(visit: Visit, kind: str, ident: str) -> Response:
    """Cancel all that belongs to something, and what its jobs would still enqueue."""
    form = await form_of(visit)
    effects = await steering.cancel_scope(visit.call, _scope(kind, ident))
    counts = {str(effect): number for effect, number in Counter(effects.values()).items()}
    return back_with(back(visit, form, "/"), counts or {"nothing": 0})


def _scope(kind: str, ident: str) -> Scope:
    try:
        return Scope(kind, ident)
    except ValueError as error:
        raise Problem(400, str(error), "invalid_scope") from None
