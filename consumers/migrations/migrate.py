"""Bring a database to the tables that this version of the code knows."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import URL, Connection, create_engine, inspect, text

from pipeline.errors import ConfigurationError, StoreUnavailable
from pipeline.store.engine import BUSY_S, prepare_connections, sqlite_url, store_errors

if TYPE_CHECKING:
    from alembic.config import Config

FOLDER: Final = Path(__file__).parent


def latest() -> str:
    """Return the newest revision that this version of the code knows."""
    return max(path.name.partition("_")[0] for path in (FOLDER / "versions").glob("[0-9]*.py"))


def upgrade(url: str | URL) -> bool:
    """Bring the database to the newest tables; False if it had them. Several processes may do so at once.

    It is one transaction: killed in the middle, nothing has happened.

    Raises:
        ConfigurationError: the URL cannot be used, or a newer version of the code has been here.
        StoreUnavailable: the file or its folder cannot be made or written.
    """
    target = sqlite_url(url).set(drivername="sqlite")
    _make_folder(target)
    engine = create_engine(target)
    prepare_connections(engine, "BEGIN IMMEDIATE", BUSY_S)
    try:
        with store_errors(target), engine.begin() as connection:
            found = revision(connection)
            if found == latest():
                return False
            if found is not None and found > latest():
                raise ConfigurationError(
                    f"{target.database} has tables of a newer version ({found}, this one knows {latest()}): update"
                )
            from alembic import command  # takes a third of a second, and is needed once

            command.upgrade(config(connection), "head")
            return True
    finally:
        engine.dispose()


def revision(connection: Connection) -> str | None:
    """Return the revision that a database is at; None for an empty one."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def config(connection: Connection) -> "Config":
    """Return what Alembic needs to know; its output goes nowhere."""
    from alembic.config import Config

    made = Config(attributes={"connection": connection})
    made.set_main_option("script_location", str(FOLDER))
    made.set_main_option("path_separator", "os")
    return made


def _make_folder(target: URL) -> None:
    try:
        Path(target.database or "").parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(f"the folder of {target.database} cannot be made: {error}") from error
