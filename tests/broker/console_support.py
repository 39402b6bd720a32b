"""The console in Chromium."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.async_api import Page, async_playwright, expect

AXE = Path(__file__).parents[2] / "console" / "node_modules" / "axe-core" / "axe.min.js"
LOOKS: dict[str, dict[str, object]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 800}},
}
"""Options of `page_of`; a page in which axe runs needs `bypass_csp`, too."""


@asynccontextmanager
async def page_of(url: str, *, allowed: tuple[str, ...] = (), **options: object) -> AsyncIterator[Page]:
    """Open the console; afterwards, no script may have failed, and no request may have left the broker."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    assert program, "no Chromium: run scripts/install-browser.sh"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = await browser.new_page(**options)  # type: ignore[arg-type]
        errors, elsewhere = list[str](), list[str]()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("request", lambda one: elsewhere.append(one.url) if not one.url.startswith((url, "data:")) else None)
        try:
            await page.goto(f"{url}/console/")
            yield page
            assert [each for each in errors if not any(part in each for part in allowed)] == []
            assert elsewhere == []
        finally:
            await browser.close()


async def opened(page: Page, url: str, *parts: str) -> None:
    """Load one page of the console."""
    await page.goto(f"{url}/console/#/{'/'.join(quote(part, safe='') for part in parts)}")
    await page.reload()
    await expect(page.locator("main h1")).to_be_visible()


async def log_in(page: Page, user: str, password: str) -> None:
    await page.get_by_label("User").fill(user)
    await page.get_by_label("Password").fill(password)
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("button", name="Log out")).to_be_visible()


async def require_accessible(page: Page, place: str) -> None:
    """Fail if axe finds something serious, or if the page is wider than the window."""
    assert AXE.exists(), "run: cd console && npm ci"
    if not await page.evaluate("'axe' in window"):
        await page.add_script_tag(path=AXE)
    found: Any = await page.evaluate("axe.run()")
    serious = [
        (one["id"], [node["html"][:200] for node in one["nodes"]][:3])
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == [], (place, serious)
    assert page.viewport_size is not None
    assert await page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"], place
