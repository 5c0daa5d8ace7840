"""Pool postprocess: the one fan-out of a parsed document."""

from typing import Final

from consumers.apps import app_on_demand
from consumers.handlers import postprocess
from consumers.knowledge.belonging import guarded

HANDLERS: Final = guarded(*postprocess.HANDLERS)

__getattr__ = app_on_demand(HANDLERS, "postprocess")
