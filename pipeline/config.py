"""Settings: read once from the environment (prefix ``STREAMLANE_``), validated, frozen."""

import difflib
import os
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from contracts.topology import POOLS
from pipeline.errors import ConfigurationError

PREFIX: Final = "STREAMLANE_"
TEST_PREFIX: Final = "STREAMLANE_TEST_"
REDIS_TIMEOUT_S: Final = 1800.0
SHORTEST_STUCK_S: Final = 3600.0
STUCK_MARGIN_S: Final = 600.0
MAY_BE_EMPTY: Final = frozenset({"housekeeping_enabled"})
"""Settings that mean their default when they are set to nothing (facts 7.1)."""
_LOCAL: Final = (
    "redis_",
    "database_",
    "data_dir",
    "namespace",
    "log_",
    "files_",
    "outbound_",
    "source_folders",
    "embedding_",
    "vision_",
)
"""Beginnings of the settings that each process is told where it starts: how to begin, and what users may reach from it."""

IPNetwork = IPv4Network | IPv6Network


class Settings(BaseSettings):
    """Everything that can be set. Each field is one environment variable: ``STREAMLANE_`` and its name in capitals."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    data_dir: Path = Field(
        Path(".streamlane"), description="folder of the queue file, the database and the files"
    )
    redis_url: SecretStr | None = Field(
        None, description="Redis, Sentinel or Cluster; unset: Lite, in the data folder"
    )
    redis_ca_file: Path | None = Field(None, description="certificates that vouch for the Redis server")
    redis_server_name: str | None = Field(
        None, min_length=1, description="name in the Redis server's certificate, where the URL says another"
    )
    redis_skip_verify: bool = Field(False, description="trust whoever answers as Redis; for trials only")
    redis_op_timeout_ms: int = Field(
        500, ge=10, le=60_000, description="limit of a command; of a write, twice that"
    )
    redis_wait_replicas: int = Field(
        0, ge=0, le=10, description="replicas that must have an enqueue before it returns"
    )
    namespace: str = Field(
        "sl", pattern=r"^[A-Za-z0-9._-]{1,32}$", description="what every key in Redis begins with"
    )
    database_url: SecretStr | None = Field(
        None, description="SQLite or PostgreSQL; unset: SQLite in the data folder"
    )
    files_url: str | None = Field(
        None,
        pattern=r"^s3://[^/?@\s]+(/[^?@\s]*)?(\?\S*)?$",
        description="s3://bucket/prefix?endpoint_url=…, for what is too big for the database; unset: the data folder",
    )
    database_connections: int = Field(12, ge=2, description="most connections of a process to PostgreSQL")
    lease_s: float = Field(
        8.0, ge=0.2, le=3600, description="seconds after which a silent worker's job runs elsewhere"
    )
    grace_s: float = Field(8.0, ge=0, le=3600, description="seconds that running jobs get at shutdown")
    max_crashes: int = Field(3, ge=0, le=100, description="lost workers a job survives before it is archived")
    loop_stall_s: float = Field(
        60.0, ge=1, description="seconds of a blocked event loop after which the worker exits"
    )
    unknown_type_snooze_s: float = Field(
        30.0, ge=0.1, description="wait of a job whose type this worker does not know"
    )
    unknown_type_limit_s: float = Field(
        3600.0, ge=0, description="how long a job of an unknown type is kept waiting"
    )
    max_payload_kb: int = Field(512, ge=1, le=65536, description="largest payload accepted")
    default_timeout_s: float | None = Field(
        None, gt=0, description="limit of a job whose type names none; unset: 1800 on Redis, none in Lite"
    )
    retry_backoff: Literal["linear", "exponential"] | None = Field(
        None, description="wait between failed attempts; unset: exponential on Redis, linear in Lite"
    )
    cancelled_retention_s: float = Field(3600.0, ge=0, description="how long cancelled jobs can be seen")
    archived_retention_days: float = Field(
        90.0, gt=0, description="how long archived jobs and the rows of dead letters are kept"
    )
    audit_retention_days: float = Field(365.0, gt=0, description="how long it is kept who did what")
    archived_max: int = Field(
        10_000, ge=1, description="archived jobs kept of the queues of a home; the newest stay"
    )

    pool_core_concurrency: int = Field(POOLS["core"].slots, ge=1, description="slots of the core pool")
    pool_postprocess_concurrency: int = Field(
        POOLS["postprocess"].slots, ge=1, description="slots of postprocess"
    )
    pool_enrichment_concurrency: int = Field(
        POOLS["enrichment"].slots, ge=1, description="slots of enrichment"
    )
    pool_maintenance_concurrency: int = Field(
        POOLS["maintenance"].slots, ge=1, description="slots of maintenance"
    )
    pool_shared_concurrency: int = Field(
        POOLS["shared"].slots, ge=1, description="slots that core and enrichment borrow"
    )
    pool_wiki_concurrency: int = Field(POOLS["wiki"].slots, ge=1, description="slots of the wiki pool")
    pool_bulk_concurrency: int = Field(POOLS["bulk"].slots, ge=1, description="slots of bulk mail")
    pool_ks_concurrency: int = Field(POOLS["ks"].slots, ge=1, description="slots of the knowledge store pool")
    pool_interactive_concurrency: int = Field(
        POOLS["interactive"].slots, ge=1, description="slots of interactive work"
    )
    pool_agents_concurrency: int = Field(POOLS["agents"].slots, ge=1, description="slots of agent runs")

    document_process_timeout: float = Field(
        7200.0, gt=0, description="limit of one document:process attempt, seconds"
    )
    parser_timeout_s: float = Field(120.0, gt=0, description="limit of reading one file")
    parser_memory_mb: int = Field(1024, ge=128, description="memory of the process that reads one file")
    parser_concurrency: int = Field(2, ge=1, description="files read at once")
    max_file_mb: int = Field(200, ge=1, description="largest file accepted")
    chat_attachment_ttl_hours: float = Field(
        24.0, gt=0, le=8760, description="how long a file attached to a chat is kept"
    )
    chat_attachment_ocr_max_pages: int = Field(
        8, ge=0, le=64, description="pictures and scanned pages of an attached file that are read"
    )
    chat_attachment_wait_timeout_s: float = Field(
        60.0, ge=0, le=600, description="how long a question waits for attached files"
    )

    outbound_networks: Annotated[tuple[IPNetwork, ...], NoDecode] = Field(
        (), description="networks of one's own that addresses of users may lead into: 10.1.0.0/16,fd00::/8"
    )
    source_folders: Annotated[tuple[Path, ...], NoDecode] = Field(
        (), description="folders, separated by commas, below which sources may read this machine"
    )
    embedding_base_url: str | None = Field(
        None,
        description="service that embeds texts, as http://host:8000/v1; unset: the encoder in the package",
    )
    embedding_api_key: SecretStr | None = Field(None, description="key of that service")
    embedding_model: str | None = Field(
        None, max_length=255, description="model of new knowledge bases; unset: the encoder in the package"
    )
    embedding_dimension: int | None = Field(
        None, ge=1, le=16_000, description="how many numbers the vectors of that model have"
    )
    embedding_timeout_s: float = Field(60.0, gt=0, le=3600, description="limit of one call of that service")
    vision_base_url: str | None = Field(
        None, description="service that describes pictures, as http://host:8000/v1; unset: they are only read"
    )
    vision_api_key: SecretStr | None = Field(None, description="key of that service")
    vision_model: str | None = Field(None, max_length=255, description="model that describes pictures")
    vision_timeout_s: float = Field(60.0, gt=0, le=3600, description="limit of one call of that service")

    backups_kept: int = Field(
        7, ge=1, le=1_000, description="backups kept of a base; older ones go once there is a new one"
    )
    restore_max_gb: int = Field(
        100, ge=1, description="size, unpacked, of the largest backup that is restored"
    )

    housekeeping_enabled: bool = Field(
        True, description="look every five minutes for what got stuck; 0, false, off, no: do not"
    )
    housekeeping_threshold_s: float | None = Field(
        None,
        gt=0,
        description="no progress for so long is stuck; unset: an hour or the document limit, and 10 min",
    )

    log_format: Literal["auto", "json", "console"] = Field(
        "auto", description="auto: colours on a terminal, else JSON"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "warning", description="least level that is logged"
    )

    @field_validator("database_url")
    @classmethod
    def _supported(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and not url.get_secret_value().startswith(("sqlite", "postgres")):
            raise ValueError("write sqlite:///folder/streamlane.db or postgresql://user@host/database")
        return url

    @field_validator("outbound_networks", mode="before")
    @classmethod
    def _networks(cls, value: Any) -> Any:
        return tuple(ip_network(one) for one in _listed(value)) if isinstance(value, str) else value

    @field_validator("source_folders", mode="before")
    @classmethod
    def _folders(cls, value: Any) -> Any:
        folders = tuple(Path(one) for one in _listed(value)) if isinstance(value, str) else value
        if any(not Path(folder).is_absolute() for folder in folders):
            raise ValueError("write whole paths, from / on")
        return folders

    @field_validator("housekeeping_enabled", mode="before")
    @classmethod
    def _nothing_is_on(cls, value: Any) -> Any:
        return True if isinstance(value, str) and not value.strip() else value

    @staticmethod
    def read() -> "Settings":
        """Return the settings of this process. Raises ConfigurationError."""
        return load()

    @classmethod
    def storable(cls, name: str) -> bool:
        """Whether a setting may be kept in the database: it must not be needed to find that, or the queue."""
        return name in cls.model_fields and not name.startswith(_LOCAL)

    @classmethod
    def named(cls, written: str) -> str:
        """Return the name of a setting that may be written as its variable."""
        name = written.lower().removeprefix(PREFIX.lower())
        return name if name in cls.model_fields else written

    @classmethod
    def known(cls, name: str) -> None:
        """Raise ConfigurationError, with the nearest name, if there is no such setting."""
        if name not in cls.model_fields:
            near = _nearest(name.lower().removeprefix(PREFIX.lower()), cls.model_fields)
            raise ConfigurationError(f"unknown setting {name!r}{near}")

    @classmethod
    def checked(cls, name: str, value: str) -> Any:
        """Return a setting as a process will have it. Raises ConfigurationError: no such setting, or it cannot be this."""
        cls.known(name)
        if not cls.storable(name):
            raise ConfigurationError(
                f"{name} cannot be stored: set {cls.variable(name)} where the process starts"
            )
        return getattr(load(**{name: value}), name)

    def resolved(self, stored: Mapping[str, str]) -> tuple["Settings", Mapping[str, str]]:
        """Return these settings with those that are stored in their places, and, by name, what is wrong with the stored ones
        that cannot be used: there the environment counts, or else the default.
        """
        usable: dict[str, Any] = {}
        problems: dict[str, str] = {}
        for name, value in stored.items():
            try:
                usable[name] = self.checked(name, value)
            except ConfigurationError as error:
                problems[name] = str(error)
        return self.model_copy(update=usable), problems

    @property
    def timeout_s(self) -> float | None:
        """Limit of a job whose type names none, in seconds (asynq: 30 minutes; its Lite mode: none)."""
        return self.default_timeout_s or (REDIS_TIMEOUT_S if self.redis_url else None)

    @property
    def backoff(self) -> Literal["linear", "exponential"]:
        """How the wait between failed attempts grows."""
        return self.retry_backoff or ("exponential" if self.redis_url else "linear")

    @property
    def stuck_after_s(self) -> float:
        """How long a document makes no progress before housekeeping takes it for stuck, in seconds."""
        longest = max(SHORTEST_STUCK_S, self.document_process_timeout) + STUCK_MARGIN_S
        return self.housekeeping_threshold_s or longest

    @staticmethod
    def variable(name: str) -> str:
        """Return the environment variable of a setting."""
        return f"{PREFIX}{name.upper()}"

    def slots(self, pool: str) -> int:
        """Return how many jobs of `pool` run at once in a process."""
        return int(getattr(self, f"pool_{pool}_concurrency"))

    def shown(self) -> Mapping[str, str]:
        """Return each setting as text that may be printed: secrets as ``set (N chars)``."""
        return {name: _shown(getattr(self, name)) for name in sorted(type(self).model_fields)}


def load(**overrides: Any) -> Settings:
    """Return the settings of this process; keyword arguments win over the environment.

    Raises:
        ConfigurationError: an unknown name (with the nearest known one), an empty variable or a value that cannot be used.
    """
    known = {Settings.variable(name): name for name in Settings.model_fields}
    for name, value in os.environ.items():
        if name.startswith(PREFIX) and not name.startswith(TEST_PREFIX):
            if name not in known:
                raise ConfigurationError(f"unknown setting {name}{_nearest(name, known)}")
            if not value.strip() and known[name] not in MAY_BE_EMPTY:
                raise ConfigurationError(f"{name} is empty: give it a value, or unset it")
    for name in overrides:
        if name not in Settings.model_fields:
            raise ConfigurationError(f"unknown setting {name!r}{_nearest(name, Settings.model_fields)}")
    try:
        return Settings(**overrides)
    except ValidationError as error:
        problems = "; ".join(f"{Settings.variable(str(e['loc'][0]))}: {e['msg']}" for e in error.errors())
        raise ConfigurationError(f"cannot use these settings: {problems}") from None


def _nearest(name: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else "; `streamlane doctor` lists all settings"


def _listed(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    if isinstance(value, SecretStr):
        return f"set ({len(value.get_secret_value())} chars)"
    return "unset" if value is None else str(value)
