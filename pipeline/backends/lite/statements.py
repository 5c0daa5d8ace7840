"""The SQL of this backend: one statement a file, found by its name."""

from functools import cache
from importlib.resources import files


@cache
def sql(name: str) -> str:
    """Return the statement in ``queries/<name>.sql``."""
    return files(__package__).joinpath("queries", f"{name}.sql").read_text("utf-8")


@cache
def schema() -> str:
    """Return the script that makes the tables."""
    return files(__package__).joinpath("schema.sql").read_text("utf-8")
