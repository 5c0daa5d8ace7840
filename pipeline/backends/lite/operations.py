"""What the writer is asked to do."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from pipeline.backends.lite.transaction import Transaction

T = TypeVar("T")
Operation = Callable[[Transaction], T]
"""May be run again after it failed, so all it does is in its transaction."""


class Joint(ABC, Generic[T]):
    """An operation that costs less when it is done together with others of its class."""

    @abstractmethod
    def __call__(self, transaction: Transaction) -> T:
        """Do it alone."""

    @classmethod
    @abstractmethod
    def together(cls, transaction: Transaction, operations: Sequence[Self]) -> list[Any]:
        """Do all of them; return what each would have returned alone. If this raises, each is done alone."""


@dataclass(frozen=True, slots=True)
class Fleeting(Generic[T]):
    """An operation that a power failure may undo without harm, so that it need not wait for the disk.

    What a claim did, say: who claimed has lost power, too.
    """

    operation: Operation[T]

    def __call__(self, transaction: Transaction) -> T:
        return self.operation(transaction)
