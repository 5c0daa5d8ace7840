"""The channel of hints: what one listener does is no harm to the others."""

from pipeline.backends.redis.broker import RedisBroker

from tests.support.waiting import wait_until


async def test_a_listener_that_fails_takes_no_hint_from_the_others(store: RedisBroker) -> None:
    heard = list[str]()

    def fail() -> None:
        heard.append("failing")
        raise ValueError("no")

    remove = store.on_signal(fail)
    store.on_signal(lambda: heard.append("other"))
    await wait_until(lambda: "failing" in heard, describe="the first one fails")
    remove()
    await wait_until(lambda: "other" in heard, describe="they are told that anything may have happened")
    heard.clear()
    await store.pause("wiki")
    await wait_until(lambda: heard == ["other"], describe="the next hint comes")
