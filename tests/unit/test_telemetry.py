"""What a process says of itself goes to stderr, and never into what it is asked for."""

import json
import subprocess
import sys

import structlog
from pipeline.telemetry import span

SCRIPT = """
import structlog
from pipeline.telemetry import configure, span
configure("json", LEVEL)
configure("console", "debug")
log = structlog.get_logger(component="inspector")
with span("attempt", job="j1", type="t"):
    log.warning("inside", odd=object, text="тест")
log.info("outside")
print("out")
"""


def said(level: str) -> tuple[str, list[dict[str, object]]]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("LEVEL", repr(level))],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout, [json.loads(line) for line in done.stderr.splitlines()]


def test_logs_are_json_on_stderr_with_the_job_bound_inside_its_span_only() -> None:
    out, lines = said("info")
    assert out == "out\n"
    inside, outside = lines
    assert (inside["event"], inside["component"], inside["level"]) == ("inside", "inspector", "warning")
    assert (inside["job"], inside["type"], inside["text"]) == ("j1", "t", "тест")
    assert "job" not in outside


def test_what_is_below_the_level_is_not_said_and_debug_shows_how_long_spans_took() -> None:
    assert [line["event"] for line in said("error")[1]] == []
    inside, attempt, _ = said("debug")[1]
    assert inside["event"] == "inside"
    assert (attempt["event"], attempt["component"], attempt["job"]) == ("attempt", "trace", "j1")
    assert isinstance(attempt["ms"], float)


def test_spans_may_lie_inside_each_other() -> None:
    with span("outer", job="a", type="t"):
        with span("inner", job="b"):
            assert structlog.contextvars.get_contextvars() == {"job": "b", "type": "t"}
        assert structlog.contextvars.get_contextvars() == {"job": "a", "type": "t"}
    assert structlog.contextvars.get_contextvars() == {}
