"""All pages of the dashboard, in the order in which their addresses are tried."""

from fastapi import APIRouter

from pipeline.http import sse
from pipeline.http.dashboard import acts, entrance, letters, pages, wikis

router = APIRouter()
for part in (entrance.router, sse.router, pages.router, wikis.router, letters.router, acts.router):
    router.include_router(part)
