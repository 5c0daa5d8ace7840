"""Migrations: from nothing to exactly what the models say, by many at once, back again, and never by half."""

import sqlite3
import subprocess
import sys
from contextlib import closing
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
from pipeline.store.sqlite import prepare_connections
from sqlalchemy import Connection, create_engine

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data" / "streamlane.db"


def migrate(path):
    return upgrade(f"sqlite:///{path}")


def tables(path):
    with closing(sqlite3.connect(path)) as file:
        found = file.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        )
        return {name for (name,) in found}


def differences(connection: Connection):
    context = MigrationContext.configure(
        connection, opts={"target_metadata": TARGETS, "include_name": ours, "compare_type": True}
    )
    return compare_metadata(context, cast(Any, TARGETS))  # it takes several, whatever its annotation says


def on_connection(path, act):
    engine = create_engine(f"sqlite:///{path}")
    prepare_connections(engine, "BEGIN IMMEDIATE", 5)
    with engine.begin() as connection:
        result = act(connection)
    engine.dispose()
    return result


def test_an_empty_database_gets_exactly_the_tables_of_the_models(path):
    assert migrate(path)
    assert on_connection(path, differences) == []
    assert {table.name for target in TARGETS for table in target.sorted_tables} < tables(path)


def test_a_difference_would_be_found(path):
    migrate(path)
    with closing(sqlite3.connect(path)) as file:
        file.execute("DROP INDEX slots_document")
        file.execute("ALTER TABLE images DROP COLUMN reason")
        file.execute("CREATE TABLE unheard_of (a)")
    found = on_connection(path, differences)
    assert sorted(change[0] for change in found) == ["add_column", "add_index", "remove_table"]


def test_the_second_time_there_is_nothing_to_do(path):
    assert migrate(path)
    before = path.read_bytes()
    assert not migrate(path)
    assert path.read_bytes() == before


def test_the_way_back_leaves_no_table(path):
    migrate(path)
    on_connection(path, lambda connection: command.downgrade(config(connection), "base"))
    assert tables(path) == {"alembic_version"}
    assert migrate(path)


def test_a_migration_that_stops_in_the_middle_leaves_nothing(path, monkeypatch):
    run = Operations.execute

    def stop(operations, statement, *args, **options):
        if "search_versions" in str(statement):
            raise KeyboardInterrupt
        return run(operations, statement, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Operations, "execute", stop)
        with pytest.raises(KeyboardInterrupt):
            migrate(path)
    assert tables(path) == set()
    assert migrate(path)


def test_processes_that_start_at_once_on_a_new_file_do_not_collide(path):
    code = f"from consumers.migrations.migrate import upgrade; print(upgrade('sqlite:///{path}'))"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
        )
        for _ in range(4)
    ]
    ended = [process.communicate(timeout=100) for process in started]
    assert [errors.decode() for _, errors in ended] == [""] * 4
    assert sorted(output.decode().strip() for output, _ in ended) == ["False", "False", "False", "True"]


def test_a_database_of_a_newer_version_is_left_alone(path):
    migrate(path)
    with closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE alembic_version SET version_num = '9999'")
        file.commit()
    with pytest.raises(
        ConfigurationError, match=rf"newer version \(9999, this one knows {latest()}\): update"
    ):
        migrate(path)


def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path):
    (tmp_path / "data").write_text("in the way")
    with pytest.raises(StoreUnavailable, match=r"folder of .*streamlane\.db cannot be made"):
        migrate(tmp_path / "data" / "streamlane.db")
