"""How much of a request is read: little, until somebody who may send more is known."""

from typing import Final

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LONGEST_BODY: Final = 1_048_576

_LONGEST: Final = "streamlane.longest_body"


def allow(request: Request, most: int) -> None:
    """Let a request have so many bytes. Called once it is known who asks; until then nobody is read for long.

    Raises HTTPException 413 where it says itself that it is longer.
    """
    said = request.headers.get("content-length", "")
    if said.isascii() and said.isdecimal() and int(said[:19]) > most:
        raise _too_long(most)
    request.scope[_LONGEST] = most


class Bounded:
    """No request is longer than what it is for: whoever sends more is not read on, key or not."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        read = 0
        scope[_LONGEST] = LONGEST_BODY

        async def bounded() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > scope[_LONGEST]:
                raise _too_long(scope[_LONGEST])
            return message

        await self._app(scope, bounded, send)


def _too_long(most: int) -> HTTPException:
    return HTTPException(413, f"a request of this kind has at most {most} bytes")
