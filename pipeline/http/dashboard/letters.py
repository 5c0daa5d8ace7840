"""Dead letters: shown by reason, replayed and deleted one, many or all."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from fastapi import APIRouter, Response

from contracts.jobs import payload_types
from contracts.states import ArchiveReason
from pipeline.http import dead_letters
from pipeline.http.dashboard.acts import ALL, LONGEST_S, Form, Question, ask, back, first, form_of
from pipeline.http.dashboard.filters import Filters, before_of, number
from pipeline.http.dashboard.frame import Frame, PageRoute, Visit, back_with, query_with
from pipeline.http.errors import Problem
from pipeline.store import dead_letters as rows
from pipeline.store.dead_letters import Letter, Narrowed

PAGE: Final = 50
FEW: Final = 10
"""Letters of each reason, where all reasons are shown."""
BATCH: Final = 500

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/dead")
async def dead(visit: Visit, reason: str = "", cursor: str = "") -> Response:
    """What was given up, by reason."""
    filters = Filters.read(visit.request.query_params)
    groups: dict[str, list[Letter]] = {}
    counts: Mapping[str, int] = {}
    types = {filters.type} - {""} | set(payload_types())
    before = before_of(cursor)
    size, next_cursor = PAGE if reason else FEW, ""
    problem = f"filter.{filters.problem}" if filters.problem else ""
    if reason and reason not in set(ArchiveReason):
        problem = "filter.bad_reason"
    if not problem:
        async with visit.desk.database.read() as sql:
            kinds = await rows.counted(sql, narrowed(filters, reason))
            counts, types = _by_reason(kinds), types | {task_type for _, task_type in kinds if task_type}
            for why in counts:
                found = await rows.listed(sql, narrowed(filters, why), size + 1, before if reason else None)
                groups[why] = found[:size]
                if reason and len(found) > size:
                    next_cursor = str(found[size - 1].id)
    keeper, related = visit.desk.documents, {one.related_id for some in groups.values() for one in some}
    names = await keeper.names(related) if keeper and related else {}
    filtered = filters.any or bool(reason)
    archived = {stat.name: stat.archived for stat in await visit.desk.inspector.queues() if stat.archived}
    missing = 0 if filtered or problem else sum(archived.values()) - sum(counts.values())
    return await visit.page(
        "dead.html",
        "dead",
        missing=missing,
        archived=archived,
        groups=groups,
        names=names,
        counts=counts,
        reason=reason,
        reasons=[each.value for each in ArchiveReason],
        types=sorted(types),
        filters=filters.shown,
        filtered=filtered,
        problem=visit.t(problem) if problem else "",
        cursor=cursor,
        next_cursor=next_cursor,
        query_with=lambda **changes: query_with(visit.request, **changes),
    )


def narrowed(filters: Filters, reason: str) -> Narrowed:
    """Return which letters these filters ask for; those that were replayed are left out."""
    scope = filters.match.scope
    tenant = number(scope.id) if scope and scope.kind == "tenant" else None
    other = scope if tenant is None else None
    return Narrowed(
        tenant_id=tenant,
        task_type=filters.type or None,
        scope=other.kind if other else None,
        scope_id=other.id if other else None,
        reason=reason or None,
        error=filters.error or None,
    )


def _by_reason(counts: Mapping[tuple[str, str], int]) -> Mapping[str, int]:
    found: Counter[str] = Counter()
    for (reason, _), n in counts.items():
        found[reason] += n
    return dict(found.most_common())


async def _chosen(visit: Frame, form: Form) -> list[Letter]:
    """Return the letters that a form is about, the first thousand of all that match."""
    filters = Filters.read({name: values[0] for name, values in form.items()})
    if filters.problem or first(form, "action").removeprefix(ALL) not in {"replay", "delete"}:
        raise Problem(400, "this form is not one of ours", "invalid_request")
    async with visit.desk.database.read() as sql:
        if first(form, "action").startswith(ALL):
            return await rows.listed(sql, narrowed(filters, first(form, "reason")), dead_letters.AT_ONCE)
        return await rows.by_id(
            sql, [int(one) for one in form.get("id", ()) if one.isdecimal() and len(one) < 19][:BATCH]
        )


@router.post("/dead/confirm")
async def ask_dead(visit: Visit) -> Response:
    """Ask before acting on dead letters."""
    form = await form_of(visit)
    found = await _chosen(visit, form)
    action = first(form, "action").removeprefix(ALL)
    sample = [(letter.task_type, letter.job_id) for letter in found]
    at_least = len(found) == dead_letters.AT_ONCE
    question = Question(
        "replay" if action == "replay" else "delete_letters",
        {"n": len(found)},
        len(found),
        at_least,
        sample,
        action == "delete",
    )
    return await ask(visit, question, form, back(visit, form, "/dead"))


@router.post("/dead")
async def do_dead(visit: Visit) -> Response:
    """Act on dead letters, in parts; after a while it says how far it came."""
    form = await form_of(visit)
    ids = [letter.id for letter in await _chosen(visit, form)]
    replay = first(form, "action").removeprefix(ALL) == "replay"
    effects: Counter[str] = Counter()
    end = asyncio.get_running_loop().time() + LONGEST_S
    for start in range(0, len(ids), BATCH):
        effects += await _act(visit, ids[start : start + BATCH], replay=replay)
        if asyncio.get_running_loop().time() > end:
            break
    if len(ids) == dead_letters.AT_ONCE or sum(effects.values()) < len(ids):
        effects["more"] = 0
    return back_with(back(visit, form, "/dead"), effects or {"nothing": 0})


async def _act(visit: Frame, ids: Sequence[int], *, replay: bool) -> Counter[str]:
    if not replay:
        return Counter(deleted=await dead_letters.delete(visit.call, ids))
    done = await dead_letters.replay(visit.call, ids)
    return Counter("replayed" if effect == "replayed" else "not_replayed" for effect in done.values())
