-- Where jobs are kept. All times are milliseconds since the epoch, taken by the writer inside its transaction.

CREATE TABLE counters (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

INSERT INTO counters (name, value)
VALUES ('number', 0), ('signals', 0), ('fencing', 0), ('reclaimed_at', 0), ('quiet_until', 0), ('rooted', 0);

CREATE TABLE jobs (
    seq        INTEGER PRIMARY KEY,           -- a number that is never given twice
    id         TEXT NOT NULL UNIQUE,
    type       TEXT NOT NULL,
    queue      TEXT NOT NULL,
    state      TEXT NOT NULL,
    data       TEXT NOT NULL,
    opts       TEXT NOT NULL,
    scopes     TEXT,                          -- the rows of `scopes` that are its own: kind id kind id …
    named      INTEGER NOT NULL,              -- its end leaves a lasting tombstone
    root_at    INTEGER NOT NULL,
    deadline   INTEGER,
    unique_key TEXT,
    entry      INTEGER NOT NULL,              -- fencing token: a new number each time it becomes pending
    place      INTEGER,                       -- pending: its entry, by which it is served
    again      INTEGER NOT NULL DEFAULT 0,    -- was started before, so it need not queue up behind fresh jobs
    ready_at   INTEGER NOT NULL,              -- since when it is pending
    due_at     INTEGER,                       -- scheduled, retry: when it will be pending
    consumer   TEXT,                          -- active: who runs it
    claimed_at INTEGER NOT NULL DEFAULT 0,
    seen_at    INTEGER NOT NULL DEFAULT 0,    -- when its worker last said that it lives
    cancel     INTEGER NOT NULL DEFAULT 0,    -- its worker is told to stop
    rerun      TEXT,                          -- the enqueue that waits for its end, as JSON
    progress   TEXT,                          -- [done, total, stage, at]
    history    TEXT,                          -- the last things that happened to it: [[at, what, error, worker] …]
    died       INTEGER NOT NULL DEFAULT 0,
    reason     TEXT,
    error      TEXT NOT NULL DEFAULT '',
    ended_at   INTEGER,                       -- completed, archived, cancelled
    expires_at INTEGER                        -- completed: until when it is kept
);

-- Partial, so that a job is in the indexes of its state only; the conditions cost little, as every write tests all.
CREATE INDEX jobs_pending ON jobs (queue, again, place) WHERE place IS NOT NULL;
CREATE INDEX jobs_due ON jobs (due_at, seq) WHERE due_at IS NOT NULL;
CREATE INDEX jobs_waiting ON jobs (queue, state, due_at, seq) WHERE due_at IS NOT NULL;
CREATE INDEX jobs_ended ON jobs (queue, state, ended_at, seq) WHERE ended_at IS NOT NULL;
CREATE INDEX jobs_kept ON jobs (state, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX jobs_expiring ON jobs (expires_at) WHERE expires_at IS NOT NULL;
-- The only one of active jobs: they are no more than there are slots, so that reclaim reads them all.
CREATE INDEX jobs_active ON jobs (queue, entry) WHERE consumer IS NOT NULL;

CREATE TABLE scopes (
    kind TEXT NOT NULL,
    id   TEXT NOT NULL,
    seq  INTEGER NOT NULL,
    PRIMARY KEY (kind, id, seq)
) WITHOUT ROWID;

CREATE TABLE uniques (
    type       TEXT NOT NULL,
    key        TEXT NOT NULL,
    job_id     TEXT NOT NULL,
    until      TEXT NOT NULL,
    expires_at INTEGER,                       -- of until = 'ttl' only; the others end with the job
    PRIMARY KEY (type, key)
) WITHOUT ROWID;

CREATE INDEX uniques_expiring ON uniques (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE fences (
    kind       TEXT NOT NULL,
    id         TEXT NOT NULL,
    covers     TEXT NOT NULL,                 -- a job type, or * and the types it excludes: *a,b
    cut        INTEGER NOT NULL,
    written_at INTEGER NOT NULL,
    PRIMARY KEY (kind, id, covers)
) WITHOUT ROWID;

CREATE INDEX fences_cut ON fences (cut);
CREATE INDEX fences_age ON fences (written_at);

CREATE TABLE tombstones (
    id      TEXT PRIMARY KEY,
    state   TEXT NOT NULL,
    dug_at  INTEGER NOT NULL,
    lasting INTEGER NOT NULL                  -- of a given id or a deleted job, not only for an enqueue that is repeated
) WITHOUT ROWID;

CREATE INDEX tombstones_age ON tombstones (lasting, dug_at);

CREATE TABLE dead (
    number   INTEGER PRIMARY KEY,
    death_id TEXT NOT NULL UNIQUE,
    queue    TEXT NOT NULL,
    job_id   TEXT NOT NULL,
    type     TEXT NOT NULL,
    data     TEXT NOT NULL,
    opts     TEXT NOT NULL,
    reason   TEXT NOT NULL,
    error    TEXT NOT NULL,
    died_at  INTEGER NOT NULL,
    tended   INTEGER NOT NULL DEFAULT 0       -- its hook has run, and only its row in the ledger is missing
);

CREATE INDEX dead_of_queue ON dead (queue, number);
CREATE INDEX dead_untended ON dead (queue, number) WHERE tended = 0;

CREATE TABLE stats (
    queue     TEXT NOT NULL,
    hour      INTEGER NOT NULL,               -- hours since the epoch, UTC
    processed INTEGER NOT NULL DEFAULT 0,
    failed    INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (hour, queue)
) WITHOUT ROWID;

CREATE TABLE remembered (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE paused (queue TEXT PRIMARY KEY) WITHOUT ROWID;

CREATE TABLE workers (
    worker     TEXT PRIMARY KEY,
    beat       TEXT NOT NULL,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE locks (
    name       TEXT NOT NULL,
    owner      TEXT NOT NULL,
    number     INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (name, owner)
) WITHOUT ROWID;

CREATE INDEX locks_expiring ON locks (expires_at);
