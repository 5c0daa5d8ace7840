"""Who asks, and what they may do: a program by its key, a person by the cookie of a sign-in."""

import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Final

from fastapi import Depends, Request
from fastapi.openapi.models import APIKey, APIKeyIn
from fastapi.security.base import SecurityBase

from pipeline.http import audit
from pipeline.http.desk import Desk, desk_of
from pipeline.http.errors import Problem
from pipeline.http.principal import ADMIN, PLATFORM_KEY, TENANT_KEY, Principal
from pipeline.store import keys, people
from pipeline.store.keys import Capability

COOKIE: Final = "streamlane_session"
CSRF_HEADER: Final = "x-csrf-token"
CSRF_FIELD: Final = "csrf_token"
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class SignInNeeded(Exception):  # noqa: N818 - a state of the visitor
    """A page was asked for by nobody we know."""


class _Credentials(SecurityBase):
    """Names in OpenAPI how to authenticate; reads nothing itself."""

    def __init__(self, name: str, place: APIKeyIn, description: str) -> None:
        self.model = APIKey.model_validate({"in": place, "name": name, "description": description})
        self.scheme_name = "key" if place is APIKeyIn.header else "session"

    async def __call__(self) -> None:
        return


KEY: Final = _Credentials("X-API-Key", APIKeyIn.header, "or Authorization: Bearer")
SESSION: Final = _Credentials(COOKIE, APIKeyIn.cookie, "of a signed-in administrator")


def needs(
    *capabilities: Capability, deed: str | Mapping[str, str] = "", platform: bool = False
) -> Callable[..., Awaitable[Principal]]:
    """Return a dependency: whoever has one of these capabilities. Raises Problem 401, 403.

    With `platform`, a key that is bound to a tenant will not do. `deed` is what the audit log calls a request that is
    refused, by the path's `action` where there are several.
    """

    async def check(
        request: Request,
        desk: Annotated[Desk, Depends(desk_of)],
        _key: Annotated[None, Depends(KEY)],
        _session: Annotated[None, Depends(SESSION)],
    ) -> Principal:
        principal = await _by_key(request, desk) or await _by_cookie(request, desk)
        if principal is None:
            raise Problem(
                401,
                "no valid key: send one as X-API-Key or Authorization: Bearer",
                "unauthenticated",
                {"WWW-Authenticate": "Bearer"},
            )
        refusal = ""
        if principal.capabilities.isdisjoint(capabilities):
            refusal = f"this needs the capability {' or '.join(capabilities)}"
        elif platform and principal.tenant_id is not None:
            refusal = "this concerns all tenants, and the key is bound to one"
        if refusal:
            named = deed if isinstance(deed, str) else deed.get(request.path_params.get("action", ""), "")
            problem = Problem(403, refusal, "forbidden")
            if named:
                await audit.refused(request, principal, named, problem)
            raise problem
        return principal

    return check


async def signed_in(request: Request, desk: Annotated[Desk, Depends(desk_of)]) -> Principal:
    """Return the signed-in person. Raises SignInNeeded, which leads to the sign-in page; Problem 403 for a change
    without its CSRF token.
    """
    principal = await _by_cookie(request, desk)
    if principal is None:
        raise SignInNeeded
    return principal


async def signed_in_person(
    request: Request, desk: Annotated[Desk, Depends(desk_of)], _session: Annotated[None, Depends(SESSION)]
) -> Principal:
    """Return the signed-in person, for a program. Raises Problem 401, 403."""
    principal = await _by_cookie(request, desk)
    if principal is None:
        raise Problem(401, "not signed in", "unauthenticated")
    return principal


async def _by_key(request: Request, desk: Desk) -> Principal | None:
    text = request.headers.get("x-api-key", "")
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if not text and scheme.lower() == "bearer":
        text = token.strip()
    if not text:
        return None
    async with desk.database.read() as sql:
        key = await keys.find(sql, text)
        if key is None:
            return None
        if key.tenant_id is not None and desk.tenants and not await desk.tenants.lives(sql, key.tenant_id):
            return None
    role = PLATFORM_KEY if key.tenant_id is None else TENANT_KEY
    return Principal(key.id, key.name, role, frozenset(key.capabilities), key.tenant_id)


async def _by_cookie(request: Request, desk: Desk) -> Principal | None:
    token = request.cookies.get(COOKIE)
    if not token:
        return None
    async with desk.database.read() as sql:
        session = await people.session(sql, token)
    if session is None:
        return None
    if request.method not in SAFE:
        given = request.headers.get(CSRF_HEADER) or await _form_token(request)
        if not hmac.compare_digest(given.encode("utf-8", "surrogatepass"), session.csrf.encode()):
            raise Problem(403, "the CSRF token is missing or of another session: load the page again", "csrf")
    return Principal(session.admin_id, session.name, ADMIN, frozenset(Capability), csrf=session.csrf)


async def _form_token(request: Request) -> str:
    if not request.headers.get("content-type", "").startswith(
        ("application/x-www-form-urlencoded", "multipart/form-data")
    ):
        return ""
    value = (await request.form()).get(CSRF_FIELD)
    return value if isinstance(value, str) else ""
