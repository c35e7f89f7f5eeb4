"""The page as a person sees and touches it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

PATIENCE_S = 40.0
DONE = ("optimal", "feasible", "infeasible", "none", "failed", "cancelled")
T = TypeVar("T")

BOXES = """
const cy = document.getElementById('graph')._cyreg.cy;
return Object.fromEntries(cy.nodes().map((n) => [n.id(), n.classes().find((c) => /^d[0-9]+$|^mixed$/.test(c)) || '']));
"""
BARS = """
const plot = document.getElementById('gantt');
return (plot.data || []).map((t) => [t.name, t.x.length]);
"""
CENTRE = """
const cy = document.getElementById('graph')._cyreg.cy;
const at = cy.getElementById(arguments[0]).renderedPosition();
const box = cy.container().getBoundingClientRect();
return [at.x + box.x, at.y + box.y];
"""
PAINTED = """
const found = new Set();
for (const canvas of document.querySelectorAll('#graph canvas')) {
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  for (let i = 0; i < pixels.length; i += 4) {
    if (pixels[i + 3] > 250) found.add(pixels[i] + ',' + pixels[i + 1] + ',' + pixels[i + 2]);
  }
}
return [...found];
"""


class Page:
    """browser: a selenium driver. Reads the state from what is drawn, waits instead of sleeping."""

    def __init__(self, browser: Any, address: str) -> None:
        self.browser, self.address = browser, address

    def open(self, query: str = "") -> Page:
        """Open with a query string and wait for the first answer."""
        self.browser.get("about:blank")
        self.browser.get(self.address + ("?" + query if query else ""))
        return self.settle()

    def settle(self) -> Page:
        self.until(lambda: self.state in DONE and not self.js("return window.explorer.busy()"))
        self.js("return new Promise((done) => requestAnimationFrame(() => setTimeout(done, 150)))")
        return self

    def until(self, test: Callable[[], T], patience_s: float = PATIENCE_S) -> T:
        """The first true value of ``test``."""
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            found = test()
            if found:
                return found
            time.sleep(0.03)
        raise AssertionError(f"nothing came of it in {patience_s:.0f} s; the page says {self.text('status')!r}")

    def js(self, script: str, *arguments: Any) -> Any:
        return self.browser.execute_script(script, *arguments)

    @property
    def state(self) -> str:
        return self.js("return document.body.dataset.state") or ""

    @property
    def query(self) -> str:
        return self.js("return location.search")

    @property
    def theme(self) -> str:
        return self.js("return document.documentElement.dataset.mantineColorScheme")

    @property
    def boxes(self) -> dict[str, str]:
        """Box -> its device class."""
        return self.js(BOXES)

    @property
    def bars(self) -> list[list[Any]]:
        """[trace name, number of bars] of the schedule."""
        return self.js(BARS)

    @property
    def colours(self) -> set[str]:
        """The opaque colours painted in the graph, as "r,g,b"."""
        return set(self.js(PAINTED))

    def text(self, element: str) -> str:
        return self.js("return document.getElementById(arguments[0]).innerText", element)

    def find(self, selector: str) -> Any:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def click(self, selector: str) -> None:
        self.find(selector).click()

    def slide(self, slider: str, steps: int) -> None:
        """Move a slider by keyboard."""
        thumb = self.find(f"#{slider} [role=slider]")
        for _ in range(abs(steps)):
            thumb.send_keys(Keys.ARROW_RIGHT if steps > 0 else Keys.ARROW_LEFT)

    def change(self, act: Callable[[], None]) -> Page:
        """Do something that asks for a new plan, and wait until its schedule is drawn."""
        before = self.query
        act()
        self.until(lambda: self.query != before)
        return self.settle()

    def where(self, box: str) -> tuple[int, int]:
        """The middle of a box on screen."""
        x, y = self.js(CENTRE, box)
        return round(x), round(y)
