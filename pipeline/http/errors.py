"""What a request that cannot be served is told: a status, and a body of `error` (for people) and `code` (for programs)."""

from collections.abc import Mapping
from typing import Any, Final

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from contracts.topology import UnknownNameError
from pipeline.errors import (
    ConfigurationError,
    CursorExpired,
    CursorInvalid,
    JobNotFound,
    NotAllowed,
    PartialEnqueue,
    StoreUnavailable,
)
from pipeline.http.wire import Json

log = structlog.get_logger(component="http")

WORDS: Final[Mapping[int, str]] = {
    400: "invalid_request",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
}

KNOWN: Final[Mapping[type[Exception], tuple[int, str]]] = {
    UnknownNameError: (400, "unknown_name"),
    ConfigurationError: (400, "invalid_request"),
    CursorInvalid: (400, "runtime_task_cursor_invalid"),
    CursorExpired: (409, "runtime_task_cursor_expired"),
    JobNotFound: (404, "task_not_found"),
    NotAllowed: (409, "action_not_allowed"),
    StoreUnavailable: (503, "store_unavailable"),
    PartialEnqueue: (503, "store_unavailable"),
}


class ErrorBody(BaseModel):
    """What went wrong."""

    error: str
    code: str


class Problem(Exception):  # noqa: N818 - what a request runs into
    """Ends a request with this status, `error` and `code`."""

    def __init__(self, status: int, error: str, code: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(error)
        self.status, self.error, self.code, self.headers = status, error, code, headers


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what OpenAPI says of these statuses; every route may also refuse its input, or find the store away."""
    return {status: {"model": ErrorBody} for status in (400, *statuses, 413, 422, 503)}


def answer_errors(app: FastAPI) -> None:
    """Answer everything that can go wrong with an error body."""
    answer_known(app, KNOWN)

    @app.exception_handler(Problem)
    async def _problem(_request: Request, problem: Problem) -> Response:
        return body(problem.status, problem.error, problem.code, problem.headers)

    @app.exception_handler(HTTPException)
    async def _http(_request: Request, error: HTTPException) -> Response:
        return body(
            error.status_code, str(error.detail), WORDS.get(error.status_code, "refused"), error.headers
        )

    @app.exception_handler(RequestValidationError)
    async def _invalid(_request: Request, error: RequestValidationError) -> Response:
        said = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        return body(422, said, "invalid_request")

    @app.exception_handler(Exception)
    async def _bug(request: Request, error: Exception) -> Response:
        log.error("a request failed", path=request.url.path, error=repr(error))
        return body(500, "this server failed; its log says how", "internal")


def answer_known(app: FastAPI, known: Mapping[type[Exception], tuple[int, str]]) -> None:
    """Answer errors of these kinds with a status and a code, and with what they say."""

    async def answer(_request: Request, error: Exception) -> Response:
        status, code = next(known[kind] for kind in type(error).mro() if kind in known)
        return body(status, str(error), code)

    for kind in known:
        app.add_exception_handler(kind, answer)


def body(status: int, error: str, code: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error body."""
    return Json({"error": error, "code": code}, status, headers)
