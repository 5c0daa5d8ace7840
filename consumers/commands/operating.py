"""The commands that see and steer jobs: their arguments and what is said of them."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from consumers.commands.terminal import named, run
from contracts.states import ArchiveReason, JobState

if TYPE_CHECKING:
    from consumers.commands import dead as dead_letters
    from pipeline.http.dashboard.filters import Filters

PAGE: Final = 100
MOST: Final = 10_000

operating = typer.Typer()
jobs = typer.Typer(no_args_is_help=True, help="See and steer jobs: one, some, or all that match.")
dead = typer.Typer(no_args_is_help=True, help="Jobs that were given up: see, replay and delete them.")
operating.add_typer(jobs, name="jobs")
operating.add_typer(dead, name="dead")

BaseName = Annotated[str, typer.Option("--kb", help="Name of the knowledge base.", callback=named)]
OfTenant = Annotated[int, typer.Option("--tenant", min=1, max=2**63 - 1, help="Whose knowledge bases.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Watch = Annotated[bool, typer.Option("--watch", help="Show it again every second, until Ctrl-C.")]
JobId = Annotated[str, typer.Argument(metavar="ID", help="Id of the job.")]
JobIds = Annotated[list[str] | None, typer.Argument(metavar="ID", help="Ids of jobs; or give filters.")]
Queue = Annotated[str | None, typer.Option(help="Only this queue.")]
QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="Which.")]
State = Annotated[JobState | None, typer.Option(help="Only this state.")]
Type = Annotated[str, typer.Option("--type", help="Only this type.")]
Tenant = Annotated[str, typer.Option(help="Only of this tenant, a number.")]
BelongsTo = Annotated[str, typer.Option("--scope", metavar="KIND:ID", help="Only of this scope.")]
Error = Annotated[str, typer.Option(help="Only with this in the last error.")]
Limit = Annotated[int, typer.Option(min=1, max=MOST, help="At most so many.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
LetterId = Annotated[str, typer.Argument(metavar="ID", help="Id of the dead letter, or of its job.")]
LetterIds = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Ids of dead letters or of their jobs; or give filters."),
]
Reason = Annotated[ArchiveReason | None, typer.Option(help="Only given up for this.")]
All = Annotated[bool, typer.Option("--all", help="All there are.")]


@operating.command()
def queues(watch: Watch = False, as_json: AsJson = False) -> None:
    """Show what waits, runs and failed, queue by queue, and how full the pools are."""
    from consumers.commands.queues import queues
    from consumers.commands.watching import quietly

    run(quietly(queues(as_json, watched=True)) if watch else queues(as_json), as_json=as_json)


@operating.command()
def workers(watch: Watch = False, as_json: AsJson = False) -> None:
    """Show the worker processes that live, and how busy they are."""
    from consumers.commands.queues import workers
    from consumers.commands.watching import quietly

    run(quietly(workers(as_json, watched=True)) if watch else workers(as_json), as_json=as_json)


@operating.command()
def pause(queue: QueueName, as_json: AsJson = False) -> None:
    """Let a queue start nothing, until it is resumed. What runs goes on."""
    from consumers.commands.queues import set_paused

    run(set_paused(queue, as_json, paused=True), as_json=as_json)


@operating.command()
def resume(queue: QueueName, as_json: AsJson = False) -> None:
    """Let a paused queue go on."""
    from consumers.commands.queues import set_paused

    run(set_paused(queue, as_json, paused=False), as_json=as_json)


@jobs.command("list")
def list_jobs(  # each is an option
    *,
    queue: Queue = None,
    state: State = None,
    type_: Type = "",
    tenant: Tenant = "",
    scope: BelongsTo = "",
    error: Error = "",
    limit: Limit = PAGE,
    as_json: AsJson = False,
) -> None:
    """List jobs, by default all that have not ended and the archived."""
    from consumers.commands.jobs import Choice, list_jobs

    choice = Choice((), queue, state, _filters(type_, tenant, scope, error))
    run(list_jobs(choice, limit, as_json), as_json=as_json)


@jobs.command("show")
def show(job_id: JobId, as_json: AsJson = False) -> None:
    """Show one job: where it stands and why, what happened to it, its parent and children."""
    from consumers.commands.jobs import show

    run(show(job_id, as_json), as_json=as_json)


def _act(action: str, what: str) -> None:
    """Add a command that does one thing to jobs."""

    def act(
        ids: JobIds = None,
        *,
        queue: Queue = None,
        state: State = None,
        type_: Type = "",
        tenant: Tenant = "",
        scope: BelongsTo = "",
        error: Error = "",
        yes: Yes = False,
        as_json: AsJson = False,
    ) -> None:
        from consumers.commands.acting import act
        from consumers.commands.jobs import Choice
        from pipeline.actions import Action

        choice = Choice(tuple(ids or ()), queue, state, _filters(type_, tenant, scope, error))
        run(act(Action(action), choice, yes=yes, as_json=as_json), as_json=as_json)

    jobs.command(action.replace("_", "-"), help=what)(act)


_act(
    "cancel",
    "Cancel jobs; those that run are told to stop. A scope alone (--scope knowledge_base:4711) is cancelled in every"
    " queue, with its documents and with what its jobs would still enqueue.",
)
_act("run_now", "Run waiting jobs at once, or give archived ones another attempt.")
_act("delete", "Delete jobs that have ended.")


@dead.command("list")
def list_dead(  # each is an option
    *,
    reason: Reason = None,
    type_: Type = "",
    tenant: Tenant = "",
    scope: BelongsTo = "",
    error: Error = "",
    replayed: Annotated[bool, typer.Option("--replayed", help="Those that were replayed.")] = False,
    limit: Limit = PAGE,
    as_json: AsJson = False,
) -> None:
    """List jobs that were given up and not replayed since, the last first."""
    from consumers.commands.dead import list_dead

    choice = _letters(None, reason, _filters(type_, tenant, scope, error))
    run(list_dead(choice, limit, replayed=replayed, as_json=as_json), as_json=as_json)


@dead.command("show")
def show_dead(letter: LetterId, as_json: AsJson = False) -> None:
    """Show why a job was given up, and what to do about it."""
    from consumers.commands.dead import show

    run(show(letter, as_json), as_json=as_json)


@dead.command("replay")
def replay(
    ids: LetterIds = None,
    *,
    reason: Reason = None,
    type_: Type = "",
    tenant: Tenant = "",
    scope: BelongsTo = "",
    error: Error = "",
    every: All = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Give jobs that were given up one more attempt; one that is no longer kept is enqueued anew."""
    from consumers.commands.dead import replay_dead

    choice = _letters(ids, reason, _filters(type_, tenant, scope, error), every=every)
    run(replay_dead(choice, yes=yes, as_json=as_json), as_json=as_json)


@dead.command("purge")
def purge(
    ids: LetterIds = None,
    *,
    reason: Reason = None,
    type_: Type = "",
    tenant: Tenant = "",
    scope: BelongsTo = "",
    error: Error = "",
    every: All = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete the records of jobs that were given up, and the jobs with them."""
    from consumers.commands.dead import purge

    choice = _letters(ids, reason, _filters(type_, tenant, scope, error), every=every)
    run(purge(choice, yes=yes, as_json=as_json), as_json=as_json)


def _filters(type_: str, tenant: str, scope: str, error: str) -> "Filters":
    from pipeline.http.dashboard.filters import Filters

    said = {"type": type_, "tenant": tenant, "scope": scope, "error": error}
    return Filters.read(said)


def _letters(
    ids: list[str] | None, reason: ArchiveReason | None, filters: "Filters", *, every: bool = False
) -> "dead_letters.Choice":
    from consumers.commands.dead import Choice

    return Choice(tuple(ids or ()), filters, reason.value if reason else "", every)
