import tomllib

from deploy import lock

PROJECT = """
[tool.uv]
no-build = true
constraint-dependencies = [
    "old==1",
]
build-constraint-dependencies = [
]

[tool.other]
"""
EXPORTED = """\
numpy==2.4.6 ; python_full_version < '3.12' \\
    --hash=sha256:00
numpy==2.5.5 ; python_full_version >= '3.12' \\
    --hash=sha256:01
six==1.17.0 \\
    --hash=sha256:02 \\
    --hash=sha256:03
"""


def test_pins_are_the_versions_with_their_markers_and_without_hashes() -> None:
    assert lock.pins(EXPORTED) == [
        "numpy==2.4.6 ; python_full_version < '3.12'",
        "numpy==2.5.5 ; python_full_version >= '3.12'",
        "six==1.17.0",
    ]


def test_new_pins_replace_the_old_and_touch_nothing_else() -> None:
    tables = dict(zip(lock.TABLES, (lock.pins(EXPORTED), ["hatchling==1"]), strict=True))
    written = lock.with_pins(PROJECT, tables)
    assert lock.pinned(written) == tables
    assert tomllib.loads(lock.with_pins(written, {table: [] for table in lock.TABLES}))["tool"]["uv"][
        "no-build"
    ]
    assert lock.with_pins(written, tables) == written


def test_a_difference_names_what_is_missing_and_what_is_too_much() -> None:
    assert lock.differences(["a==1", "b==1"], ["a==1", "b==2"], "pins") == ["pins: - b==1", "pins: + b==2"]
    assert lock.differences(["a==1"], ["a==1"], "pins") == []


def test_the_project_pins_every_version_it_installs_in_the_image() -> None:
    locked = lock.pins(lock.REQUIREMENTS.read_text("utf-8"))
    kept = lock.pinned(lock.PROJECT.read_text("utf-8"))["constraint-dependencies"]
    versions = {pin.partition(" ")[0] for pin in kept}
    assert locked
    assert {pin.partition(" ")[0] for pin in locked} <= versions
