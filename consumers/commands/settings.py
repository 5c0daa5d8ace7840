"""`streamlane settings`: what is stored for all processes, in the place of what each is told by its environment."""

import os
from collections.abc import Container

from consumers.commands.terminal import FAILED, OK, complain, emit, out, say, table
from consumers.database import open_database
from pipeline import Settings
from pipeline.errors import StoreUnavailable
from pipeline.store import settings as kept

LATER = "processes that run have it when they start again"


async def list_settings(as_json: bool) -> int:
    """Print every setting, what it is, and where that comes from; return the exit code."""
    told, stored, away = Settings.read(), dict[str, str](), ""
    try:
        async with open_database(told) as database, database.read() as sql:
            stored = dict(await kept.stored(sql))
    except StoreUnavailable as error:
        away = f"what is stored cannot be seen: {error}"
    settings, problems = told.resolved(stored)
    rows = [
        (name, value, _source(name, stored, problems), problems.get(name, ""))
        for name, value in settings.shown().items()
    ]
    rows += [
        (name, stored[name], "unknown", problem)
        for name, problem in problems.items()
        if not Settings.storable(name)
    ]
    if as_json:
        keys = ("name", "value", "source", "problem")
        told_as = {"settings": [dict(zip(keys, row, strict=True)) for row in rows]}
        emit(told_as | ({"error": away, "code": "failed"} if away else {}))
    else:
        table(("setting", "value", "from", "problem"), rows)
    if away:
        say(away)
    return FAILED if away else OK


async def set_setting(name: str, value: str, as_json: bool) -> int:
    """Store a setting. Raises ConfigurationError."""
    name = Settings.named(name)
    found = Settings.checked(name, value)
    async with open_database(Settings.read()) as database, database.transaction() as sql:
        await kept.put(sql, name, value)
    if as_json:
        emit({"name": name, "value": found})
    else:
        out.print(f"{name} is {found}; {LATER}", markup=False)
    return OK


async def unset_setting(name: str, as_json: bool) -> int:
    """Store a setting no longer. Raises ConfigurationError for one that is neither stored nor known."""
    name = Settings.named(name)
    async with open_database(Settings.read()) as database, database.transaction() as sql:
        removed = await kept.remove(sql, name)
    if not removed:
        Settings.known(name)
        complain(
            f"{name} is not stored; `streamlane settings list` shows what is", "not_found", as_json=as_json
        )
        return FAILED
    if as_json:
        emit({"name": name, "removed": True})
    else:
        out.print(f"{name} comes from the environment again, or is the default; {LATER}", markup=False)
    return OK


def _source(name: str, stored: Container[str], problems: Container[str]) -> str:
    if name in stored and name not in problems:
        return "stored"
    return "environment" if Settings.variable(name) in os.environ else "default"
