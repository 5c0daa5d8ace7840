"""What a process says of itself: one configuration of the log, and spans around what takes time.

Logs go to stderr, so that stdout belongs to whoever calls. Loggers are made by `structlog.get_logger(component=…)`;
the job's id and type are bound by the span that it runs in.
"""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import structlog

LogFormat = Literal["auto", "json", "console"]


def configure(log_format: LogFormat = "auto", level: str = "warning") -> None:
    """Send the log to stderr in this form. An application that has configured structlog already keeps its own."""
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


@contextmanager
def span(name: str, **attributes: Any) -> Iterator[None]:
    """Bind `attributes` to every line that is logged inside, and log at debug level how long it took."""
    started = time.monotonic()
    with structlog.contextvars.bound_contextvars(**attributes):
        try:
            yield
        finally:
            elapsed = round((time.monotonic() - started) * 1000, 1)
            structlog.get_logger(component="trace").debug(name, ms=elapsed)
