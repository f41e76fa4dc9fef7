"""A real browser's window on a console."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.console.running import RunningConsole

CHROMIUM = shutil.which("chromium")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run", "--disable-sync"]
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
SIZES = {"desk": (1440, 900), "tablet": (1024, 768), "phone": (390, 844)}
IS_CI = os.environ.get("CI") == "true"
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None and not IS_CI, reason="Chromium is not installed: apt-get install chromium"
)


@contextmanager
def running_browser() -> Iterator[Any]:
    """Chromium, driven by playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield found
        found.close()


class Visit:
    """A window with a session; whatever the browser complains of is in `complaints`."""

    def __init__(
        self, browser: Any, console: RunningConsole, *, size: str = "desk", theme: str = "light", **more: Any
    ) -> None:
        width, height = SIZES[size]
        self._context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme, **more)
        self.page = self._context.new_page()
        self.base = console.base
        self.complaints: list[str] = []
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append("a dialog opened"))
        self.page.goto(console.link())
        self.page.wait_for_selector("main h1")

    def _note(self, message: Any) -> None:
        expected = "404" in message.text  # what is not there is asked for on purpose
        if message.type in ("error", "warning") and not expected:
            self.complaints.append(message.text)

    def go(self, path: str) -> Any:
        self.page.goto(f"{self.base}/c/cluster{path}")
        self.page.wait_for_selector("main h1, main .callout")
        self.page.wait_for_selector(".loading", state="detached")
        return self.page

    def close(self) -> None:
        assert self.complaints == []
        self._context.close()


def sideways(page: Any) -> list[str]:
    """What sticks out of the window, but for what scrolls by itself."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll('main *')].filter((each) => {
          const scrolls = (node) => node && node !== document.body &&
            (['auto', 'scroll', 'hidden'].includes(getComputedStyle(node).overflowX) || scrolls(node.parentElement));
          return each.getBoundingClientRect().right > innerWidth + 1 && !scrolls(each.parentElement);
        }).map((each) => each.tagName + '.' + each.className)"""
    )
    return found
