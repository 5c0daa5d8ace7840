"""Every kind of source by name. One more is added with `add`."""

from collections.abc import Mapping
from typing import Any

from consumers.knowledge.tables.sources import DataSource
from consumers.sources.connector import Kind
from consumers.sources.folder import FOLDER
from consumers.sources.git import GIT
from consumers.sources.s3 import S3
from consumers.sources.web import WEB
from pipeline import Settings
from pipeline.errors import ConfigurationError

_KINDS: dict[str, Kind[Any]] = {}


def add(kind: Kind[Any]) -> None:
    """Make a kind known to this process. Raises ConfigurationError when its name is taken."""
    if _KINDS.setdefault(kind.name, kind) is not kind:
        raise ConfigurationError(f"there is a kind of source {kind.name!r} already")


def kind_of(name: str) -> Kind[Any]:
    """Return a kind. Raises ConfigurationError naming those there are."""
    if name not in _KINDS:
        raise ConfigurationError(f"no kind of source is called {name[:64]!r}; there are {', '.join(_KINDS)}")
    return _KINDS[name]


def check_change(source: DataSource, changes: Mapping[str, Any], settings: Settings) -> None:
    """Refuse changes of a source that its kind does not let be. Raises ConfigurationError, which repeats no secret."""
    if {"config", "credentials"} & set(changes):
        said = {"config": source.config, "credentials": source.credentials, **changes}
        kind_of(source.kind).checked(said["config"], said["credentials"], settings)


def kinds() -> Mapping[str, Kind[Any]]:
    """Return all kinds by name."""
    return dict(_KINDS)


for _kind in (FOLDER, WEB, S3, GIT):
    add(_kind)
