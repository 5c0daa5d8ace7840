"""Files attached to a chat: they live as long as they are of use to it, and no longer."""

from enum import StrEnum
from typing import Final


class AttachmentStatus(StrEnum):
    """Where an attached file is."""

    UPLOADED = "uploaded"
    PROCESSING = "processing"
    READY = "ready"
    FAILED = "failed"


UNDER_WAY: Final = frozenset({AttachmentStatus.UPLOADED, AttachmentStatus.PROCESSING})
"""States that move on by themselves."""
