"""What the admin API answers with and is given. Times are milliseconds since the epoch, but for `timestamp`."""

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from contracts.states import JobState
from pipeline.actions import Action, Effect
from pipeline.store.audit import Outcome


class Success(BaseModel):
    """It was done."""

    success: bool = True


class Deleted(Success):
    """So many were deleted."""

    deleted: int


class Pool(BaseModel):
    """Slots: configured in each instance, of the whole cluster, taken; `utilization` is 0 to 1."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    concurrency: int
    queue_count: int
    instances: int
    cluster_capacity: int
    active: int
    utilization: float


class QueueRow(BaseModel):
    """A queue. `processed` counts the attempts that ended today (UTC), `failed` those of them that failed; `latency_ms` is
    the age of the oldest that waits.
    """

    model_config = ConfigDict(from_attributes=True)

    name: str
    pool: str
    weight: int
    size: int
    pending: int
    active: int
    scheduled: int
    retry: int
    archived: int
    completed: int
    cancelled: int
    processed: int
    failed: int
    cancelled_today: int
    paused: bool
    latency_ms: int
    memory_usage_bytes: int


class ModelRow(BaseModel):
    """A model and its limit of simultaneous calls."""

    model_id: str
    name: str
    active: int
    waiting: int
    limit: int


class Queues(BaseModel):
    """The whole system at a glance. `timestamp` is in seconds; `parse_concurrency` is `upstream_concurrency`."""

    available: bool
    upstream_concurrency: int
    parse_concurrency: int
    wiki_concurrency: int
    pools: list[Pool]
    queues: list[QueueRow]
    model_limiter_available: bool
    models: list[ModelRow]
    timestamp: int


class Task(BaseModel):
    """What may be seen of a job: never its payload. What is not set is left out."""

    model_config = ConfigDict(extra="allow")

    id: str
    queue: str
    type: str
    state: JobState
    allowed_actions: list[Action]
    retried: int
    max_retry: int
    last_error: str | None = None
    last_failed_at: int | None = None
    next_process_at: int | None = None
    started_at: int | None = None
    completed_at: int | None = None
    deadline: int | None = None
    enqueued_at: int | None = None
    is_orphaned: bool | None = None
    worker: str | None = None
    reason: str | None = None
    why: list[str] | None = None


class Tasks(BaseModel):
    """A page of jobs. `next_cursor` is there if `has_more`."""

    available: bool = True
    tasks: list[Task]
    page_size: int
    has_more: bool
    next_cursor: str | None = None


class WhyRow(BaseModel):
    """One reason why a job waits, and what its text has to name."""

    code: str
    params: dict[str, Any]


class HappeningRow(BaseModel):
    """One thing that happened to a job."""

    model_config = ConfigDict(from_attributes=True)

    at: int
    what: str
    error: str
    worker: str


class ProgressRow(BaseModel):
    """How far a running job says it is."""

    model_config = ConfigDict(from_attributes=True)

    done: int
    total: int
    stage: str
    at: int


class Options(BaseModel):
    """What the job was enqueued with. `timeout` and `retention` are in seconds."""

    timeout: float | None = None
    retention: float
    deadline: int | None = None
    unique_key: str | None = None
    scopes: list[str]


class TaskDetail(BaseModel):
    """A job with all that may be seen of it and around it."""

    task: Task
    why: list[WhyRow]
    history: list[HappeningRow]
    progress: ProgressRow | None = None
    cancel_requested: bool
    crashes: int
    options: Options
    parent: Task | None = None
    root: Task | None = None
    children: list[Task]
    more_children: bool
    dead_letters: list[int] = Field(description="ids of its deaths in the ledger")


class Selection(BaseModel):
    """Which jobs of a queue: those named, or all in a state that match. `scope` is kind:id."""

    model_config = ConfigDict(extra="forbid")

    task_ids: list[Annotated[str, Field(max_length=128)]] | None = Field(None, max_length=1000)
    state: JobState | None = None
    type: str = Field("", max_length=64)
    scope: str = Field("", max_length=170)
    error: str = Field("", max_length=500)
    cursor: str | None = Field(None, max_length=16_384)


class Effects(Success):
    """What truly happened to each, and why what was refused was. `next_cursor`: there are more; go on with it."""

    effects: dict[str, Effect]
    counts: dict[Effect, int]
    refusals: dict[str, str] = {}
    next_cursor: str | None = None


class Worker(BaseModel):
    """A worker process that lives."""

    model_config = ConfigDict(from_attributes=True)

    worker: str
    host: str
    pid: int
    started_at: int
    seen_at: int
    state: str
    pools: list["WorkerPool"]


class WorkerPool(BaseModel):
    """A pool inside one worker process."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    slots: int
    active: int
    weights: dict[str, int]


class Workers(BaseModel):
    """The worker processes that live."""

    workers: list[Worker]


class Hour(BaseModel):
    """What a queue did in the hour that began at `at`: attempts that ended, and those of them that failed."""

    model_config = ConfigDict(from_attributes=True)

    queue: str
    at: int
    processed: int
    failed: int
    cancelled: int


class History(BaseModel):
    """What each queue did, hour by hour."""

    hours: list[Hour]


class Queued(BaseModel):
    """Whether a scope has a job that is not ended."""

    has_queued: bool


class QueuedIds(BaseModel):
    """Scopes of a kind that have a job that is not ended."""

    ids: list[str]


SHOWN_EFFECTS: Final = 1_000


class ScopeCancelled(Success):
    """What became of the jobs: cancelled, still stopping after a second, or ended before they could be; and of each of the
    first thousand by its id.
    """

    cancelled: int
    signalled: int
    too_late: int
    effects: dict[str, Effect]
    more: bool


class LetterRow(BaseModel):
    """One death of a job. `replayed_at` 0: it was not given another chance."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    job_id: str
    tenant_id: int
    task_type: str
    scope: str
    scope_id: str
    related_id: str
    reason: str
    last_error: str
    fail_count: int
    failed_at: int
    replayed_at: int


class LetterGroup(BaseModel):
    """So many jobs of a type died of one reason."""

    reason: str
    task_type: str
    count: int


class Letters(BaseModel):
    """A page of deaths, the last first, and how many there are of each kind."""

    dead_letters: list[LetterRow]
    groups: list[LetterGroup]
    page_size: int
    has_more: bool
    next_cursor: str | None = None


class LetterDetail(BaseModel):
    """A death, and its job if that is still there."""

    dead_letter: LetterRow
    task: Task | None = None


class LetterSelection(BaseModel):
    """Which deaths: those named, or all that match and were not replayed; `all` where nothing is to be matched."""

    model_config = ConfigDict(extra="forbid")

    ids: list[Annotated[int, Field(ge=1, le=2**63 - 1)]] | None = Field(None, max_length=1000)
    scope: str = Field("", max_length=170)
    type: str | None = Field(None, max_length=64)
    reason: str | None = Field(None, max_length=32)
    error: str | None = Field(None, max_length=500)
    all: bool = False

    @property
    def says_which(self) -> bool:
        """Whether it is more than an empty wish, which is no wish for everything."""
        return self.all or self.ids is not None or any((self.scope, self.type, self.reason, self.error))


class LetterEffects(Success):
    """What truly happened to each. `more`: there are others; ask again."""

    effects: dict[int, str]
    counts: dict[str, int]
    more: bool = False


class AuditRow(BaseModel):
    """Who did what to what, and what came of it."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    tenant_id: int
    actor_user_id: str
    actor_role: str
    action: str
    scope_type: str
    scope_id: str
    target_type: str
    target_id: str
    target_user_id: str
    request_path: str
    request_method: str
    outcome: Outcome
    details: dict[str, str]
    created_at: int


class AuditLog(BaseModel):
    """A page of the audit log, the newest first."""

    logs: list[AuditRow]
    page_size: int
    has_more: bool
    next_cursor: str | None = None
