"""From a change to the first plan on the page and to the last, each question asked for the first time."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from itertools import cycle, islice

import pytest

from tests.benchmarks.page.driven import PATIENCE_S, Counted, load
from tests.benchmarks.table import show
from tests.browser.conftest import chromium, serve  # noqa: F401
from tests.browser.page import Page

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

CHANGES = 20
DRAWN = """
const ex = window.explorer;
const draw = ex.gantt.draw;
window.__drawn = [];
ex.gantt.draw = (message, done) => draw(message, function () {
  done();
  window.__drawn.push([message.turn, performance.now() - ex.askedAt]);
});
"""
CHANGE = """
const put = window.dash_clientside.set_props;
put('devices', {value: arguments[0]});
put('bandwidth', {value: arguments[1]});
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    yield from serve("tests.browser.standins.serve_real", "gpt")


@pytest.mark.parametrize("model", ["gpt", "resnet50", "multimodal"])
def test_from_a_change_of_the_gpu_count_to_the_redrawn_page(chromium, server, model):  # noqa: F811
    """3, 4, 3, 2, 3, ... devices, each time on links of another bandwidth: a question that was asked before is answered
    from memory, and says nothing of solving."""
    page = Page(chromium, server, PATIENCE_S).open(
        f"model={model}&devices=2&mini_batch=64&bandwidth=20e9&effort=quick&v=2"
    )
    page.js(DRAWN)
    page.js("window.__pe_timing.length = 0")
    counted, cpu, before = Counted(page), [], load()
    for number, devices in enumerate(islice(cycle((3, 4, 3, 2)), CHANGES), start=1):

        def ask(number: int = number, devices: int = devices) -> None:
            page.js(CHANGE, devices, 20 + number)
            page.until(lambda: page.js("return window.__pe_timing.length") >= number)
            page.settle()

        cpu.append(counted.of(ask))
        assert "cached" not in page.text("status")
    entries = page.js("return window.__pe_timing")
    drawn = page.js("return window.__drawn")
    assert len(entries) == CHANGES
    firsts = [min(ms for turn, ms in drawn if turn == entry["turn"]) for entry in entries]
    parts = {
        "to the first plan on the page": firsts,
        "to the last": [e["total_ms"] for e in entries],
        "of that: solving": [e["solve_ms"] for e in entries],
        "the rest of the server (views, messages)": [e["server_ms"] - e["solve_ms"] for e in entries],
        "transport and waiting": [e["transport_ms"] for e in entries],
        "drawing": [e["paint_ms"] for e in entries],
        "main-thread CPU of the whole change": cpu,
    }
    rows = [(name, f"{statistics.median(ms):.0f}", f"{min(ms):.0f}", f"{max(ms):.0f}") for name, ms in parts.items()]
    title = f"Redraw after a change of GPU count and bandwidth, {model}, {CHANGES} questions never asked before"
    show(f"{title}; load before {before}, after {load()}", ("ms", "median", "least", "most"), rows,
         "dash", "plotly", "numba")  # fmt: skip
