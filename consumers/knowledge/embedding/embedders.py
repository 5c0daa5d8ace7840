"""Which embedder makes the vectors of a base: a base keeps to the model of its first ones."""

from typing import Final

from consumers.knowledge.embedding.embedder import Embedder, LocalEmbedder, ModelUnavailable
from consumers.knowledge.embedding.endpoint import Endpoint, EndpointEmbedder, checked_url
from consumers.knowledge.embedding.hashing import HashingEmbedder
from pipeline import Settings
from pipeline.errors import ConfigurationError

MOST_NUMBERS: Final = 16_000
"""The longest vector that pgvector stores."""


class Embedders:
    """The embedders of this process, one a model and dimension, each made when it is first asked for."""

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigurationError for settings that do not go together."""
        self.local: Embedder = LocalEmbedder()
        """Compares texts within this process, whatever the model of a base: sentences of a summary, of an answer."""
        self._made: dict[tuple[str, int], Embedder] = {(self.local.model, self.local.dimension): self.local}
        self._endpoint = _endpoint(settings)
        model = settings.embedding_model or self.local.model
        self._usual = {
            LocalEmbedder.model: LocalEmbedder.dimension,
            HashingEmbedder.MODEL: HashingEmbedder.DIMENSION,
            **({model: settings.embedding_dimension} if settings.embedding_dimension else {}),
        }
        try:
            self.default = self.get(model, self.dimension_of(model))
            """Of bases that have no vectors yet."""
        except ModelUnavailable as lack:
            raise ConfigurationError(f"STREAMLANE_EMBEDDING_MODEL: {lack}") from None

    def get(self, model: str, dimension: int) -> Embedder:
        """Return what makes these vectors. Raises ModelUnavailable, saying what to set."""
        if (model, dimension) not in self._made:
            self._made[model, dimension] = self._make(model, dimension)
        return self._made[model, dimension]

    def dimension_of(self, model: str) -> int:
        """Return the dimension of a model where none is said. Raises ModelUnavailable where it cannot be known."""
        if model not in self._usual:
            raise ModelUnavailable(f"say how many numbers the vectors of {model} have")
        return self._usual[model]

    async def floor(self, embedder: Embedder) -> float:
        """Return how near texts are to this model that have nothing to do with each other. Raises EmbeddingError."""
        return await embedder.floor() if isinstance(embedder, EndpointEmbedder) else 0.0

    async def close(self) -> None:
        """Close the connections to the service."""
        if self._endpoint is not None:
            await self._endpoint.close()

    def _make(self, model: str, dimension: int) -> Embedder:
        if not 1 <= dimension <= MOST_NUMBERS:
            raise ModelUnavailable(f"vectors have 1 to {MOST_NUMBERS:,} numbers, not {dimension:,}")
        if model == self.local.model:
            raise ModelUnavailable(
                f"{model} makes vectors of {self.local.dimension} numbers, not {dimension}"
            )
        if model == HashingEmbedder.MODEL:
            return HashingEmbedder(dimension)
        if self._endpoint is None:
            raise ModelUnavailable(
                f"{model} is no model of this package ({self.local.model}, {HashingEmbedder.MODEL}):"
                " set STREAMLANE_EMBEDDING_BASE_URL to a service that has it"
            )
        return EndpointEmbedder(self._endpoint, model, dimension)


def _endpoint(settings: Settings) -> Endpoint | None:
    url = settings.embedding_base_url
    if url is None:
        return None
    url = checked_url(url, "STREAMLANE_EMBEDDING_BASE_URL")
    if not (settings.embedding_model and settings.embedding_dimension):
        raise ConfigurationError(
            "STREAMLANE_EMBEDDING_BASE_URL is set: say which model, and how many numbers its vectors have, with"
            " STREAMLANE_EMBEDDING_MODEL and STREAMLANE_EMBEDDING_DIMENSION"
        )
    return Endpoint(url, settings.embedding_api_key, settings.embedding_timeout_s)
