"""A version of the topology in which a queue was moved to another pool."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pytest
from contracts.topology import QUEUES, home


@contextmanager
def moved(moves: Mapping[str, str]) -> Iterator[None]:
    """Inside, these queues are read by other pools, as an edit of the registry makes it: their homes stay."""
    with pytest.MonkeyPatch.context() as patch:
        for name, pool in moves.items():
            patch.setitem(QUEUES, name, replace(QUEUES[name], pool=pool, home=home(name)))
        yield
