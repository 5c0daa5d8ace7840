"""What a process says of itself: one configuration of the log, and spans around what takes time.

Logs go to stderr, so that stdout belongs to whoever calls. Loggers are made by `structlog.get_logger(component=…)`;
the job's id and type are bound by the span that it runs in.
"""

import logging
import sys
import time
from typing import Any, Literal

import structlog

LogFormat = Literal["auto", "json", "console"]

log = structlog.get_logger(component="trace")

_verbose = False


def configure(log_format: LogFormat = "auto", level: str = "warning") -> None:
    """Send the log to stderr in this form. An application that has configured structlog already keeps its own."""
    global _verbose  # noqa: PLW0603 - a span in a hot loop asks no logger whether it is heard
    _verbose = level == "debug"
    if structlog.is_configured():
        return
    if log_format == "console" or (log_format == "auto" and sys.stderr.isatty()):
        rendered: list[structlog.typing.Processor] = [structlog.dev.ConsoleRenderer()]
    else:
        rendered = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=repr)]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *rendered,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )


class span:  # noqa: N801 - reads as a verb: with span("attempt", job=…)
    """Bind `attributes` to every line that is logged inside. At debug level, log how long it took."""

    __slots__ = ("_attributes", "_name", "_started", "_tokens")

    def __init__(self, name: str, **attributes: Any) -> None:
        self._name, self._attributes = name, attributes

    def __enter__(self) -> None:
        self._started = time.monotonic()
        self._tokens = (
            structlog.contextvars.bind_contextvars(**self._attributes) if self._attributes else None
        )

    def __exit__(self, *_: object) -> None:
        if _verbose:
            log.debug(self._name, ms=round((time.monotonic() - self._started) * 1000, 1))
        if self._tokens is not None:
            structlog.contextvars.reset_contextvars(**self._tokens)
