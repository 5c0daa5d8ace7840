"""Opening the queue file: its settings, its schema, and the places where it cannot work."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import psutil

from pipeline.backends.lite.errors import store_errors
from pipeline.backends.lite.statements import schema
from pipeline.errors import ConfigurationError, StoreUnavailable

APPLICATION_ID: Final = 0x534C4A51  # "SLJQ"
SCHEMA_VERSION: Final = 5
UPGRADES: Final = {
    4: (
        "ALTER TABLE dead ADD COLUMN tended INTEGER NOT NULL DEFAULT 0",
        "CREATE INDEX dead_untended ON dead (queue, number) WHERE tended = 0",
    )
}
"""What a file of an older version lacks; processes of that version may go on with it."""
OLDEST_SQLITE: Final = (3, 35, 0)
CACHE_KB: Final = 16_384
REMOTE: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afpfs", "afs", "9p", "ceph", "lustre", "gpfs"}
)
REMOTE_FUSE: Final = ("sshfs", "davfs", "webdav", "glusterfs", "beegfs", "s3fs", "rclone", "gcsfuse", "ceph")
"""File systems over a network: the shared memory that WAL needs is not shared there."""


def connect(path: Path, *, busy_s: float, durable: bool = True) -> sqlite3.Connection:
    """Return a connection to the queue file, for one thread at a time; `busy_s` limits each wait for a lock.

    `durable`: a commit that returned survives a power failure. Raises StoreUnavailable, ConfigurationError.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise ConfigurationError(
            f"SQLite {sqlite3.sqlite_version} is too old: use a Python with 3.35 or newer"
        )
    with store_errors(path):
        connection = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
        try:
            connection.row_factory = sqlite3.Row
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                raise StoreUnavailable(
                    f"queue file {path}: its file system has no WAL; keep it on a local disk"
                )
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("PRAGMA secure_delete = OFF")
            connection.execute(f"PRAGMA cache_size = -{CACHE_KB}")
        except BaseException:
            connection.close()
            raise
        return connection


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables in a new file; check those of an old one.

    Raises StoreUnavailable, ConfigurationError (a file of something else, or of a newer version).
    """
    with store_errors(path):
        connection.execute("BEGIN IMMEDIATE")
        try:
            (kind,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            if kind != APPLICATION_ID and tables:
                raise ConfigurationError(f"{path} belongs to another program; choose another data folder")
            if version > SCHEMA_VERSION:
                raise ConfigurationError(f"{path} was written by a newer version; update this one")
            if tables and version in UPGRADES:
                for statement in UPGRADES[version]:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            elif tables and version < SCHEMA_VERSION:
                raise ConfigurationError(
                    f"{path} was written by an older version: finish its jobs with that one, or move it away"
                )
            if not tables:
                for statement in schema().split(";\n"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # SQLite itself has ended it where the disk is full
                connection.execute("ROLLBACK")
            raise


def refuse_network(path: Path, mounts: Iterable[Any] | None = None) -> None:
    """Raise ConfigurationError where `path` lies on a file system over a network. `mounts` as psutil lists them."""
    found, longest = "", -1
    for mount in psutil.disk_partitions(all=True) if mounts is None else mounts:
        if path.is_relative_to(mount.mountpoint) and len(mount.mountpoint) >= longest:
            found, longest = mount.fstype, len(mount.mountpoint)
    if found.lower() in REMOTE or any(name in found.lower() for name in REMOTE_FUSE):
        raise ConfigurationError(
            f"{path} lies on {found}, a network file system, where several processes cannot share a queue file:"
            " put the data folder on a local disk"
        )
