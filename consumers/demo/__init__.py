"""A few small documents that `streamlane demo` ingests, with the tags it offers and the question it asks."""

from pathlib import Path
from typing import Final

DOCUMENTS: Final = Path(__file__).parent / "documents"

TAGS: Final = {
    "reliability": "crashes, leases, retries, recovery, nothing is lost",
    "scaling": "pools, slots, concurrency, capacity, how many workers",
    "cancellation": "stopping and cancelling jobs",
    "documents": "the life of a document: parsing, chunks, status",
    "cooking": "recipes, ingredients, kitchen",
}

QUESTION: Final = "What happens when a worker is killed?"
