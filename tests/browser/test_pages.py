"""Every page, on a system where jobs run, fail, wait and have died."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser

from tests.browser.conftest import Visitor, visiting
from tests.browser.scene import Scene, playing

TEXT = "# Retries\n\nA job that fails waits and runs again. Alice Brown wrote this at Example Ltd."


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """The scene with a document that was read."""
    document = tmp_path / "retries.md"
    document.write_text(TEXT)
    async with playing(tmp_path / "data", documents=[document]) as scene:
        yield scene


def addresses(scene: Scene) -> list[str]:
    states = ("pending", "active", "retry", "scheduled", "archived", "completed", "cancelled")
    return [
        "/",
        *(f"/queues/agent?state={state}" for state in states),
        "/queues/low",
        "/queues/agent?state=pending&tenant=2",
        "/queues/agent?state=pending&scope=nonsense",
        *(f"/jobs/{job_id}" for job_id in scene.ids.values()),
        "/dead",
        "/dead?reason=skip",
        "/workers",
        "/documents",
        "/documents?status=failed",
        "/audit",
    ]


@pytest.mark.parametrize(
    ("code", "theme", "greeting"),
    [("en", "light", "Overview"), ("ru", "dark", "Обзор")],
)
async def test_every_page_is_there_in_every_language_and_theme_without_an_error(
    browser: Browser, scene: Scene, code: str, theme: str, greeting: str
) -> None:
    async with visiting(browser, scene, locale="en-GB") as visitor:
        await visitor.go(f"/preferences?lang={code}&theme={theme}")
        assert greeting in await visitor.text("h1")
        for address in addresses(scene):
            await visitor.go(address)
            html = visitor.page.locator("html")
            assert await html.get_attribute("lang") == code
            assert await html.get_attribute("data-theme") == theme
            assert await visitor.page.locator("main h1, main .empty").count()
        await visitor.go("/documents")
        await visitor.page.click("#documents td a")
        assert await visitor.page.locator(".bars rect").count() >= 3
        assert visitor.faults == []


async def test_every_page_fits_a_phone(browser: Browser, scene: Scene) -> None:
    async with visiting(browser, scene, viewport={"width": 390, "height": 800}) as visitor:
        for address in addresses(scene):
            await visitor.go(address)
            width = await visitor.page.evaluate("document.documentElement.scrollWidth")
            assert width <= 390, f"{address} is {width} px wide"


async def test_the_overview_says_what_needs_somebody(visitor: Visitor) -> None:
    await visitor.go("/")
    said = await visitor.text(".notices")
    assert "12 jobs wait in queue email, and no worker of ours handles email:invite" in said
    assert "Queue low is paused; 1 job waits in it." in said
    assert "3 jobs have died" in said


async def test_a_waiting_job_says_why(visitor: Visitor, scene: Scene) -> None:
    await visitor.go(f"/jobs/{scene.ids['waits']}")
    assert "Every slot of pool agents is taken." in await visitor.text(".notices")
    await visitor.go(f"/jobs/{scene.ids['lonely']}")
    assert "No live worker reads pool interactive" in await visitor.text(".notices")
    await visitor.go(f"/jobs/{scene.ids['later']}")
    assert "Its time comes in 89" in (await visitor.text(".notices")).replace("\u00a0", " ")


async def test_markup_and_control_characters_are_shown_and_never_run(visitor: Visitor, scene: Scene) -> None:
    for address in (f"/jobs/{scene.ids['hostile']}", "/dead", "/queues/agent?state=archived"):
        await visitor.go(address)
        said = await visitor.text("main")
        assert "<script>document.title='taken'</script>␛[31m⟨U+202E⟩gnp.exe" in said
        assert await visitor.page.title() != "taken"
        assert await visitor.page.locator("main img, main script").count() == 0
