"""What is remembered for everybody: written once, unless it is to be replaced."""

from pipeline.broker import Broker

from tests.conformance.conftest import Insist
from tests.support.backends import Backend


async def test_who_comes_later_is_told_what_the_first_said(
    store: Broker, backend: Backend, insist: Insist
) -> None:
    other = await backend.open()
    assert await insist(store.remember, "place", "here") == "here"
    assert await other.remember("place", "there") == "here"
    assert await other.remember("colour", "red") == "red"


async def test_it_outlasts_a_restart(store: Broker, backend: Backend) -> None:
    await store.remember("place", "here")
    again = await backend.restart()
    assert await again.remember("place", "there") == "here"


async def test_it_can_be_replaced(store: Broker, backend: Backend) -> None:
    await store.remember("place", "here")
    assert await store.remember("place", "there", anew=True) == "there"
    assert await (await backend.open()).remember("place", "here") == "there"
    assert await store.remember("colour", "red", anew=True) == "red"
