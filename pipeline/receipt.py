"""What an enqueue comes to."""

from dataclasses import dataclass

from contracts.states import JobState


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of an enqueue.

    `duplicate` means that this id, or this unique key, was there before; `id` and `state` are then those of the
    older job. State `cancelled` means that a fence covered it.
    """

    id: str
    state: JobState
    duplicate: bool = False
