"""A live system, and a browser that looks at it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, async_playwright

from tests.browser.scene import NAME, PASSWORD, Scene, playing

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
WAIT_MS = 15_000


@dataclass
class Visitor:
    """A signed-in person at a browser; `faults` are what its console said went wrong."""

    page: Page
    address: str
    faults: list[str] = field(default_factory=list)

    async def go(self, path: str) -> None:
        answer = await self.page.goto(self.address + path)
        assert answer is not None
        assert answer.status < 400, f"{path}: {answer.status}"

    async def text(self, selector: str = "body") -> str:
        return await self.page.inner_text(selector)


@pytest.fixture
def chromium() -> Path:
    if not CHROMIUM.exists():
        pytest.skip("Debian's chromium is not installed")
    return CHROMIUM


@pytest.fixture
async def browser(chromium: Path) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        await browser.close()


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with playing(tmp_path / "data") as scene:
        yield scene


@asynccontextmanager
async def visiting(browser: Browser, scene: Scene, **options: Any) -> AsyncIterator[Visitor]:
    """Sign somebody in."""
    context = await browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    context.set_default_timeout(WAIT_MS)
    page = await context.new_page()
    visitor = Visitor(page, scene.address.rstrip("/"))
    page.on("console", lambda said: visitor.faults.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: visitor.faults.append(str(error)))
    try:
        await page.goto(scene.address)
        await page.fill("[name=name]", NAME)
        await page.fill("[name=password]", PASSWORD)
        await page.click("button.primary")
        await page.wait_for_selector("main")
        yield visitor
    finally:
        await context.close()


@pytest.fixture
async def visitor(browser: Browser, scene: Scene) -> AsyncIterator[Visitor]:
    async with visiting(browser, scene) as visitor:
        yield visitor
        assert visitor.faults == []
