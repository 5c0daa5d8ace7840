"""Whether a server speaks with TLS where the URL says without, or the other way round: all it says itself is to hang up."""

import asyncio
import ssl
from contextlib import suppress
from dataclasses import replace
from typing import Final

from pipeline.backends.redis.address import Address

ASKING_S: Final = 1.0
ANSWERS: Final = (b"+", b"-")
"""What an answer of Redis to a PING begins with; one of TLS does not."""


async def mistaken(address: Address) -> str:
    """Return what to write instead where this is known, after asking without a login; "" otherwise."""
    secure = bool(address.options.get("ssl"))
    with suppress(OSError, TimeoutError):
        for host, port in address.hosts[:1]:
            async with asyncio.timeout(ASKING_S):
                if await (_speaks_plainly if secure else _speaks_tls)(host, port):
                    other = replace(address, options={**address.options, "ssl": not secure})
                    scheme = str(other).partition("://")[0]
                    how = "speaks without TLS" if secure else "wants TLS"
                    return f"it {how}: write {scheme}://… in STREAMLANE_REDIS_URL"
    return ""


async def _speaks_plainly(host: str, port: int) -> bool:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(b"PING\r\n")
        return await reader.read(1) in ANSWERS
    finally:
        writer.close()


async def _speaks_tls(host: str, port: int) -> bool:
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection(host, port, ssl=anybody)
    writer.close()
    return True
