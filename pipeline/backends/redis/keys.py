"""Where everything lies in Redis. `ns` is the namespace; `{home}` is the hash tag and consumer group of a queue, so that
one script moves a job within one slot. Bodies lie in exactly one place: the stream while a job is pending or active,
the job's hash otherwise. Lua builds the keys of single jobs from the prefix by the same drawing.

    ns:{home}:q:<queue>             STREAM  fresh deliveries: id, type, data, opts; deleted when settled
    ns:{home}:q:<queue>:again       STREAM  the same for jobs that were started or promoted before
    ns:{home}:q:<queue>:scheduled   ZSET    job id → due ms             ns:{home}:q:<queue>:retry   the same
    ns:{home}:q:<queue>:completed   ZSET    job id → ended ms           …:cancelled  …:archived     the same
    ns:{home}:expiring              ZSET    job id of a completed job that is kept → until when
    ns:{home}:job:<id>              HASH    queue, state, entry or body, and what belongs to the state
    ns:{home}:gone                  ZSET    given or derived id that ended → when, and in which state (a tombstone)
    ns:{home}:gone:brief            ZSET    the same for ids that we made, kept for a minute
    ns:{home}:dead                  STREAM  deaths that nobody has taken care of yet
    ns:{home}:dead:tended           STREAM  deaths whose hook has run, and only their row in the ledger is missing
    ns:{home}:dead:at               HASH    death id → its entry in dead
    ns:{home}:dead:tended:at        HASH    death id → its entry in dead:tended
    ns:{home}:scopes                ZSET    score 0: <kind>|<scope id>|<type>|<job id> of every job that has not ended
    ns:{home}:unique:<type>|<key>   STRING  <until> <job id>, with a TTL
    ns:{home}:fence:<kind>|<id>     HASH    a job type, or * and the types excluded → cut; with a TTL
    ns:{home}:fences                ZSET    <kind>|<id> → its latest cut
    ns:{home}:stats:<queue>:<day>   HASH    processed:<hour>, failed:…, cancelled:…; with a TTL
    ns:{home}:paused                SET     queues that start nothing
    ns:{home}:meta                  HASH    rooted, head, reclaimed_at, quiet_until, swept
    ns:{lock:<name>}                HASH    owner → number and expiry; with a TTL
    ns:{workers}                    HASH    worker → its last heartbeat  ns:{workers}:until  ZSET  worker → expiry
    ns:{remembered}                 HASH    name → what was to be remembered of it
    ns:probe                        STRING  written by readiness checks; with a TTL
    ns:control:<database>           channel signal (cancel, pause, resume), due (an earlier head)
"""

from dataclasses import dataclass

from contracts.topology import QUEUES, by_home, home


@dataclass(frozen=True, slots=True)
class Keys:
    """Every key and channel of one namespace in one database."""

    namespace: str = "sl"
    database: int = 0

    def prefix(self, home_name: str) -> str:
        """Return what every key of a home begins with; scripts add the rest."""
        return f"{self.namespace}:{{{home_name}}}:"

    def stream(self, queue: str, *, again: bool = False) -> str:
        """Return one of the two streams of a queue."""
        return f"{self.prefix(home(queue))}q:{queue}{':again' if again else ''}"

    def lock(self, name: str) -> str:
        """Return the hash of a lock."""
        return f"{self.namespace}:{{lock:{name}}}"

    @property
    def remembered(self) -> str:
        """What is remembered for the whole namespace."""
        return f"{self.namespace}:{{remembered}}"

    @property
    def probe(self) -> str:
        """What is written to see whether Redis takes writes."""
        return f"{self.namespace}:probe"

    @property
    def workers(self) -> str:
        """The registry of worker processes."""
        return f"{self.namespace}:{{workers}}"

    @property
    def control(self) -> str:
        """The channel of hints. Channels know no databases, so its name does."""
        return f"{self.namespace}:control:{self.database}"


def homes() -> dict[str, tuple[str, ...]]:
    """Return the queues of each home, in registry order."""
    return {name: tuple(queues) for name, queues in by_home(QUEUES, str).items()}
