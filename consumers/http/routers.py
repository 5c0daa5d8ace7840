"""Every router of the domain."""

from typing import Final

from fastapi import APIRouter

from consumers.http import tasks

ROUTERS: Final[tuple[APIRouter, ...]] = (tasks.router,)
