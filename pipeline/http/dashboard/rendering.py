"""From a template and what it is about to a page."""

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pipeline.http.dashboard.texts import Language, visible

HERE: Final = Path(__file__).parent
STATIC: Final = HERE / "static"


def _shown(value: Any) -> Any:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


@cache
def version() -> str:
    """Return what changes whenever a static file does, so that browsers may keep them for ever."""
    files = sorted(STATIC.iterdir())
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def render(template: str, language: Language, **about: Any) -> str:
    """Return a page. Raises jinja2.UndefinedError for what the template asks and is not told."""
    return _environment().get_template(template).render(t=language, version=version(), **about)
