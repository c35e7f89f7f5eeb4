"""The page as a person sees and touches it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

PATIENCE_S = 120.0
DONE = ("optimal", "feasible", "infeasible", "none", "failed", "cancelled")
T = TypeVar("T")

BOXES = """
const cy = document.getElementById('graph')._cyreg.cy;
return Object.fromEntries(cy.nodes().map((n) => [n.id(), n.classes().find((c) => /^d[0-9]+$|^mixed$/.test(c)) || '']));
"""
BARS = """
const drawn = window.explorer.gantt.drawn();
return drawn ? drawn.lanes.map((lane) => [lane.name, lane.at.length]) : [];
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

OPENED = "window.opened = {query: arguments[0], shown: location.search}"
LEFT = """
const left = window.opened;
return left && location.href.startsWith(arguments[0]) && location.search === left.shown ? left.query : null;
"""
BAR = """
const [lane, number] = arguments;
const drawn = window.explorer.gantt.drawn();
const told = drawn.lanes[lane];
const sight = window.explorer.gantt.sight();
const box = sight.plot.getBoundingClientRect();
const row = sight.rows.middle.findIndex((middle, i) => Math.abs(told.y - middle) <= sight.rows.height[i] / 2);
const middle = told.from[number] + told.long[number] / 2;
const across = (middle - drawn.range[0]) / (drawn.range[1] - drawn.range[0]);
return [box.left + sight.left + across * sight.width, box.top + sight.top(row)];
"""
INKED = """
const canvas = document.querySelector('#gantt canvas');
const box = canvas.getBoundingClientRect();
const [x, y, wide, tall] = arguments;
const at = (value) => Math.round((value * canvas.width) / box.width);
const copy = document.createElement('canvas');
[copy.width, copy.height] = [at(wide), at(tall)];
const pen = copy.getContext('2d');
pen.drawImage(canvas, -at(x - box.left - wide / 2), -at(y - box.top - tall / 2));
const pixels = pen.getImageData(0, 0, copy.width, copy.height).data;
const found = new Set();
for (let i = 0; i < pixels.length; i += 4) {
  if (pixels[i + 3] > 250) found.add(pixels[i] + ',' + pixels[i + 1] + ',' + pixels[i + 2]);
}
return [...found];
"""
DIM = """
const lit = window.explorer.graph.bright();
return lit ? document.getElementById('graph')._cyreg.cy.nodes().length - lit.length : 0;
"""
"""How many boxes are dimmed."""
BRIGHT = "return window.explorer.graph.bright()"
"""The boxes that stay bright while all else is dimmed, or None."""


class Page:
    """browser: a selenium driver. Reads the state from what is drawn, waits instead of sleeping."""

    def __init__(self, browser: Any, address: str, patience_s: float = PATIENCE_S) -> None:
        self.browser, self.address, self.patience_s = browser, address, patience_s

    def open(self, query: str = "") -> Page:
        """Open again with a query string and wait for the first answer."""
        self.browser.get("about:blank")
        self.browser.get(self.address + ("?" + query if query else ""))
        self.settle()
        self.js(OPENED, query)
        return self

    def at(self, query: str = "") -> Page:
        """What `open` shows, with nothing picked; without loading it where a test before left it so.

        Tests that share a page put back what its address does not tell: what is expanded, open or compared."""
        if self.js(LEFT, self.address) != query:
            return self.open(query)
        pointer = ActionChains(self.browser)
        pointer.w3c_actions.pointer_action.move_to_location(1, 1)
        pointer.perform()
        self.find(".gantt-card .canvas").send_keys(Keys.ESCAPE)
        self.until(lambda: not self.js(DIM))
        return self.settle()

    @contextmanager
    def sized(self, width: int, height: int) -> Iterator[None]:
        """The page in a window of another size, laid out."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        try:
            self.until(lambda: self.js("return [innerWidth, innerHeight]") == [width, height])
            self.settle()
            yield
        finally:
            self.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def put(self, control: str, value: Any) -> None:
        """Set a control as if it had been chosen by hand."""
        self.js("window.dash_clientside.set_props(arguments[0], {value: arguments[1]})", control, value)

    def choose(self, control: str, label: str) -> None:
        """From a list, what begins with a label."""
        options = self.find(f"#{control}").find_elements(By.TAG_NAME, "option")
        next(option for option in options if option.text.startswith(label)).click()

    def settle(self) -> Page:
        self.until(lambda: self.state in DONE and not self.js("return window.explorer.busy()"))
        self.js("return new Promise((done) => requestAnimationFrame(() => setTimeout(done, 150)))")
        return self

    def until(self, test: Callable[[], T], patience_s: float | None = None) -> T:
        """The first true value of ``test``."""
        patience_s = patience_s or self.patience_s
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            value = test()
            if value:
                return value
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
        return self.js("return document.documentElement.dataset.theme")

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

    def bar(self, trace: int = 0, number: int = 0) -> tuple[int, int]:
        """The middle of a bar of the schedule on screen."""
        x, y = self.js(BAR, trace, number)
        return round(x), round(y)

    def inked(self, x: float, y: float, wide: float = 6, tall: float = 6) -> set[str]:
        """The opaque colours painted in the schedule about a point, as "r,g,b"."""
        return set(self.js(INKED, x, y, wide, tall))

    def point(self, x: int, y: int, click: bool = False) -> None:
        """Put the pointer somewhere, and press it there if asked to."""
        chain = ActionChains(self.browser, duration=20)
        hand = chain.w3c_actions.pointer_action
        hand.move_to_location(x, y)
        if click:
            hand.pointer_down()
            hand.pointer_up()
        chain.perform()

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
