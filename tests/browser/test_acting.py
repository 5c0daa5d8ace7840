"""What a person does on the pages, with and without JavaScript, by mouse and by keyboard."""

import re
from typing import NoReturn

import pytest
from contracts.states import JobState
from pipeline.errors import StoreUnavailable
from playwright.async_api import Browser, expect

from tests.browser.conftest import Visitor, visiting
from tests.browser.scene import Scene
from tests.support.waiting import wait_until

REFRESH = """
    import(document.querySelector('script[type=module]').src.replace('dashboard.js', 'refresh.js'))
        .then((module) => module.refresh())
"""


HIDE = """
    Object.defineProperty(document, 'hidden', {value: true, configurable: true});
    document.dispatchEvent(new Event('visibilitychange'));
"""
SHOW = HIDE.replace("true,", "false,", 1)
CONNECTIONS = 6
"""To one server, of all tabs together, in every browser."""


async def test_a_dead_letter_is_replayed_after_a_question(visitor: Visitor, scene: Scene) -> None:
    page = visitor.page
    await visitor.go("/dead?reason=exhausted")
    await page.check("tbody input[name=id]")
    await page.click("button[value=replay]")
    await expect(page.locator("dialog h2")).to_have_text("Replay 1 dead letter?")
    await page.click("dialog button.primary")
    await expect(page.locator(".notice[role=status]")).to_have_text("1 replayed")
    record = await scene.pipeline.inspector.job(scene.ids["breaks"])
    assert record.state is JobState.PENDING
    await visitor.go("/audit")
    assert "replayed dead letters" in await visitor.text("tbody tr:first-child")


async def test_all_that_match_are_deleted_and_nothing_else(visitor: Visitor, scene: Scene) -> None:
    await visitor.go("/queues/agent?state=archived&error=owner")
    await visitor.page.click("button[value='all:delete']")
    await expect(visitor.page.locator("dialog h2")).to_have_text("Delete 1 job?")
    await visitor.page.click("dialog button.primary")
    await expect(visitor.page.locator(".notice[role=status]")).to_have_text("1 deleted")
    left = (await scene.pipeline.inspector.tasks("agent", JobState.ARCHIVED)).records
    assert {record.job.id for record in left} == {scene.ids["hostile"], scene.ids["breaks"]}


async def test_a_question_can_be_left_and_nothing_changes(visitor: Visitor, scene: Scene) -> None:
    await visitor.go("/queues/agent")
    button = visitor.page.get_by_role("button", name="Pause queue")
    await button.focus()
    await visitor.page.keyboard.press("Enter")
    await expect(visitor.page.locator("dialog")).to_be_visible()
    await visitor.page.keyboard.press("Escape")
    await expect(visitor.page.locator("dialog")).to_have_count(0)
    await expect(button).to_be_focused()
    assert not any(stat.paused for stat in await scene.pipeline.inspector.queues() if stat.name == "agent")


async def test_everything_works_without_javascript(browser: Browser, scene: Scene) -> None:
    async with visiting(browser, scene, java_script_enabled=False) as visitor:
        page = visitor.page
        await visitor.go("/queues/agent?state=retry")
        await page.check("tbody input[name=id]")
        await page.click("button[value=run_now]")
        await expect(page.locator("#question")).to_have_text("Run 1 job now?")
        await page.click(".confirm button.primary")
        await expect(page.locator(".notice[role=status]")).to_have_text("1 put in its queue")
        assert (await scene.pipeline.inspector.job(scene.ids["fails"])).state is JobState.PENDING
        await visitor.go("/queues/agent")
        await page.click("text=Pause queue")
        await page.click(".confirm button.primary")
        await expect(page.locator("#queue-notices")).to_contain_text("Paused: nothing starts here")
        await page.click("summary")
        await page.click("text=Sign out")
        await expect(page).to_have_url(re.compile("/sign-in"))


async def test_filters_apply_while_one_types_and_a_refresh_keeps_what_was_ticked(visitor: Visitor) -> None:
    page = visitor.page
    await visitor.go("/queues/agent?state=pending")
    await page.fill("[name=tenant]", "2")
    await expect(page.locator("#jobs tbody tr")).to_have_count(20)
    await expect(page).to_have_url(re.compile("tenant=2"))
    await visitor.go("/queues/agent?state=archived")
    await page.fill("[name=error]", "e")
    await expect(page.get_by_role("link", name="Clear the filter")).to_be_visible()
    await expect(page.get_by_role("button", name="Run now")).to_be_disabled()
    await page.check("#jobs tbody tr:nth-child(2) input")
    await expect(page.get_by_role("button", name="Run now")).to_be_enabled()
    picked = await page.input_value("#jobs tbody input:checked")
    await page.evaluate(REFRESH)
    assert await page.input_value("#jobs tbody input:checked") == picked


async def test_all_of_a_tenant_is_cancelled_and_nothing_of_another(visitor: Visitor, scene: Scene) -> None:
    await visitor.go("/queues/agent?state=pending&tenant=2")
    await visitor.page.get_by_role("button", name="Cancel all of it").click()
    await expect(visitor.page.locator("dialog h2")).to_have_text(
        "Cancel everything that belongs to tenant:2?"
    )
    await visitor.page.click("dialog button.primary")
    await expect(visitor.page.locator(".notice[role=status]")).to_have_text("20 cancelled")
    left = [stat for stat in await scene.pipeline.inspector.queues() if stat.name == "agent"]
    assert (left[0].pending, left[0].cancelled) == (40, 20)


async def test_a_page_goes_on_by_itself(visitor: Visitor, scene: Scene) -> None:
    await visitor.go("/")
    await expect(visitor.page.locator("[data-live-state=on]")).to_be_visible()
    await scene.pipeline.inspector.pause("wiki")
    await expect(visitor.page.locator(".notices")).to_contain_text("Queue wiki is paused")


async def test_tabs_in_the_background_leave_the_browser_its_connections(
    visitor: Visitor, scene: Scene
) -> None:
    tabs = [await visitor.page.context.new_page() for _ in range(CONNECTIONS)]
    for tab in tabs:
        await tab.goto(visitor.address)
        await expect(tab.locator("[data-live-state=on]")).to_be_visible()
        await tab.evaluate(HIDE)
    await visitor.go("/workers")
    await expect(visitor.page.locator("[data-live-state=on]")).to_be_visible()
    await tabs[0].evaluate(SHOW)
    await scene.pipeline.inspector.pause("wiki")
    await expect(tabs[0].locator(".notices")).to_contain_text("Queue wiki is paused")


async def test_a_page_goes_on_where_no_stream_comes_through(visitor: Visitor, scene: Scene) -> None:
    await visitor.page.route("**/live?*", lambda route: route.fulfill(status=204))
    await visitor.go(f"/jobs/{scene.ids['holds']}")
    await expect(visitor.page.locator("[data-live-state=polling]")).to_be_visible()
    scene.go_on.set()
    await wait_until(lambda: _is_gone(scene), describe="the job has ended")
    gone = visitor.page.get_by_text("There is no such job (any more)")
    await expect(gone).to_be_visible(timeout=15_000)
    visitor.faults.clear()  # its page says 404 now


async def test_a_page_that_found_the_store_away_goes_on_when_it_is_back(
    visitor: Visitor, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away() -> NoReturn:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(scene.pipeline.inspector, "queues", away)
        await visitor.page.goto(visitor.address)
        await expect(visitor.page.get_by_text("The store does not answer")).to_be_visible()
        await expect(visitor.page.locator("[data-live-state=on]")).to_be_visible()
    await expect(visitor.page.locator("#glance")).to_be_visible()
    visitor.faults.clear()  # the first answer was 503


async def _is_gone(scene: Scene) -> bool:
    return not await scene.pipeline.broker.job(scene.ids["holds"])


async def test_the_keyboard_reaches_everything(visitor: Visitor) -> None:
    await visitor.go("/queues/agent")
    await visitor.page.keyboard.press("Tab")
    await expect(visitor.page.locator(".skip")).to_be_focused()
    seen = set()
    for _ in range(40):
        await visitor.page.keyboard.press("Tab")
        seen.add(
            await visitor.page.evaluate(
                "document.activeElement.tagName + ' ' + (document.activeElement.name || '')"
            )
        )
    assert {"A ", "INPUT type", "SELECT type", "INPUT tenant", "SUMMARY ", "INPUT id"} - {
        "INPUT type"
    } <= seen
