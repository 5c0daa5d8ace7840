"""Signing in and out: a name and a password for the cookie of a session.

A guess is counted before it is tried, so that many at once are no way around the limit.
"""

import asyncio
from functools import cache
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field

from pipeline.http import audit
from pipeline.http.auth import COOKIE, signed_in_person
from pipeline.http.call import Call
from pipeline.http.desk import Desk, desk_of
from pipeline.http.errors import ErrorBody, Problem, documented
from pipeline.http.principal import ADMIN, Principal
from pipeline.store import people

SIGNED_IN: Final = "system.admin_signed_in"
SIGNED_OUT: Final = "system.admin_signed_out"
OF_ONE_FROM_ONE: Final = 5
FROM_ONE: Final = 20
OF_ONE: Final = 100
"""Failures within a quarter of an hour after which no more guesses are taken: of a name from an address, from an
address, of a name. The last is high, for else anybody could lock somebody out.
"""

router = APIRouter(prefix="/api/v1/system/admin", tags=["session"])


class Credentials(BaseModel):
    """Who it is."""

    name: str = Field(min_length=1, max_length=128)
    password: str = Field(min_length=1, max_length=1024)


class SessionBody(BaseModel):
    """A session; `csrf_token` goes with each change, as the header X-CSRF-Token."""

    name: str
    csrf_token: str


class Ended(BaseModel):
    """The session is over."""

    success: bool = True


async def begin(request: Request, name: str, password: str) -> str:
    """Return what the cookie of a new session says. Raises Problem 401, 403, 429."""
    desk = desk_of(request)
    if request.headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
        raise Problem(403, "sign in on the page of this service", "csrf")
    address = request.client.host if request.client else ""
    one_from_one, one, source = f"{name}@{address}", f"name:{name}", f"from:{address}"
    limits = {one_from_one: OF_ONE_FROM_ONE, source: FROM_ONE, one: OF_ONE}
    async with desk.database.transaction() as sql:
        counted = await people.note_failure(sql, *limits)  # before the guess: several are made at once
        if any(counted[who] > limit for who, limit in limits.items()):
            wait = {"Retry-After": str(people.WINDOW_MS // 1000)}
            raise Problem(429, "too many failed sign-ins: wait a quarter of an hour", "too_many", wait)
        found = await people.password_of(sql, name)
    admin, kept = found or ("", "")
    async with desk.guesses:
        fits = await asyncio.to_thread(lambda: people.matches(password, kept or _nobody()))
    who = Principal(admin, name, ADMIN, frozenset())
    if not (found and fits):
        wrong = Problem(401, "wrong name or password", "wrong")
        await audit.refused(request, who, SIGNED_IN, wrong, ("admin", name))
        raise wrong
    async with (
        audit.recorded(Call.of(request, who), SIGNED_IN, ("admin", name)),
        desk.database.transaction() as sql,
    ):
        await people.forgive(sql, *limits)
        return await people.begin_session(sql, admin)


async def end(request: Request, response: Response, who: Principal) -> None:
    """End the session of a request."""
    desk = desk_of(request)
    async with (
        audit.recorded(Call.of(request, who), SIGNED_OUT, ("admin", who.name)),
        desk.database.transaction() as sql,
    ):
        await people.end_session(sql, request.cookies.get(COOKIE, ""))
    response.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=_is_secret(request))


def give(request: Request, response: Response, token: str) -> None:
    """Let a browser keep what `begin` returned."""
    response.set_cookie(
        COOKIE,
        token,
        max_age=people.SESSION_MS // 1000,
        httponly=True,
        samesite="strict",
        secure=_is_secret(request),
    )


@router.post(
    "/session", responses={401: {"model": ErrorBody}, 429: {"model": ErrorBody}, **documented(400, 403)}
)
async def sign_in(
    request: Request, response: Response, desk: Annotated[Desk, Depends(desk_of)], said: Credentials
) -> SessionBody:
    """Sign in; the answer sets the cookie of the session."""
    token = await begin(request, said.name, said.password)
    give(request, response, token)
    async with desk.database.read() as sql:
        session = await people.session(sql, token)
    return SessionBody(name=said.name, csrf_token=session.csrf if session else "")


@router.delete("/session", responses=documented(401, 403))
async def sign_out(
    request: Request, response: Response, who: Annotated[Principal, Depends(signed_in_person)]
) -> Ended:
    """Sign out."""
    await end(request, response, who)
    return Ended()


def _is_secret(request: Request) -> bool:
    return request.url.scheme == "https"


@cache
def _nobody() -> str:
    """What a guess at a name that is not there is compared with: it takes as long."""
    return people.hashed("nobody")
