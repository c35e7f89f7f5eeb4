"""From a change to the first plan on the page and to the last, each question asked for the first time.

``BEFORE=/path/to/a/checkout`` serves that one, too, and asks both in turn: the second table has them side by side.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

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


MODELS = ("gpt", "resnet50", "multimodal", "nasnet")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    yield from serve("tests.browser.fakes.serve_real", "gpt")


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

        def change(number: int = number, devices: int = devices) -> None:
            page.js(CHANGE, devices, 20 + number)
            page.until(lambda: page.js("return window.__pe_timing.length") >= number)
            page.settle()

        cpu.append(counted.of(change))
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


@pytest.mark.parametrize("model", MODELS)
def test_from_4_to_8_gpus_at_normal_effort(chromium, model):  # noqa: F811
    """As somebody who moves the slider: what is there first, and what in the end, with the iteration time of both."""
    checkouts = {"now": None} | ({"before": Path(os.environ["BEFORE"])} if "BEFORE" in os.environ else {})
    rows, begun = [], load()
    for name, root in sorted(checkouts.items()):
        running = serve("tests.browser.fakes.serve_real", model, root=root)
        page = Page(chromium, next(running), PATIENCE_S).open(f"model={model}&devices=4&mini_batch=64&v=2")
        page.js(DRAWN)
        page.js("window.__pe_timing.length = 0")
        page.put("devices", 8)
        first = page.until(lambda page=page: page.js("return window.__drawn.length && window.__drawn[0][1]"))
        at_first = _iteration(page)
        page.until(lambda page=page: page.js("return window.__pe_timing.length"))
        page.settle()
        last = page.js("return window.__pe_timing[0].total_ms")
        rows.append((name, f"{first / 1000:.1f}", at_first, f"{last / 1000:.1f}", _iteration(page)))
        chromium.get("about:blank")
        running.close()
    show(f"{model} from 4 to 8 GPUs, normal effort; load before {begun}, after {load()}",
         ("", "first plan, s", "its iteration", "last, s", "its iteration"), rows, "dash", "numba")  # fmt: skip


def _iteration(page: Page) -> str:
    return page.text("kpis").split("Iteration time")[1].strip().splitlines()[0]
