"""What a store should do, in the simplest form that can be written down: a dictionary of jobs.

The model is told what it cannot know: which pending jobs a claim gave, and the times at which the store put roots and
cuts. Times otherwise are only soon or far: `soon` has come when anybody promotes, `far` never does.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from contracts.jobs import Scope
from contracts.outcomes import Cancel, Done, Retry, Skip, Snooze
from contracts.states import TERMINAL, WAITING, JobState
from pipeline.broker import CancelOutcome, Delivery, NewJob
from pipeline.receipt import Receipt

FAR_MS = 3_600_000
FAR_S = FAR_MS / 1000
MAX_CRASHES = 1


@dataclass
class Known:
    """A job that the store has heard of. `recorded` False: only its last state is remembered."""

    new: NewJob
    state: JobState
    soon: bool = True
    root_at: int = 0
    retried: int = 0
    crashes: int = 0
    holder: tuple[str, str] = ("", "")
    told: bool = False
    again: NewJob | None = None
    recorded: bool = True


@dataclass
class Model:
    jobs: dict[str, Known] = field(default_factory=dict)
    locks: dict[str, str] = field(default_factory=dict)
    cuts: dict[Scope, int] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    letters: list[str] = field(default_factory=list)

    # What can be asked

    def states(self) -> dict[str, JobState]:
        return {job_id: job.state for job_id, job in self.jobs.items()}

    def counted(self) -> Counter[tuple[str, JobState]]:
        return Counter((j.new.job.queue, j.state) for j in self.jobs.values() if j.recorded)

    def in_state(self, *states: JobState) -> list[str]:
        return [job_id for job_id, job in self.jobs.items() if job.state in states and job.recorded]

    def current(self, delivery: Delivery) -> Known | None:
        """The job, if this delivery is the current one."""
        job = self.jobs[delivery.job_id]
        held = job.state is JobState.ACTIVE and job.holder == (delivery.entry, delivery.consumer)
        return job if held else None

    def live_scopes(self) -> set[Scope]:
        return {
            scope
            for job in self.jobs.values()
            if job.recorded and job.state not in TERMINAL
            for scope in job.new.job.scopes
        }

    # What can happen

    def enqueue(self, news: Sequence[NewJob]) -> list[Receipt]:
        return [self._enqueue(new) for new in news]

    def _enqueue(self, new: NewJob) -> Receipt:
        job = new.job
        older = self.jobs.get(job.id)
        if older is not None:
            return Receipt(job.id, older.state, duplicate=True)
        if job.root_at and any(job.root_at <= self.cuts.get(scope, -1) for scope in job.scopes):
            self.jobs[job.id] = Known(new, JobState.CANCELLED, recorded=False)
            return Receipt(job.id, JobState.CANCELLED)
        if job.unique is not None and (held_by := self.locks.get(job.unique.key)):
            holder = self.jobs[held_by]
            if job.unique.on_conflict != "replace" or holder.state not in WAITING:
                return self._coalesce(held_by, holder, new)
            holder.state = JobState.CANCELLED
        state = JobState.SCHEDULED if new.delay_ms else JobState.PENDING
        self.jobs[job.id] = Known(new, state, soon=new.delay_ms < FAR_MS)
        if job.unique is not None:
            self.locks[job.unique.key] = job.id
        return Receipt(job.id, state)

    def _coalesce(self, held_by: str, holder: Known, new: NewJob) -> Receipt:
        assert new.job.unique is not None
        conflict = new.job.unique.on_conflict
        if conflict == "debounce" and holder.state in {JobState.SCHEDULED, JobState.RETRY}:
            holder.soon = new.delay_ms < FAR_MS
        elif conflict != "drop" and holder.state is JobState.ACTIVE:
            holder.again = new
        return Receipt(held_by, holder.state, duplicate=True)

    def claimed(self, deliveries: Iterable[Delivery]) -> None:
        for delivery in deliveries:
            job = self.jobs[delivery.job_id]
            assert job.state is JobState.PENDING
            assert delivery.queue not in self.paused
            job.state, job.holder, job.told = JobState.ACTIVE, (delivery.entry, delivery.consumer), False
            if job.new.job.unique is not None and job.new.job.unique.until == "started":
                self._unlock(delivery.job_id, job)

    def settle(self, delivery: Delivery, outcome: BaseException | None) -> JobState | None:
        job = self.current(delivery)
        if job is None:
            return None
        if job.told and not (outcome is None or isinstance(outcome, Done)):
            return self._end(delivery.job_id, JobState.CANCELLED)
        match outcome:
            case None | Done():
                return self._end(delivery.job_id, JobState.COMPLETED)
            case Cancel():
                return self._end(delivery.job_id, JobState.CANCELLED)
            case Skip():
                return self._end(delivery.job_id, JobState.ARCHIVED)
            case Snooze():
                job.state, job.soon = JobState.SCHEDULED, False
            case _ if job.retried >= job.new.job.max_retry:
                return self._end(delivery.job_id, JobState.ARCHIVED)
            case _:
                soon = isinstance(outcome, Retry) and not outcome.after
                job.state, job.soon, job.retried = JobState.RETRY, soon, job.retried + 1
        return job.state

    def release(self, deliveries: Sequence[Delivery]) -> int:
        ours = [d for d in deliveries if self.current(d)]
        for delivery in ours:
            job = self.jobs[delivery.job_id]
            if job.told:
                self._end(delivery.job_id, JobState.CANCELLED)
            else:
                job.state = JobState.PENDING
        return len(ours)

    def reclaim(self, job_id: str) -> JobState:
        """One job whose worker was lost."""
        job = self.jobs[job_id]
        assert job.state is JobState.ACTIVE
        if job.told:
            return self._end(job_id, JobState.CANCELLED)
        job.crashes += 1
        if job.crashes > MAX_CRASHES:
            return self._end(job_id, JobState.ARCHIVED)
        job.state = JobState.PENDING
        return job.state

    def promote(self) -> int:
        due = [self.jobs[i] for i in self.in_state(JobState.SCHEDULED, JobState.RETRY) if self.jobs[i].soon]
        for job in due:
            job.state = JobState.PENDING
        return len(due)

    def cancel(self, job_id: str) -> CancelOutcome:
        job = self.jobs[job_id]
        match job.state:
            case JobState.ACTIVE:
                job.told, job.again = True, None
                return CancelOutcome.SIGNALLED
            case state if state in WAITING:
                job.again = None
                self._end(job_id, JobState.CANCELLED)
                return CancelOutcome.CANCELLED
            case JobState.CANCELLED:
                return CancelOutcome.CANCELLED
        return CancelOutcome.TOO_LATE

    def cancel_scope(self, scope: Scope, cut: int) -> tuple[set[str], set[str]]:
        """The jobs that were cancelled and those that were told to stop."""
        self.cuts[scope] = max(self.cuts.get(scope, -1), cut)
        covered = [i for i, j in self.jobs.items() if j.recorded and scope in j.new.job.scopes]
        waiting = {i for i in covered if self.jobs[i].state in WAITING}
        active = {i for i in covered if self.jobs[i].state is JobState.ACTIVE}
        for job_id in waiting | active:
            self.cancel(job_id)
        return waiting, active

    def run_now(self, job_id: str) -> bool:
        """Whether it may."""
        job = self.jobs[job_id]
        if job.state in {JobState.SCHEDULED, JobState.RETRY}:
            job.state = JobState.PENDING
            return True
        unique = job.new.job.unique
        if job.state is not JobState.ARCHIVED or not job.recorded:
            return False
        if any(job.root_at <= self.cuts.get(scope, -1) for scope in job.new.job.scopes):
            return False
        if unique is not None and unique.until == "done":
            if unique.key in self.locks:
                return False
            self.locks[unique.key] = job_id
        job.state, job.crashes = JobState.PENDING, 0
        job.retried = max(job.retried, job.new.job.max_retry)
        return True

    def delete(self, job_id: str) -> bool:
        """Whether it may."""
        job = self.jobs[job_id]
        if not job.recorded or job.state not in TERMINAL:
            return False
        job.recorded = False
        return True

    def purge(self, queue: str) -> int:
        gone = [i for i in self.in_state(JobState.ARCHIVED) if self.jobs[i].new.job.queue == queue]
        return sum(self.delete(job_id) for job_id in gone)

    def prune(self) -> int:
        """Whatever was archived or cancelled has been kept long enough."""
        return sum(self.delete(job_id) for job_id in self.in_state(JobState.ARCHIVED, JobState.CANCELLED))

    def _end(self, job_id: str, state: JobState) -> JobState:
        job = self.jobs[job_id]
        if job.again is not None:  # an enqueue waited for this end, and has its turn
            stays = replace(job.again.job, queue=job.new.job.queue)
            job.new, job.root_at = NewJob(stays, job.again.delay_ms, named=job.new.named), 0
            job.state, job.soon = JobState.SCHEDULED, job.again.delay_ms < FAR_MS
            job.retried = job.crashes = 0
            job.again, job.told = None, False
            return job.state
        job.state = state
        self._unlock(job_id, job)
        if state is JobState.ARCHIVED:
            self.letters.append(job_id)
        if state is JobState.COMPLETED and not job.new.job.retention_ms:
            job.recorded = False
        return state

    def _unlock(self, job_id: str, job: Known) -> None:
        unique = job.new.job.unique
        if unique is not None and self.locks.get(unique.key) == job_id:
            del self.locks[unique.key]
