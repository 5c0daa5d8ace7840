"""Whatever is done to a store, in whatever order, with whatever lost and whoever crashing: it does what the model does."""

import asyncio
import itertools
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

import pytest
from contracts.fences import EVERYTHING
from contracts.jobs import OnConflict, Scope, Unique
from contracts.outcomes import Cancel, Retry, Skip, Snooze
from contracts.states import JobState
from contracts.topology import by_home, home
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from pipeline.broker import Broker, DeadLetter, Delivery, LeaseState, NewJob, ReclaimPolicy, Retention
from pipeline.clock import now_ms
from pipeline.errors import JobNotFound, NotAllowed, StoreUnavailable

from tests.properties.model import FAR_MS, FAR_S, MAX_CRASHES, Model
from tests.support.backends import BACKENDS, Backend
from tests.support.faults import Loss
from tests.support.hand import Hand, envelope, new, settlement
from tests.support.waiting import wait_until

T = TypeVar("T")
LEASE_MS: Final = 40
AT_HOME: Final = ["default", "default", "chat_attachment"]
"""Where jobs of one type may go: what they share, a unique key, lies in one home."""
QUEUES: Final = ["default", "chat_attachment", "summary"]
SCOPES: Final = [Scope("knowledge", "k1"), Scope("knowledge", "k2")]

options = st.fixed_dictionaries(
    {
        "queue": st.sampled_from([*AT_HOME, "summary"]),
        "delay_ms": st.sampled_from([0, 0, 0, 1, FAR_MS]),
        "named": st.booleans(),
        "max_retry": st.integers(0, 1),
        "retention_ms": st.sampled_from([0, FAR_MS]),
    }
)
uniques = st.builds(
    Unique,
    st.just("u"),
    st.just(0),
    st.sampled_from(["done", "done", "started"]),
    st.sampled_from(get_args(OnConflict)),
)
belonging: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"unique": uniques, "queue": st.sampled_from(AT_HOME)}),
    st.fixed_dictionaries({"scopes": st.sets(st.sampled_from(SCOPES), min_size=1).map(tuple)}),
)
wanted = st.builds(lambda one, other: one | other, options, belonging)
ENDS: Final = (None, None, Retry(), Retry(after=0), Snooze(FAR_S), Skip("no"), Cancel("no"))
HOLD: Final = "hold"
said = st.lists(st.sampled_from([HOLD, HOLD, HOLD, *ENDS]), min_size=1, max_size=4)

WEIGHTS: Final[Mapping[str, int]] = {
    "work": 7,
    "settle": 4,
    "enqueue": 3,
    "contend": 3,
    "promote": 2,
    "intervene": 2,
    "crash": 1,
    "cancel": 1,
    "cancel_scope": 1,
    "enqueue_again": 1,
    "enqueue_child": 1,
    "release": 1,
    "renew": 1,
    "pause": 1,
    "keep_house": 2,
    "record_deaths": 1,
    "restart": 1,
}


def place(delivery: Delivery) -> tuple[str, str]:
    """What names a delivery: an entry is one of its queue."""
    return delivery.queue, delivery.entry


class StoreMachine(RuleBasedStateMachine):
    """Subclassed for each backend. One rule for all steps, so that their weights, not chance, decide what is frequent."""

    make: Callable[[Path], Backend]

    @initialize(first=st.lists(wanted, min_size=4, max_size=8))
    def open(self, first: list[dict[str, Any]]) -> None:
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.backend = type(self).make(Path(self.folder.name))
        self.model = Model()
        self.numbers = itertools.count(1)
        self.store: Broker = self.run(self.backend.open())
        self.hands = [Hand(self.store), Hand(self.store)]
        self.deliveries: list[Delivery] = []
        self.loss = Loss.NOTHING
        self._enqueue([self._new(**one) for one in first])

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.run(self.backend.close())
            self.runner.close()
            self.folder.cleanup()

    @rule(
        name=st.sampled_from([name for name, weight in WEIGHTS.items() for _ in range(weight)]),
        loss=st.sampled_from(Loss),
        data=st.data(),
    )
    def step(self, name: str, loss: Loss, data: st.DataObject) -> None:
        self.loss = loss
        getattr(self, name)(data.draw)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def insist(self, operation: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Call an operation, again when the first call loses something."""

        async def insisted() -> T:
            if self.loss is Loss.NOTHING or [] in args:  # a store may answer by itself where nothing is asked
                self.loss = Loss.NOTHING
                return await operation(*args)
            self.backend.faults.lose(self.loss, operation.__name__)
            with pytest.raises(StoreUnavailable):
                await operation(*args)
            return await operation(*args)

        return self.run(insisted())

    def unless_done(self, expected: T, repeated: T) -> T:
        """What the last call answers: `repeated` where a first one, whose reply was lost, has done it all."""
        return repeated if self.loss is Loss.REPLY else expected

    def check_rest(self, got: Any, whole: Any, nothing: Any) -> None:
        """Check what the last call answers where a first one, of which something was lost, may have done a part: an
        operation on several homes is one transition in each.
        """
        assert got == whole if self.loss is Loss.NOTHING else nothing <= got <= whole

    # Producing

    def enqueue(self, draw: Any) -> None:
        self._enqueue([self._new(**one) for one in draw(st.lists(wanted, min_size=1, max_size=4))])

    def contend(self, draw: Any) -> None:
        """For the one unique key there is."""
        place = draw(st.sampled_from(AT_HOME))
        self._enqueue([self._new(**draw(options) | {"queue": place, "unique": draw(uniques)})])

    def _enqueue(self, news: list[NewJob]) -> None:
        """Enqueue together; where something is lost home by home, for of several homes one alone would be repeated."""
        parts = [news]
        if self.loss is not Loss.NOTHING:
            parts = [list(some) for _, some in itertools.groupby(news, lambda one: home(one.job.queue))]
        for part in parts:
            got = self.insist(self.store.enqueue, part)
            expected = self.model.enqueue(part)
            if self.loss is Loss.REPLY:
                expected = self.model.enqueue(part)
            assert got == expected

    def enqueue_again(self, draw: Any) -> None:
        """Somebody repeats an enqueue, however long ago it was."""
        known = draw(st.sampled_from(list(self.model.jobs.values())))
        self._enqueue([known.new])

    def enqueue_child(self, draw: Any) -> None:
        """Of any job that ever ran: its worker may be slow to notice that it was cancelled."""
        for delivery in self._some(draw, 1):
            parent = envelope(delivery)
            inherited: dict[str, Any] = {
                "scopes": parent.scopes,
                "root_id": parent.root_id,
                "root_at": parent.root_at,
            }
            self._enqueue([self._new(named=True, **inherited)])

    # Consuming

    def work(self, draw: Any) -> None:
        """Claim, settle some at once and hold the others."""
        ends = draw(said)
        for delivery, end in zip(self._claim(draw(st.integers(0, 1)), len(ends)), ends, strict=False):
            if end != HOLD:
                self.loss = Loss.NOTHING
                self._settle(delivery, end)

    def _claim(self, who: int, count: int) -> list[Delivery]:
        pending = self.model.in_state(JobState.PENDING)
        before = set(map(place, self.deliveries))
        taken = self.run(self._claimed(self.hands[who], count, before))
        for queues in by_home(QUEUES, str).values():
            wanted = gettable = 0
            for queue in queues:
                waiting = [i for i in pending if self.model.jobs[i].new.job.queue == queue]
                waiting = [] if queue in self.model.paused else waiting
                got = [delivery.job_id for delivery in taken if delivery.queue == queue]
                assert set(got) <= set(waiting)
                assert len(got) >= min(count, len(waiting))
                wanted, gettable = wanted + count, gettable + len(waiting)
            assert sum(delivery.queue in queues for delivery in taken) == min(wanted, gettable)
        self.model.claimed(taken)
        for delivery in taken:
            known, job = self.model.jobs[delivery.job_id], envelope(delivery)
            assert (job.retried, job.crashes) == (known.retried, known.crashes)
            assert place(delivery) not in before
            known.root_at = job.root_at
        self.deliveries += taken
        return taken

    async def _claimed(self, hand: Hand, count: int, before: set[tuple[str, str]]) -> list[Delivery]:
        wants = [(queue, count) for queue in QUEUES]
        if self.loss is Loss.NOTHING:
            return await self.store.claim(hand.name, wants)
        self.backend.faults.lose(self.loss, "claim")
        with pytest.raises(StoreUnavailable):
            await self.store.claim(hand.name, wants)
        # What was lost may be a part: another home has done its own.
        had = [d for d in await self.store.held(hand.name, list(QUEUES)) if place(d) not in before]
        done = {home(delivery.queue) for delivery in had}
        left = [(queue, want) for queue, want in wants if home(queue) not in done]
        return had + await self.store.claim(hand.name, left)

    def settle(self, draw: Any) -> None:
        """Any delivery that there ever was, current or not; now and then in the name of somebody else."""
        for one in self._some(draw, 1):
            delivery = replace(one, consumer=draw(st.sampled_from([one.consumer, one.consumer, "thief"])))
            self._settle(delivery, draw(st.sampled_from(ENDS)))

    def _settle(self, delivery: Delivery, end: BaseException | None) -> None:
        outcome = Retry(after=FAR_S) if isinstance(end, Retry) and end.after is None else end
        (got,) = self.insist(self.store.settle, [settlement(delivery, outcome)])
        assert got == self.unless_done(self.model.settle(delivery, outcome), None)

    def release(self, draw: Any) -> None:
        some = self._some(draw, 2)
        got = self.insist(self.store.release, some)
        self.check_rest(got, self.model.release(some), 0)

    def renew(self, draw: Any) -> None:
        leases = self.store.leases()
        try:
            got = leases.renew(self.deliveries)
        finally:
            leases.close()
        held = [self.model.current(delivery) for delivery in self.deliveries]
        assert got == [
            LeaseState.LOST if job is None else LeaseState.CANCEL if job.told else LeaseState.HELD
            for job in held
        ]

    def crash(self, draw: Any) -> None:
        """One process is gone; the other goes on renewing. What the lost one held is handed on."""
        who = draw(st.integers(0, 1))
        held = [delivery for delivery in self.deliveries if self.model.current(delivery)]
        lost = {delivery.job_id for delivery in held if delivery.consumer == self.hands[who].name}
        self.hands[who] = Hand(self.store)
        if lost:
            self.run(self._reclaim(lost, [delivery for delivery in held if delivery.job_id not in lost]))

    async def _reclaim(self, lost: set[str], kept: list[Delivery]) -> None:
        policy, left = ReclaimPolicy(lease_ms=LEASE_MS, max_crashes=MAX_CRASHES), set(lost)
        leases = self.store.leases()

        async def all_taken() -> bool:
            renewed_at = time.monotonic()
            leases.renew(kept)
            taken = await self.store.reclaim(policy)
            in_time = time.monotonic() - renewed_at < LEASE_MS / 1000
            for one in taken:
                assert one.job_id in lost or not in_time
                assert one.state is self.model.reclaim(one.job_id)
                left.discard(one.job_id)
            return not left

        try:
            await wait_until(all_taken, describe="the lost ones were reclaimed", longest_pause=0.002)
        finally:
            leases.close()

    # Moving and steering

    def promote(self, draw: Any) -> None:
        self._let_pass()
        got = self.insist(self.store.promote, 1000)
        self.check_rest(got.moved, self.model.promote(), 0)
        assert (got.due_in_ms is None) == (not self.model.in_state(JobState.SCHEDULED, JobState.RETRY))

    def cancel(self, draw: Any) -> None:
        job_id = draw(st.sampled_from(list(self.model.jobs)))
        (got,) = self.insist(self.store.cancel, [job_id])
        assert got is self.model.cancel(job_id)

    def cancel_scope(self, draw: Any) -> None:
        scope = draw(st.sampled_from(SCOPES))
        did = self.insist(self.store.cancel_scope, scope, EVERYTHING)
        waiting, active = self.model.cancel_scope(scope, did.cut)
        self.check_rest(set(did.cancelled), waiting, set[str]())
        assert set(did.signalled) == active

    def intervene(self, draw: Any) -> None:
        """Run now, or delete."""
        verb = draw(st.sampled_from(["run_now", "run_now", "delete"]))
        likely = self.model.in_state(JobState.ARCHIVED) or list(self.model.jobs)
        job_id = draw(st.sampled_from(likely) | st.sampled_from(list(self.model.jobs)))
        try:
            self.run(getattr(self.store, verb)(job_id))
            did = True
        except (NotAllowed, JobNotFound):
            did = False
        assert did is getattr(self.model, verb)(job_id)

    def pause(self, draw: Any) -> None:
        queue, verb = draw(st.sampled_from(QUEUES)), draw(st.sampled_from(["pause", "resume", "resume"]))
        self.insist(getattr(self.store, verb), queue)
        self.model.paused -= {queue}
        self.model.paused |= {queue} if verb == "pause" else set()

    def keep_house(self, draw: Any) -> None:
        """Purge a queue, or prune: whatever was archived or cancelled was kept long enough."""
        if draw(st.booleans()):
            queue = draw(st.sampled_from(QUEUES))
            purged = self.insist(self.store.purge, queue)
            assert purged == self.unless_done(self.model.purge(queue), 0)
        else:
            self._let_pass()
            pruned = self.insist(self.store.prune, Retention(cancelled_ms=0, archived_ms=0))
            self.check_rest(pruned.jobs, self.model.prune(), 0)

    def record_deaths(self, draw: Any) -> None:
        letters = self.run(self.store.dead_letters(QUEUES, 3))
        self._check_oldest(letters, 3)
        self.insist(self.store.forget_dead_letters, [letter.death_id for letter in letters])
        for letter in letters:
            self.model.letters.remove(letter.job_id)

    def restart(self, draw: Any) -> None:
        self.store = self.run(self.backend.restart())
        for hand in self.hands:
            hand.store = self.store

    # What always holds

    @invariant()
    def every_job_is_where_the_model_has_it(self) -> None:
        if not hasattr(self, "model"):
            return
        expected = self.model.states()
        got = self.run(self.store.states(list(expected)))
        assert dict(zip(expected, got, strict=True)) == expected
        counted = self.model.counted()
        for stat in self.run(self.store.queue_stats()):
            for state in JobState:
                assert getattr(stat, state) == counted[stat.name, state], (stat.name, state)
            assert stat.paused == (stat.name in self.model.paused)
        live = {scope.id for scope in self.model.live_scopes()}
        assert self.run(self.store.queued_ids("knowledge")) == live
        self._check_oldest(self.run(self.store.dead_letters(QUEUES, 1000)), 1000)

    def _check_oldest(self, letters: list[DeadLetter], limit: int) -> None:
        """The oldest deaths, oldest first; of two homes in one millisecond, either may be first."""
        assert len(letters) == min(limit, len(self.model.letters))
        assert [one.died_at for one in letters] == sorted(one.died_at for one in letters)
        for name in set(map(home, QUEUES)):
            got = [one.job_id for one in letters if home(one.queue) == name]
            died = [one for one in self.model.letters if home(self.model.jobs[one].new.job.queue) == name]
            assert got == died[: len(got)]

    def _new(self, **fields: Any) -> NewJob:
        """A job whose id says which one it is: the order within a millisecond is that of the ids, the same in every run."""
        return new(id=f"job-{next(self.numbers):03}", **fields)

    def _some(self, draw: Any, most: int) -> list[Delivery]:
        """Up to `most` of all deliveries that there ever were; those that are current more often."""
        current = [delivery for delivery in self.deliveries if self.model.current(delivery)]
        if not self.deliveries:
            return []
        among = st.sampled_from(self.deliveries) | st.sampled_from(current or self.deliveries)
        return list({place(one): one for one in draw(st.lists(among, min_size=1, max_size=most))}.values())

    def _let_pass(self) -> None:
        """Until what was to come a millisecond later has come."""
        now = now_ms()
        self.run(wait_until(lambda: now_ms() > now + 2, describe="three milliseconds have passed"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_store_does_what_the_model_does(backend: str) -> None:
    """A failure is made small only in the thorough profile: that takes longer than the time limit of a test."""
    thorough = settings().max_examples >= 1000
    machine = type("Machine", (StoreMachine,), {"make": staticmethod(BACKENDS[backend])})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=max(settings().max_examples // 2, 1),  # each has sixty steps
            stateful_step_count=60,
            phases=set(Phase) if thorough else {Phase.explicit, Phase.reuse, Phase.generate},
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
