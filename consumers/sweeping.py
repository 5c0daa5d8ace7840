"""One sweep: everything that got stuck is looked at, and put into order or put off."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import structlog

from consumers.knowledge import ids
from consumers.knowledge.answers import attachments
from consumers.knowledge.documents import leftovers, stillness
from consumers.knowledge.documents.leftovers import StillTask, Unsummarised
from consumers.knowledge.documents.stillness import Still
from consumers.knowledge.documents.verdicts import Standing, Verdict, Why, decide, lost_attachment, lost_task
from consumers.knowledge.search.store import SearchStore
from consumers.knowledge.upkeep import clearance
from consumers.waking import tell_wiki
from contracts.knowledge import ParseStatus
from contracts.payloads.enrichment import SummaryGeneration
from contracts.payloads.maintenance import KnowledgeBaseDelete, KnowledgeListDelete
from contracts.states import TERMINAL
from contracts.topology import QUEUES
from pipeline import Database, Outbox, Pipeline
from pipeline.errors import StoreUnavailable
from pipeline.store import audit, batches, dead_letters, now_ms

DAY_MS: Final = 86_400_000
SUMMARY_MS: Final = 3_600_000
DEATHS: Final = 1_000
"""How many deaths that nobody has dealt with yet are looked through."""

log = structlog.get_logger(component="housekeeping")


@dataclass(frozen=True, slots=True)
class Deed:
    """What was done, or would be, to a document, a task or a file; `message` is what that says of it, where it says anything."""

    document: str
    verdict: str
    message: str = ""


@dataclass(slots=True)
class Swept:
    """What a sweep came to. `deferred` counts by reason what was left alone; `queued_ms` is how long the oldest of those
    that wait in the queue has not moved; `forgotten` counts rows whose time is over.
    """

    deeds: list[Deed] = field(default_factory=list)
    deferred: Counter[str] = field(default_factory=Counter)
    queued_ms: int = 0
    wikis: int = 0
    attempts_closed: int = 0
    slots_closed: int = 0
    forgotten: int = 0


class Sweep:
    """One sweep. With `dry` it only says what it would do; it stops early when `goes_on` says no."""

    def __init__(
        self,
        pipeline: Pipeline,
        database: Database,
        outbox: Outbox,
        index: SearchStore,
        *,
        dry: bool = False,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> None:
        self._pipeline = pipeline
        self._inspector, self._broker = pipeline.inspector, pipeline.broker
        self._database, self._outbox, self._index = database, outbox, index
        self._dry, self._goes_on = dry, goes_on
        self._threshold_s = pipeline.settings.stuck_after_s
        self._now = now_ms()
        self._cutoff = self._now - round(self._threshold_s * 1000)
        self._under_way: set[str] | None = None
        self._doomed: set[str] = set()
        self._away = False
        self._waiting_for_wiki: set[str] = set()
        self._swept = Swept()

    async def run(self) -> Swept:
        """Look at everything once. Raises StoreUnavailable: the database cannot be read, and nothing was decided."""
        await self._documents()
        await self._wikis()
        await self._summaries()
        await self._leftovers()
        await self._tasks()
        await self._attachments()
        await self._bases()
        await self._old_rows()
        swept = self._swept
        if queued := swept.deferred[Why.QUEUED]:
            log.info(Why.QUEUED.value, documents=queued, oldest_s=swept.queued_ms // 1000)
        log.info(
            "swept",
            seconds=round((now_ms() - self._now) / 1000, 1),
            dry=self._dry,
            done=dict(Counter(deed.verdict for deed in swept.deeds)),
            deferred={str(why): count for why, count in swept.deferred.items()},
            wikis=swept.wikis,
            attempts_closed=swept.attempts_closed,
            slots_closed=swept.slots_closed,
            forgotten=swept.forgotten,
        )
        return swept

    async def _documents(self) -> None:
        async with self._database.read() as session:
            found = await stillness.motionless(session, self._cutoff)
        if found and (under_way := await self._scan()):  # a backlog has very many of them
            for ident, (status, moved_at) in list(found.items()):
                if ident in under_way and status is not ParseStatus.DELETING:
                    del found[ident]
                    self._put_off(Why.QUEUED, moved_at)
        for some in batches(list(found)):
            async with self._database.read() as session:
                documents = await stillness.standing(session, some)
            for document in documents:
                if not self._goes_on():
                    return
                await self._see_to(document)

    def _put_off(self, why: Why, moved_at: int) -> None:
        self._swept.deferred[why] += 1
        if why is Why.QUEUED:
            self._swept.queued_ms = max(self._swept.queued_ms, self._now - moved_at)

    async def _see_to(self, document: Still) -> None:
        standing = document.standing
        if standing.moved_at < self._cutoff and not standing.held:
            standing = await self._asked(document)
            document = replace(document, standing=standing)
        verdict, why = decide(standing, self._cutoff)
        match verdict:
            case Verdict.DEFER:
                self._put_off(why, standing.moved_at)
            case Verdict.REARM:
                self._put_off(why, standing.moved_at)
                self._waiting_for_wiki.add(document.kb_id)
            case _:
                await self._do(verdict, why, document)

    async def _do(self, verdict: Verdict, why: Why, document: Still) -> None:
        message = ""
        if not self._dry:
            try:
                message = await self._act(verdict, document)
            except StoreUnavailable as error:
                self._lost_sight(error)
                self._swept.deferred[Why.UNKNOWN] += 1
                return
            if not message:
                self._swept.deferred[Why.MOVED] += 1
                return
            log.warning(why.value, document=document.id, then=verdict.value, message=message)
        self._swept.deeds.append(Deed(document.id, verdict.value, message or why.value))

    async def _act(self, verdict: Verdict, document: Still) -> str:
        """Return what is said of it, "" where the document moved meanwhile."""
        async with self._outbox.transaction() as session:
            if verdict is Verdict.GO_ON:
                return await stillness.go_without(session, document)
            if verdict is Verdict.DELETE_AGAIN:
                return await stillness.delete_again(session, document)
            if document.standing.status is ParseStatus.DELETING:
                return await stillness.give_up_deleting(session, document, self._threshold_s)
            return await stillness.give_up(session, self._index, document, self._threshold_s)

    async def _asked(self, document: Still) -> Standing:
        """Return how a document stands, with what the queue knows of it."""
        standing = document.standing
        waiting = await self._scan()
        if waiting is None:
            return standing
        parted = standing.status is ParseStatus.PROCESSING and standing.parsed and not standing.slots
        try:
            queued = document.id in self._doomed or await self._has_work(document)
            lost = parted and not queued and await self._is_unheard_of(document)
        except StoreUnavailable as error:
            self._lost_sight(error)
            return standing
        return replace(standing, queued=queued, next_lost=lost)

    async def _has_work(self, document: Still) -> bool:
        if document.standing.status is not ParseStatus.DELETING:
            return await self._inspector.has_queued("knowledge", document.id)
        of_it, of_base = {KnowledgeListDelete.spec.type}, {KnowledgeBaseDelete.spec.type}
        return await self._inspector.has_queued(
            "knowledge", document.id, of_it
        ) or await self._inspector.has_queued("knowledge_base", document.kb_id, of_base)

    async def _is_unheard_of(self, document: Still) -> bool:
        """Whether the queue has never heard of the post-processing of a document."""
        (state,) = await self._broker.states([ids.postprocess_job(document.id, document.attempt)])
        return state is None

    async def _scan(self) -> set[str] | None:
        """Return the documents that have work before them, as they were once in this sweep; None where that cannot be told,
        for all that come after, too.
        """
        if self._under_way is None and not self._away:
            try:
                self._under_way = await self._inspector.queued_ids("knowledge")
                self._doomed = await self._dying()  # after that: what ended in between is among the dead
            except StoreUnavailable as error:
                self._lost_sight(error)
        return None if self._away else self._under_way

    def _lost_sight(self, error: StoreUnavailable) -> None:
        if not self._away:
            log.warning("not everything can be asked: what is left is put off", error=str(error))
        self._away = True

    async def _dying(self) -> set[str]:
        """Return the documents of jobs that died and whose final-failure hook is yet to come."""
        letters = await self._broker.dead_letters(list(QUEUES), DEATHS)
        if len(letters) == DEATHS:
            raise StoreUnavailable("so many deaths are not dealt with that there may be more")
        found: set[str] = set()
        for letter in letters:
            try:
                said = json.loads(letter.record.get("data", ""))
                found |= {said.get("knowledge_id", ""), *(said.get("knowledge_ids") or ())}
            except (ValueError, TypeError, AttributeError):  # poison has no document
                continue
        return found

    async def _wikis(self) -> None:
        """Tell each wiki that is waited for long, once a threshold, that it has work."""
        async with self._database.read() as session:
            backlogs = await leftovers.wiki_backlogs(session)
        for backlog in backlogs:
            late = backlog.oldest < self._cutoff or backlog.lane.scope_id in self._waiting_for_wiki
            if self._away or not (late and self._goes_on()):
                continue
            times = (self._now - backlog.oldest) // round(self._threshold_s * 1000)
            try:
                told = await tell_wiki(
                    self._pipeline, self._outbox, backlog, backlog.oldest, times, dry=self._dry
                )
            except StoreUnavailable as error:
                self._lost_sight(error)
            else:
                self._swept.wikis += told

    async def _summaries(self) -> None:
        kinds, cutoff, after = {SummaryGeneration.spec.type}, self._now - SUMMARY_MS, ""
        while self._goes_on():
            async with self._database.read() as session:
                found = await leftovers.unsummarised(session, cutoff, after)
            if not found:
                return
            for one in found:
                await self._see_to_summary(one, kinds)
            after = found[-1].id

    async def _see_to_summary(self, one: Unsummarised, kinds: set[str]) -> None:
        try:
            if self._away or await self._inspector.has_queued("knowledge", one.id, kinds):
                return
            if not self._dry:
                async with self._outbox.transaction() as session:
                    if not await leftovers.give_up_summary(session, one):
                        return
                log.warning("its summary was lost", document=one.id, was=one.status.value)
        except StoreUnavailable as error:
            self._lost_sight(error)
            return
        self._swept.deeds.append(Deed(one.id, "fail_summary"))

    async def _leftovers(self) -> None:
        """Close what is open of attempts that are over."""
        while self._goes_on():
            async with self._database.read() as session:
                attempts = await leftovers.unclosed(session, self._cutoff)
                slots = await leftovers.vain_slots(session, self._cutoff)
            self._swept.attempts_closed += len(attempts)
            self._swept.slots_closed += len(slots)
            if self._dry or not (attempts or slots):
                return
            for one in attempts:
                async with self._outbox.transaction() as session:
                    await leftovers.close_spans(session, one)
            if slots:
                async with self._outbox.transaction() as session:
                    await leftovers.close_slots(session, slots)

    async def _tasks(self) -> None:
        """End the tasks whose jobs are lost: whoever watches one would wait for ever."""
        async with self._database.read() as session:
            found = await leftovers.motionless_tasks(session, self._cutoff)
        for some in batches(found):
            named = [task.id for task in some]
            try:
                lost = await self._jobless(named)
                lost -= {one for one in lost if await self._inspector.has_queued("task", one)}
            except StoreUnavailable as error:
                self._lost_sight(error)
                self._swept.deferred[Why.UNKNOWN] += len(some)
                return
            for task in some:
                if task.id not in lost:
                    self._put_off(Why.QUEUED, task.updated_at)
                elif self._goes_on():
                    await self._give_up_task(task)

    async def _jobless(self, job_ids: Sequence[str]) -> set[str]:
        """Return those of these jobs of which nothing is to come. Raises StoreUnavailable."""
        async with self._database.read() as session:
            unsent = await leftovers.unsent(session, job_ids)  # first: from there jobs come to the queue
        states = await self._broker.states(job_ids)
        ended = {
            job for job, state in zip(job_ids, states, strict=True) if state is None or state in TERMINAL
        }
        return ended - unsent

    async def _give_up_task(self, task: StillTask) -> None:
        message = lost_task(task.updated_at, self._threshold_s)
        if not self._dry:
            async with self._outbox.transaction() as session:
                if not await leftovers.give_up_task(session, task, message):
                    return
            log.warning("a task is lost", task=task.id, kind=task.kind, message=message)
        self._swept.deeds.append(Deed(task.id, "fail_task", message))

    async def _attachments(self) -> None:
        """Fail the attached files whose jobs are lost."""
        async with self._database.read() as session:
            found = await attachments.motionless(session, self._cutoff)
        for some in batches(list(found)):
            jobs = {attachments.reading_job(one): one for one in some}
            try:
                lost = {jobs[job] for job in await self._jobless(list(jobs))}
            except StoreUnavailable as error:
                self._lost_sight(error)
                self._swept.deferred[Why.UNKNOWN] += len(some)
                return
            for one in some:
                if one not in lost:
                    self._put_off(Why.QUEUED, found[one])
                elif self._goes_on():
                    await self._give_up_attachment(one, found[one])

    async def _give_up_attachment(self, ident: str, moved_at: int) -> None:
        message = lost_attachment(moved_at, self._threshold_s)
        if not self._dry:
            async with self._outbox.transaction() as session:
                if not await attachments.give_up(session, ident, moved_at, message):
                    return
            log.warning("an attached file is lost", attachment=ident, message=message)
        self._swept.deeds.append(Deed(ident, "fail_attachment", message))

    async def _bases(self) -> None:
        """Ask once more for the end of bases that are deleted and there still."""
        async with self._database.read() as session:
            found = await leftovers.half_deleted(session, self._cutoff)
        for base in found:
            try:
                if self._away or await self._inspector.has_queued(
                    "knowledge_base", base.id, {clearance.KIND}
                ):
                    self._put_off(Why.UNKNOWN if self._away else Why.QUEUED, base.updated_at)
                    continue
            except StoreUnavailable as error:
                self._lost_sight(error)
                continue
            if not self._goes_on():
                return
            if not self._dry:
                async with self._outbox.transaction() as session:
                    task_id = await clearance.ask_again(session, base)
                log.warning(Why.STRANDED.value, base=base.id, task=task_id)
            self._swept.deeds.append(Deed(base.id, Verdict.DELETE_AGAIN.value, Why.STRANDED.value))

    async def _old_rows(self) -> None:
        """Forget deaths and deeds whose time is over."""
        settings = self._pipeline.settings
        for prune, days in (
            (dead_letters.prune, settings.archived_retention_days),
            (audit.prune, settings.audit_retention_days),
        ):
            gone = 1
            while gone and self._goes_on() and not self._dry:
                async with self._outbox.transaction() as session:
                    gone = await prune(session, self._now - round(days * DAY_MS))
                self._swept.forgotten += gone
