"""What is around every page: whose it is, in which language and theme, and how it fails."""

import json
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final
from urllib.parse import quote, unquote, urlencode

import structlog
from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from contracts.topology import UnknownNameError
from pipeline.clock import now_ms
from pipeline.errors import CursorExpired, CursorInvalid, JobNotFound, PartialEnqueue, StoreUnavailable
from pipeline.http.auth import COOKIE, SignInNeeded, signed_in
from pipeline.http.call import Call
from pipeline.http.dashboard.rendering import render
from pipeline.http.dashboard.texts import LANGUAGES, Language, language
from pipeline.http.desk import Desk, desk_of
from pipeline.http.errors import Problem
from pipeline.http.principal import Principal

LANGUAGE_COOKIE: Final = "streamlane_language"
THEME_COOKIE: Final = "streamlane_theme"
SAID_COOKIE: Final = "streamlane_said"
THEMES: Final = frozenset({"light", "dark"})
COME_IN: Final = '<!doctype html><title>Streamlane</title><meta http-equiv="refresh" content="0">'
UNITS: Final = ("s", "min", "h", "d")

log = structlog.get_logger(component="dashboard")


@dataclass(frozen=True, slots=True)
class Frame:
    """The visit of a signed-in person to one page."""

    request: Request
    desk: Desk
    who: Principal
    t: Language

    @property
    def call(self) -> Call:
        """What is done on this visit."""
        return Call.of(self.request, self.who)

    async def page(self, template: str, section: str = "", status: int = 200, **about: Any) -> Response:
        """Return a page with all that is around it."""
        now = now_ms()
        frame = {
            "now": now,
            "status": status,
            "theme": theme_of(self.request),
            "who": self.who.name,
            "csrf": self.who.csrf,
            "here": here(self.request),
            "section": section,
            "nav": self._nav(),
            "dead_count": await self._dead(),
            "languages": [(code, each.name) for code, each in LANGUAGES.items()],
            "units": json.dumps({unit: self.t(f"unit.{unit}") for unit in UNITS}),
            "said": said(self.request, self.t),
            "topic": "system",
            "iso": iso,
            "sentence": self.sentence,
        }
        response = HTMLResponse(render(template, self.t, **{**frame, **about}), status)
        if SAID_COOKIE in self.request.cookies:
            response.delete_cookie(SAID_COOKIE)
        return response

    def sentence(self, key: str, params: Mapping[str, Any]) -> str:
        """Return a sentence about what comes and goes."""
        return self.t.sentence(key, params, now_ms())

    def _nav(self) -> list[tuple[str, str]]:
        pages = ["dead", "workers", *(["documents"] if self.desk.documents else [])]
        pages += [*(["wiki"] if self.desk.wikis else []), "audit"]
        return [("overview", "/"), *((page, f"/{page}") for page in pages)]

    async def _dead(self) -> int:
        if not self.who.id:
            return 0  # a stranger sees pages, too: those that fail
        try:
            return sum(stat.archived for stat in await self.desk.inspector.queues())
        except StoreUnavailable:
            return 0


async def frame(
    request: Request,
    desk: Annotated[Desk, Depends(desk_of)],
    who: Annotated[Principal, Depends(signed_in)],
) -> Frame:
    """Return the visit. Raises SignInNeeded, Problem 403 (a change without its token)."""
    return Frame(request, desk, who, language_of(request))


Visit = Annotated[Frame, Depends(frame)]


def language_of(request: Request) -> Language:
    """Return the language of a visitor."""
    return language(request.cookies.get(LANGUAGE_COOKIE), request.headers.get("accept-language", ""))


def theme_of(request: Request) -> str:
    """Return the theme that a visitor chose; empty: that of their system."""
    theme = request.cookies.get(THEME_COOKIE, "")
    return theme if theme in THEMES else ""


def here(request: Request) -> str:
    """Return where a visitor is, to come back to."""
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


def local(path: str, otherwise: str = "/") -> str:
    """Return a path of this site; what would lead elsewhere is not followed."""
    fine = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if fine and "\\" not in path else otherwise


def iso(at: int) -> str:
    """Return a moment for machines."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")


def query_with(request: Request, **changes: str) -> str:
    """Return the query of a page with changes; another filter begins at the first page."""
    query = {k: v for k, v in request.query_params.items() if v and k != "cursor"} | changes
    return urlencode({k: v for k, v in query.items() if v})


def back_with(path: str, done: Mapping[str, int | str]) -> Response:
    """Return to a page that says, once, what was done: codes with a count or a name."""
    response = RedirectResponse(local(path), 303)
    response.set_cookie(SAID_COOKIE, quote(json.dumps(done)), max_age=60, httponly=True, samesite="strict")
    return response


GOOD: Final = (
    "cancelled", "signalled", "run", "deleted", "paused", "resumed",
    "document_cancel", "document_reparse", "document_delete",
)  # fmt: skip
"""How the codes of what was done as it was asked for begin."""


def said(request: Request, t: Language) -> Mapping[str, str] | None:
    """Return what the page before did, in words; the cookie may have been made by anybody."""
    try:
        done = json.loads(unquote(request.cookies.get(SAID_COOKIE, "")))
        parts = [_did(t, code, value) for code, value in done.items()]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    bad = any(not code.startswith(GOOD) for code in done)
    return {"level": "warn" if bad else "good", "text": " · ".join(parts)} if parts else None


def _did(t: Language, code: str, value: object) -> str:
    if isinstance(value, str):
        return t(f"done.{code}", queue=value[:128])
    return t(f"done.{code}", n=int(value)) if isinstance(value, int) and value else t(f"done.{code}")


PROBLEMS: Final[Mapping[type[Exception], tuple[int, str]]] = {
    JobNotFound: (404, "job"),
    UnknownNameError: (404, "queue"),
    CursorInvalid: (400, "cursor"),
    CursorExpired: (409, "cursor"),
    StoreUnavailable: (503, "store"),
    PartialEnqueue: (503, "store"),
}


def _entrance(request: Request) -> Response:
    """Lead a stranger to the sign-in. Whoever follows a link from elsewhere may be none: their browser keeps the cookie
    back until the page is asked for by a page of ours.
    """
    if request.method == "GET" and request.headers.get("sec-fetch-site") == "cross-site":
        return HTMLResponse(COME_IN)
    back = here(request) if request.method == "GET" else "/"
    return RedirectResponse(f"/sign-in?back={quote(back)}", 303)


class PageRoute(APIRoute):
    """A route whose failures are pages, too."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See APIRoute."""
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await inner(request)
            except SignInNeeded:
                return _entrance(request)
            except Problem as problem:
                code = problem.code if problem.code == "csrf" else "refused"
                said = language_of(request).refusal(problem.code, problem.error)
                return await failed(request, problem.status, code, said)
            except HTTPException as refusal:
                return await failed(request, refusal.status_code, "refused", str(refusal.detail))
            except tuple(PROBLEMS) as error:
                status, code = next(PROBLEMS[kind] for kind in type(error).mro() if kind in PROBLEMS)
                return await failed(request, status, code)
            except UnicodeError:  # a form in a coding of its own may hold half of a surrogate pair
                return await failed(request, 400, "refused", "this text cannot be kept")
            except RequestValidationError:
                return await failed(request, 404, "page")
            except Exception:
                log.exception("a page failed", path=request.url.path)
                return await failed(request, 500, "bug")

        return handle


async def failed(request: Request, status: int, code: str, error: str = "") -> Response:
    """Return the page that says what went wrong."""
    t = language_of(request)
    desk = desk_of(request)
    try:
        who = await signed_in(request, desk)
    except (SignInNeeded, Problem, HTTPException, StoreUnavailable):
        who = Principal("", "", "", frozenset())
    title = t(f"problem.{code}")
    text = t(f"problem.{code}.about") if t.has(f"problem.{code}.about") else error
    return await Frame(request, desk, who, t).page("problem.html", status=status, title=title, text=text)


def wants_page(request: Request) -> bool:
    """Whether a browser of somebody who signed in asks for a page."""
    reads = "text/html" in request.headers.get("accept", "")
    return reads and request.method == "GET" and COOKIE in request.cookies
