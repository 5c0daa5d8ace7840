"""Texts as vectors without any model: words and their pieces, hashed to places.

It knows no meanings, only spellings: a last resort, for machines on which no encoder runs, and for trials.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import numpy as np

from consumers.knowledge.embedding.embedder import Vectors
from consumers.knowledge.language.words import terms

PIECE: Final = 3  # letters
PIECE_WORTH: Final = 0.3  # beside 1 for a whole word


class HashingEmbedder:
    """An `Embedder` of whatever dimension: texts are near each other that share words, or pieces of words."""

    MODEL: Final = "hashing-1"
    """The way words are hashed; with another it gets another name."""
    DIMENSION: Final = 512

    model: Final = MODEL
    BATCH: Final = 16  # texts in one call, 5 ms in which nothing else of this process computes

    def __init__(self, dimension: int = DIMENSION) -> None:
        self.dimension = dimension

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`."""
        return await asyncio.to_thread(self._embed, texts)

    def _embed(self, texts: Sequence[str]) -> Vectors:
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for part, worth in _parts(text).items():
                place = _place(part)
                row[(place >> 1) % self.dimension] += worth if place & 1 else -worth
            if not row.any():  # no word at all, or all of them cancel out
                row[0] = 1
        lengths: Vectors = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / lengths


def _parts(text: str) -> Counter[str]:
    parts: Counter[str] = Counter()
    for term, count in Counter(terms(text)).items():
        worth = 1 + np.log(count)
        parts[term] += worth
        around = f" {term} "
        pieces = [around[at : at + PIECE] for at in range(len(around) - PIECE + 1)]
        for piece in pieces:
            parts[f"\0{piece}"] += worth * PIECE_WORTH / len(pieces) ** 0.5
    return parts


@lru_cache(1 << 16)
def _place(part: str) -> int:
    data = part.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")
