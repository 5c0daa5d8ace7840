"""All pages of the dashboard, in the order in which their addresses are tried."""

from fastapi import APIRouter

from pipeline.http import sse
from pipeline.http.dashboard import acts, document_acts, entrance, graphs, letters, pages, wikis

router = APIRouter()
for part in (entrance, sse, pages, wikis, graphs, letters, document_acts, acts):
    router.include_router(part.router)
