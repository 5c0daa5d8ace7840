"""Texts as vectors by a service that speaks the embeddings call of OpenAI: `POST {base}/embeddings`."""

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import numpy as np
from pydantic import SecretStr

from consumers.knowledge.embedding.embedder import EmbeddingError, ModelUnavailable, TextRefused, Vectors
from contracts.outcomes import Retry
from pipeline.errors import ConfigurationError, Outage

BATCH: Final = 64  # texts of one call
AT_ONCE: Final = 4  # calls
LONGEST: Final = 12_000  # characters of a text that are sent; what is indexed is a tenth of that
CONNECT_S: Final = 5.0
BUSY_S: Final = 5.0  # waited where the service says that it is busy, and not for how long
SHORTEST_S: Final = 0.1
LONGEST_BUSY_S: Final = 3600.0
SAID: Final = 300  # characters of what the service answered that are shown

UNRELATED: Final = (
    "A recipe for banana bread.", "The treaty was signed in 1648.", "Error 404: page not found", "Кошка спит на диване.",
    "量子力学的基本原理", "Quarterly revenue grew by four percent.", "How do I tie a bowline?", "Zebras graze at dawn.",
)  # fmt: skip
"""Texts that have nothing to do with each other."""


class EndpointAway(EmbeddingError, Outage):  # noqa: N818 - a state of the world
    """The service cannot be reached, took too long or failed. Repeating may help."""


class EndpointBusy(Retry, EmbeddingError):  # noqa: N818 - a state of the world
    """The service asks not to be called for `after` seconds: a handler that lets this pass is tried again then."""


@dataclass
class Endpoint:
    """One service, shared by its models. `timeout_s` limits one call; `key_setting` is where its key comes from."""

    base_url: str
    api_key: SecretStr | None = None
    timeout_s: float = 60.0
    key_setting: str = "STREAMLANE_EMBEDDING_API_KEY"
    _client: httpx.AsyncClient | None = None
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    _busy_until: float = 0.0

    async def call(self, asked: dict[str, Any], path: str = "embeddings") -> Any:
        """Return what the service answers to a call. Raises the errors of this module, ModelUnavailable, TextRefused."""
        async with self._turns:
            wait = self._busy_until - time.monotonic()
            if wait > 0:  # what one was told, all know
                raise EndpointBusy(max(wait, SHORTEST_S), f"{self.base_url} is busy")
            try:
                answer = await self._opened().post(path, json=asked)
            except httpx.TimeoutException as error:
                raise EndpointAway(
                    f"{self.base_url} did not answer within {self.timeout_s:g} s ({type(error).__name__})"
                ) from error
            except httpx.HTTPError as error:
                raise EndpointAway(f"{self.base_url} cannot be reached: {error!r}") from error
        return self._read(answer, asked["model"])

    async def close(self) -> None:
        """Close its connections."""
        if self._client is not None:
            await self._client.aclose()

    def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            key = self.api_key
            self._client = httpx.AsyncClient(
                base_url=self.base_url.rstrip("/") + "/",
                headers={"Authorization": f"Bearer {key.get_secret_value()}"} if key else {},
                timeout=httpx.Timeout(self.timeout_s, connect=min(CONNECT_S, self.timeout_s)),
                limits=httpx.Limits(max_connections=AT_ONCE),
            )
        return self._client

    def _read(self, answer: httpx.Response, model: str) -> Any:
        status = answer.status_code
        if status == httpx.codes.OK:
            try:
                return answer.json()
            except ValueError as error:
                raise EndpointAway(f"{self.base_url} answered what is no JSON: {_said(answer)}") from error
        said = f"{self.base_url} answered {status}: {_said(answer)}"
        if status == 429 or (status == 503 and "retry-after" in answer.headers):
            after = _after(answer)
            self._busy_until = time.monotonic() + after
            raise EndpointBusy(after, said)
        if status == 404:
            raise ModelUnavailable(f"{said}: is {model!r} a model of this service?")
        if status in {400, 413, 422}:
            raise TextRefused(said)
        if status in {401, 403}:
            raise EndpointAway(f"{said}: check {self.key_setting}")
        raise EndpointAway(said)


def checked_url(url: str, setting: str) -> str:
    """Return the address of a service. Raises ConfigurationError for none, and for one with a password: errors name addresses."""
    if not url.startswith(("http://", "https://")):
        raise ConfigurationError(f"{setting}: write http://host:port/v1 or https://…, not {url[:100]!r}")
    if "@" in urlsplit(url).netloc:
        raise ConfigurationError(
            f"{setting}: write no name and password into it; a key has a setting of its own"
        )
    return url


class EndpointEmbedder:
    """An `Embedder` that asks a service."""

    def __init__(self, endpoint: Endpoint, model: str, dimension: int) -> None:
        self.model = model
        self.dimension = dimension
        self._endpoint = endpoint
        self._shortened = False
        self._floor: float | None = None

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`. Raises the errors of this module, ModelUnavailable, TextRefused."""
        batches = [texts[at : at + BATCH] for at in range(0, len(texts), BATCH)]
        tasks = []
        try:
            async with asyncio.TaskGroup() as calls:
                tasks = [calls.create_task(self._batch(batch)) for batch in batches]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return np.concatenate([np.empty((0, self.dimension), np.float32), *(task.result() for task in tasks)])

    async def floor(self) -> float:
        """How near texts are to this model that have nothing to do with each other; measured once."""
        if self._floor is None:
            rows = await self.embed(UNRELATED)
            near = (rows @ rows.T)[~np.eye(len(rows), dtype=bool)]
            self._floor = max(0.0, float(near.mean()))
        return self._floor

    async def _batch(self, texts: Sequence[str]) -> Vectors:
        sent = [text[:LONGEST].encode(errors="replace").decode().strip() or "-" for text in texts]
        asked: dict[str, Any] = {"model": self.model, "input": sent, "encoding_format": "float"}
        if not self._shortened:
            rows = self._rows(await self._endpoint.call(asked), len(sent))
            if rows.shape[1] == self.dimension:
                return rows
        # Not every service knows this option, so it is used only where it is needed.
        rows = self._rows(await self._endpoint.call({**asked, "dimensions": self.dimension}), len(sent))
        if rows.shape[1] != self.dimension:
            raise ModelUnavailable(
                f"{self._endpoint.base_url} makes vectors of {rows.shape[1]} numbers with {self.model!r}, not of"
                f" {self.dimension}: correct STREAMLANE_EMBEDDING_DIMENSION, or embed the base anew"
            )
        self._shortened = True
        return rows

    def _rows(self, answer: Any, count: int) -> Vectors:
        try:
            found = sorted(answer["data"], key=lambda one: int(one["index"]))
            rows = np.array([one["embedding"] for one in found], dtype=np.float32)
            if rows.ndim != 2 or len(rows) != count or not np.isfinite(rows).all():
                raise ValueError(f"{rows.shape} for {count} texts")
        except (KeyError, TypeError, ValueError) as error:
            raise EndpointAway(
                f"{self._endpoint.base_url} answered what are no embeddings: {error!r}"
            ) from error
        lengths: Vectors = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)


def _said(answer: httpx.Response) -> str:
    return " ".join(answer.text[:SAID].split())


def _after(answer: httpx.Response) -> float:
    """The seconds of a Retry-After, which may be a date by the clock of the service."""
    said = answer.headers.get("retry-after", "").strip()
    try:
        seconds = float(said)
    except ValueError:
        try:
            until = parsedate_to_datetime(said) - parsedate_to_datetime(answer.headers.get("date", ""))
        except (ValueError, TypeError):
            return BUSY_S
        seconds = until.total_seconds()
    return BUSY_S if math.isnan(seconds) else min(max(seconds, SHORTEST_S), LONGEST_BUSY_S)
