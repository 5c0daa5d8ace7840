"""A real web server for tests: what each path answers is a function, and what was asked is kept."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

Answer = Callable[[Request], Awaitable[Response]]
LOOPBACK: Final = "127.0.0.0/8"


@dataclass
class Web:
    """One server. `pages` maps paths to answers, a response or a function, and `rest` answers all others; `asked` lists the requests that came."""

    pages: dict[str, Response | Answer] = field(default_factory=dict)
    asked: list[Request] = field(default_factory=list)
    port: int = 0
    rest: Response | Answer = field(default_factory=lambda: PlainTextResponse("not here", 404))

    def at(self, path: str = "/", host: str = "127.0.0.1") -> str:
        """Return the address of a path."""
        return f"http://{host}:{self.port}{path}"

    @property
    def paths(self) -> list[str]:
        """Return the paths that were asked for, in order."""
        return [request.url.path for request in self.asked]

    def headers(self, at: int = -1) -> Mapping[str, str]:
        """Return the headers of a request, the last one unless said otherwise."""
        return self.asked[at].headers

    async def answer(self, scope: object, receive: object, send: object) -> None:
        """Serve one request (ASGI)."""
        request = Request(scope, receive)  # type: ignore[arg-type] # uvicorn's words for the same things
        self.asked.append(request)
        page = self.pages.get(request.url.path, self.rest)
        response = page if isinstance(page, Response) else await page(request)
        await response(scope, receive, send)  # type: ignore[arg-type]


@asynccontextmanager
async def served() -> AsyncIterator[Web]:
    """A web server on a free port of the loopback, for as long as the block runs."""
    web = Web()
    config = uvicorn.Config(
        web.answer,
        interface="asgi3",
        port=0,
        lifespan="off",
        log_level="critical",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    sockets = [config.bind_socket()]
    web.port = sockets[0].getsockname()[1]
    running = asyncio.create_task(server._serve(sockets))
    try:
        yield web
    finally:
        server.should_exit = True
        await running
