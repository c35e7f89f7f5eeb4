"""The schedule panned, zoomed and dragged: CPU of the page's main thread, a frame."""

from __future__ import annotations

import pytest

from tests.benchmarks.page.driven import Counted, median
from tests.benchmarks.table import show
from tests.browser.conftest import chromium, serve  # noqa: F401
from tests.browser.page import Page

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

TIMES = 5
FRAMES = 60
PLANS = {
    "8 GPUs, 64 micro-batches": "devices=8&micro_batches=64",
    "64 GPUs, 32 micro-batches, from 9,088 spans": "devices=64&devices_per_node=8&micro_batches=32&planner=equal",
}
LOOK = """
const [kind, frames, done] = arguments;
const { from, to } = window.explorer.gantt.sight();
const width = to - from;
let n = 0;
(function go() {
  if (n++ >= frames) return done(n);
  const t = n / frames;
  if (kind === 'zoom') window.explorer.gantt.look(from + 0.45 * t * width, to - 0.45 * t * width);
  if (kind === 'pan') window.explorer.gantt.look(from + (0.2 + 0.3 * t) * width, from + (0.5 + 0.3 * t) * width);
  requestAnimationFrame(go);
})();
"""
PLOT = """
const { plot, left, width } = window.explorer.gantt.sight();
const box = plot.getBoundingClientRect();
return [box.left + left + 0.8 * width, box.top + 60];
"""
NEXT = "const done = arguments[0]; requestAnimationFrame(() => done(1))"


def looked_ms(page: Page, counted: Counted, kind: str) -> float:
    """A frame in which another part is in sight; "nothing" for a frame in which nothing happens."""
    took = counted.of(lambda: page.browser.execute_async_script(LOOK, kind, FRAMES)) / FRAMES
    page.click("#gantt-fit")
    page.settle()
    return took


def dragged_ms(page: Page, counted: Counted, by: float) -> float:
    """A frame of a drag by the mouse, ``by`` pixels each; 0 for a mouse that stays."""
    x, y = page.js(PLOT)

    def mouse(kind: str, at: float, **more: object) -> None:
        fields = {"type": kind, "x": at, "y": y, **more}
        page.browser.execute_cdp_cmd("Input.dispatchMouseEvent", fields)

    def drag() -> None:
        for i in range(FRAMES):
            mouse("mouseMoved", x - i * by, button="left" if by else "none", buttons=1 if by else 0)
            page.browser.execute_async_script(NEXT)

    mouse("mouseMoved", x)
    if by:
        mouse("mousePressed", x, button="left", clickCount=1)
    took = counted.of(drag) / FRAMES
    if by:
        mouse("mouseReleased", x - FRAMES * by, button="left", clickCount=1)
    return took


def test_frames_of_the_schedule(chromium):  # noqa: F811
    rows = []
    for address in serve("tests.browser.fakes.serve_real", "gpt"):
        page = Page(chromium, address)
        for what, query in PLANS.items():
            page.open(f"model=gpt&{query}&effort=quick&time_limit=3&v=2")
            counted = Counted(page)
            idle = [looked_ms(page, counted, "nothing") for _ in range(TIMES)]
            still = [dragged_ms(page, counted, 0) for _ in range(TIMES)]
            for kind in ("zoom", "pan"):
                took = [looked_ms(page, counted, kind) - min(idle) for _ in range(TIMES)]
                rows.append((f"{what}: {kind}", median(took), "16"))
            page.find(".gantt-card .canvas").send_keys("+++")
            page.settle()
            took = [dragged_ms(page, counted, 3) - min(still) for _ in range(TIMES)]
            rows.append((f"{what}: drag with the mouse, zoomed in", median(took), "16"))
            page.click(".mem, .mem-row")
            took = [looked_ms(page, counted, "zoom") - min(idle) for _ in range(TIMES)]
            rows.append((f"{what}: zoom, one device bright", median(took), "16"))
    title = f"A frame of gpt's schedule, main-thread CPU above an idle frame's, median of {TIMES} times {FRAMES} frames"
    show(title, ("what", "ms", "target"), rows, "dash")
