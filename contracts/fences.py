"""What a cancel covers. A fence is (scope, job types it covers, cut): every covered job rooted at or before the cut
neither starts nor is enqueued, and children inherit the root of their parent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Coverage:
    """Job types a cancel covers: `only` these, or (None) every type but `excluding`."""

    only: frozenset[str] | None = None
    excluding: frozenset[str] = frozenset()

    def covers(self, job_type: str) -> bool:
        """Whether a job of this type is covered."""
        return job_type in self.only if self.only is not None else job_type not in self.excluding


EVERYTHING: Final = Coverage()

COVERAGE: Final[Mapping[str, Coverage]] = {
    "knowledge": Coverage(
        only=frozenset(
            {
                "document:process",
                "manual:process",
                "image:multimodal",
                "knowledge:post_process",
                "question:generation",
                "summary:generation",
                "chunk:extract",
            }
        )
    ),
    "knowledge_base": Coverage(excluding=frozenset({"kb:delete", "index:delete"})),
}
"""Fixed per kind of scope (facts 3.2); a kind not named here is covered whole."""


def coverage(kind: str, types: frozenset[str] | None = None) -> Coverage:
    """Return what a cancel of a scope of this kind covers, narrowed to `types` if given."""
    whole = COVERAGE.get(kind, EVERYTHING)
    if types is None:
        return whole
    return Coverage(only=frozenset(t for t in types if whole.covers(t)))
