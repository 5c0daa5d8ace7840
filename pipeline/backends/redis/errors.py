"""What Redis says, as errors of the port."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from redis import exceptions

from pipeline.errors import StoreFull, StoreUnavailable

FULL: Final = ("OOM", "MISCONF")
"""No memory left; or the disk does not take snapshots, and Redis was told to stop then."""
REFUSED: Final = {
    "READONLY": "it is a replica, or fails over",
    "LOADING": "it is loading its data",
    "MASTERDOWN": "its link to the primary is down",
    "CLUSTERDOWN": "the cluster is not complete",
    "TRYAGAIN": "slots are moving",
    "ASK": "slots are moving",
    "MOVED": "slots are moving, or it is a node of a Cluster: then STREAMLANE_REDIS_URL begins with cluster://",
    "This instance has cluster support disabled": "it is no Cluster: write redis://… in STREAMLANE_REDIS_URL",
    "unknown command 'SENTINEL": "it is no Sentinel: write redis://… in STREAMLANE_REDIS_URL",
    "unknown command 'EVAL": "it runs no scripts; if it is a Sentinel, write sentinel://…/<service> in STREAMLANE_REDIS_URL",
    "NOREPLICAS": "too few replicas follow",
    "NOAUTH": "it wants a password: put one into STREAMLANE_REDIS_URL",
    "WRONGPASS": "user or password are wrong: look at STREAMLANE_REDIS_URL",
    "NOPERM": "this user may not do that; docs/redis.md lists the rights that are needed",
    "DB index": "it has no database of this number: look at STREAMLANE_REDIS_URL",
    "BUSY": "a script runs there for too long",
    "UNBLOCKED": "it takes another role",
}
KNOWN: Final = frozenset((*FULL, *REFUSED))
WORD: Final = re.compile(rf"(?:^|-|\(['\"])({'|'.join(KNOWN)})\b")
MAY_NOT: Final = ("ACL failure in script", "The user executing the script can't")
"""What a user without a right hears who asks in a script: Valkey, Redis."""
CLIENT: Final = re.compile(r"<[\w.]*Redis\(.*?\bhost=([^,)]*),port=(\d+)[^)]*(?:\)>)+")
"""How redis-py names a sentinel."""
UNTRUSTED: Final = "CERTIFICATE_VERIFY_FAILED"


def store_error(error: Exception) -> StoreUnavailable | None:
    """Return what `error` means for the port; None where it is not of the world but a mistake of ours."""
    text = CLIENT.sub(r"\1:\2", str(error)).rstrip(".") or type(error).__name__
    code = _code(error, text)
    if code in FULL:
        return StoreFull(f"Redis has no room: raise maxmemory or free some, then repeat ({text})")
    if code in REFUSED:
        return StoreUnavailable(f"Redis does not serve this now: {REFUSED[code]} ({text})")
    if UNTRUSTED in text:
        return StoreUnavailable(
            "Redis is not trusted: STREAMLANE_REDIS_CA_FILE must vouch for it, and its certificate name the host of the URL"
            f" or STREAMLANE_REDIS_SERVER_NAME ({text})"
        )
    if isinstance(error, exceptions.ResponseError | exceptions.DataError):
        return None
    if isinstance(error, exceptions.RedisError | OSError | TimeoutError):
        return StoreUnavailable(
            f"Redis does not answer: see that it runs, and where STREAMLANE_REDIS_URL says it does ({text})"
        )
    return None


@contextmanager
def store_errors() -> Iterator[None]:
    """Raise what Redis says as StoreUnavailable or StoreFull."""
    try:
        yield
    except Exception as error:
        found = store_error(error)
        if found is None:
            raise
        raise found from error


def _code(error: Exception, text: str) -> str:
    """Return the word that a refusal begins with. redis-py keeps some of them apart from the text, and puts words of its
    own before what is said in a pipeline.
    """
    if (apart := getattr(error, "status_code", None)) in KNOWN:
        return str(apart)
    if isinstance(error, exceptions.AuthenticationError) or "AuthenticationError" in text:  # of a sentinel
        return "WRONGPASS"
    if any(words in text for words in MAY_NOT):
        return "NOPERM"
    if found := WORD.search(text):
        return found[1]
    return "OOM" if "'maxmemory'" in text else ""
