"""Why a job was given up, as it is said to people in the error of what it worked on."""

from collections.abc import Mapping
from typing import Final

from contracts.states import ArchiveReason

PHRASES: Final[Mapping[ArchiveReason, str]] = {
    ArchiveReason.EXHAUSTED: "exhausted retries",
    ArchiveReason.WORKER_LOST: "lost its worker too often",
    ArchiveReason.POISON: "cannot be understood",
    ArchiveReason.EXPIRED: "ran out of time",
}
