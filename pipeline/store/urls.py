"""The URL of a database, as people write it."""

from typing import Final

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from pipeline.errors import ConfigurationError

EXAMPLES: Final = "sqlite:///folder/streamlane.db or postgresql://user@host/database"
HIGHEST_PORT: Final = 65_535


def read_url(url: str | URL) -> URL:
    """Take a URL apart. Raises ConfigurationError, which repeats nothing of it: where it is not understood a password may
    stand anywhere.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ConfigurationError(f"database_url is not a URL: write {EXAMPLES}") from None
    except ValueError:
        parsed = None
    if parsed is None or not 0 < (parsed.port or 1) <= HIGHEST_PORT:
        raise ConfigurationError(
            "database_url: what stands between the host and the database is no port;"
            f" an @, : or / in a password is written %40, %3A or %2F: write {EXAMPLES}"
        )
    return parsed
