"""What is remembered of people: kinds of things, who said them, and who may have them written down."""

from enum import StrEnum
from typing import Final


class MemoryKind(StrEnum):
    """What a remembered thing is."""

    PROFILE = "profile"
    """Who somebody is: their name, their birthday, how to reach them."""
    PREFERENCE = "preference"
    """What they like, and what they do not."""
    FACT = "fact"
    """What is so with them: home, work, family, what they use."""
    GOAL = "goal"
    """What they are up to."""
    INSTRUCTION = "instruction"
    """How they want to be answered."""


class WriteMode(StrEnum):
    """Who writes memory down."""

    AUTO = "auto"
    """What people say of themselves is read out of their conversations, too."""
    EXPLICIT_ONLY = "explicit_only"
    """Only what somebody adds."""


class TurnRole(StrEnum):
    """Who said a message of a session."""

    USER = "user"
    ASSISTANT = "assistant"


ADDED: Final = "explicit"
"""The method of what somebody added or rewrote; see `contracts.knowledge.EXTRACTIVE` for what was read."""
