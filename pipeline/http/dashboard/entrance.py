"""Coming in, going out, and what a visitor prefers."""

from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse

from pipeline.http import sign_in
from pipeline.http.dashboard.frame import (
    LANGUAGE_COOKIE,
    THEME_COOKIE,
    THEMES,
    PageRoute,
    Visit,
    language_of,
    local,
    theme_of,
)
from pipeline.http.dashboard.rendering import STATIC, render
from pipeline.http.dashboard.rendering import version as newest
from pipeline.http.dashboard.texts import LANGUAGES
from pipeline.http.errors import Problem

YEAR_S: Final = 365 * 86_400

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/sign-in")
async def sign_in_page(request: Request, back: str = "/") -> Response:
    """Ask who it is."""
    return entrance(request, back=back)


def entrance(
    request: Request, *, back: str, name: str = "", problem: str = "", status: int = 200
) -> Response:
    """Return the page that asks for name and password; `problem` is the code of why the last ones were refused."""
    t = language_of(request)
    about = {
        "theme": theme_of(request),
        "languages": [(code, each.name) for code, each in LANGUAGES.items()],
        "back": local(back),
        "name": name,
        "problem": t(f"sign_in.{problem}") if problem else "",
    }
    return HTMLResponse(render("sign_in.html", t, **about), status)


@router.post("/sign-in")
async def enter(request: Request) -> Response:
    """Let somebody in who knows the password."""
    form = {key: value for key, value in (await request.form()).items() if isinstance(value, str)}
    name, back = form.get("name", "").strip()[:128], form.get("back", "/")
    try:
        token = await sign_in.begin(request, name, form.get("password", "")[:1024])
    except Problem as problem:
        if problem.status not in {401, 429}:
            raise
        return entrance(request, back=back, name=name, problem=problem.code, status=problem.status)
    response = RedirectResponse(local(back), 303)
    sign_in.give(request, response, token)
    return response


@router.post("/sign-out")
async def leave(request: Request, visit: Visit) -> Response:
    """End the session."""
    response = RedirectResponse("/sign-in", 303)
    await sign_in.end(request, response, visit.who)
    return response


@router.get("/preferences")
async def preferences(lang: str = "", theme: str = "", back: str = "/") -> Response:
    """Keep a language or a theme."""
    response = RedirectResponse(local(back), 303)
    if lang in LANGUAGES:
        response.set_cookie(LANGUAGE_COOKIE, lang, max_age=YEAR_S, samesite="lax", httponly=True)
    if theme in THEMES:
        response.set_cookie(THEME_COOKIE, theme, max_age=YEAR_S, samesite="lax", httponly=True)
    elif theme == "auto":
        response.delete_cookie(THEME_COOKIE)
    return response


@router.get("/static/{version}/{name}")
async def static(version: str, name: str) -> Response:
    """Return a file of ours; its address changes with its content, so it may be kept for ever."""
    files = {file.name: file for file in STATIC.iterdir()}
    if name not in files:
        raise Problem(404, f"no file {name[:80]!r} of version {version[:20]!r}", "not_found")
    kept = f"public, max-age={YEAR_S}, immutable" if version == newest() else "no-cache"
    return FileResponse(files[name], headers={"cache-control": kept})
