"""The HTTP service as one app."""

from typing import Final

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipeline.http import admin, audit_log, dead_letters, health, knowledge, sign_in, wiki_pages
from pipeline.http.auth import SignInNeeded
from pipeline.http.bodies import Bounded
from pipeline.http.dashboard.frame import failed, wants_page
from pipeline.http.dashboard.router import router as dashboard
from pipeline.http.desk import Desk
from pipeline.http.errors import WORDS, answer_errors, body
from pipeline.http.sse import Watch
from pipeline.http.wire import Json

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}


def create_app(desk: Desk) -> FastAPI:
    """Return the app: health, admin API, documents, dashboard."""
    app = FastAPI(
        title="Streamlane",
        version="1",
        docs_url=None,  # these pages load from a CDN
        redoc_url=None,
        default_response_class=Json,
    )
    app.state.desk, app.state.watch = desk, Watch(desk.inspector)
    answer_errors(app)
    for part in (health, sign_in, admin, dead_letters, audit_log, knowledge, wiki_pages):
        app.include_router(part.router)
    app.include_router(dashboard)

    @app.exception_handler(SignInNeeded)
    async def _sign_in(_request: Request, _error: SignInNeeded) -> Response:
        return RedirectResponse("/sign-in", 303)

    @app.exception_handler(404)
    async def _nowhere(request: Request, error: Exception) -> Response:
        if wants_page(request):
            return await failed(request, 404, "page")
        if isinstance(error, HTTPException):
            return body(404, str(error.detail), WORDS[404])
        raise error

    app.add_middleware(Bounded)
    app.add_middleware(Headers)
    return app


class Headers:
    """Every answer says what a browser may do with it: load nothing from elsewhere, be in no other's frame."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)
