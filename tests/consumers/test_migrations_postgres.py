"""Migrations on PostgreSQL: to exactly what the models say, by many at once, back again, never by half."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from consumers.migrations.migrate import config, latest, upgrade
from consumers.migrations.schema import TARGETS, ours
from pipeline.errors import ConfigurationError, StoreUnavailable
from sqlalchemy import URL, Connection, pool
from sqlalchemy.ext.asyncio import create_async_engine

from tests.support.postgres_server import drop, empty_database, fetch, migrated_database, run

pytestmark = pytest.mark.postgres

ROOT = Path(__file__).parents[2]
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"


@pytest.fixture
def url() -> Iterator[URL]:
    made = empty_database()
    yield made
    drop(made)


@pytest.fixture
def migrated() -> Iterator[URL]:
    made = migrated_database()
    yield made
    drop(made)


def tables(url: URL) -> set[str]:
    return {name for (name,) in fetch(url, TABLES)}


def on_connection(url: URL, act: Any) -> Any:
    async def there() -> Any:
        engine = create_async_engine(url.set(drivername="postgresql+asyncpg"), poolclass=pool.NullPool)
        async with engine.begin() as connection:
            return await connection.run_sync(act)

    return asyncio.run(there())


def differences(connection: Connection) -> list[Any]:
    options = {"target_metadata": TARGETS, "include_name": ours, "compare_type": True}
    context = MigrationContext.configure(connection, opts=options)
    return cast("list[Any]", compare_metadata(context, cast(Any, TARGETS)))


def test_an_empty_database_gets_exactly_the_tables_of_the_models(url: URL) -> None:
    assert upgrade(url)
    assert on_connection(url, differences) == []
    assert {table.name for target in TARGETS for table in target.sorted_tables} < tables(url)


def test_a_difference_would_be_found(migrated: URL) -> None:
    run(migrated, "DROP INDEX slots_document", "ALTER TABLE images DROP COLUMN reason")
    assert sorted(change[0] for change in on_connection(migrated, differences)) == ["add_column", "add_index"]


def test_the_second_time_there_is_nothing_to_do(migrated: URL) -> None:
    before = fetch(migrated, "SELECT id FROM database_identity")
    assert not upgrade(migrated)
    assert fetch(migrated, "SELECT id FROM database_identity") == before


def test_the_way_back_leaves_no_table(migrated: URL) -> None:
    on_connection(migrated, lambda connection: command.downgrade(config(connection), "base"))
    assert tables(migrated) == {"alembic_version"}
    assert upgrade(migrated)
    assert on_connection(migrated, differences) == []


def test_a_migration_that_stops_in_the_middle_leaves_nothing(
    url: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = Operations.execute

    def stop(operations: Any, statement: Any, *args: Any, **options: Any) -> Any:
        if "search_vectors" in str(statement):
            raise RuntimeError("stopped")
        return ran(operations, statement, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Operations, "execute", stop)
        with pytest.raises(RuntimeError, match="stopped"):
            upgrade(url)
    assert tables(url) == set()
    assert upgrade(url)


def test_processes_that_start_at_once_on_a_new_database_do_not_collide(url: URL) -> None:
    code = (
        f"from consumers.migrations.migrate import upgrade; print(upgrade({url.render_as_string(False)!r}))"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
        )
        for _ in range(4)
    ]
    ended = [process.communicate(timeout=100) for process in started]
    assert [errors.decode() for _, errors in ended] == [""] * 4
    assert sorted(output.decode().strip() for output, _ in ended) == ["False", "False", "False", "True"]


def test_a_database_of_a_newer_version_is_left_alone(migrated: URL) -> None:
    run(migrated, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(
        ConfigurationError, match=rf"newer version \(9999, this one knows {latest()}\): update"
    ):
        upgrade(migrated)


def test_a_server_without_pgvector_is_told_what_to_install(url: URL) -> None:
    run(url, f"ALTER DATABASE \"{url.database}\" SET extension_control_path = '/nowhere'")
    with pytest.raises(ConfigurationError, match=r"has no pgvector.*postgresql-<version>-pgvector"):
        upgrade(url)
    assert tables(url) == set()


def test_a_user_who_may_make_no_tables_is_told_so(url: URL) -> None:
    user = f"guest_{url.database}"
    run(url, f"CREATE ROLE {user} LOGIN")
    try:
        with pytest.raises(ConfigurationError, match="permission denied for schema public"):
            upgrade(url.set(username=user))
    finally:
        run(url, f"DROP ROLE {user}")


def test_a_database_that_is_not_there_is_an_error_that_names_it_without_the_password(url: URL) -> None:
    with pytest.raises(StoreUnavailable, match=r'"nothing" does not exist') as said:
        upgrade(url.set(database="nothing", password="hush-hush"))
    assert "hush" not in str(said.value)
    assert f"streamlane@{url.host}:{url.port}/nothing" in str(said.value)
