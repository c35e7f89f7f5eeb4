"""From a slider's change to the redrawn page, in headless Chromium."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from itertools import cycle, islice

import pytest

from tests.benchmarks.table import show
from tests.browser.conftest import chromium, serve  # noqa: F401
from tests.browser.page import Page

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

CHANGES = 20


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    yield from serve("tests.browser.standins.serve_real", "gpt")


@pytest.mark.parametrize("model", ["gpt", "resnet50", "multimodal"])
def test_from_a_change_of_the_gpu_count_to_the_redrawn_page(chromium, server, model):  # noqa: F811
    """2, 3, 4, 3, 2, ... devices; each plan is solved anew with the default planner."""
    page = Page(chromium, server).open(f"model={model}&devices=2&mini_batch=64")
    page.js("window.__pe_timing.length = 0")
    for number, step in enumerate(islice(cycle((1, 1, -1, -1)), CHANGES), start=1):
        page.slide("devices", step)
        page.until(lambda n=number: page.js("return window.__pe_timing.length") >= n)
    entries = page.js("return window.__pe_timing")
    assert len(entries) == CHANGES
    total = statistics.median(e["total_ms"] for e in entries)
    parts = {
        "solving": statistics.median(e["solve_ms"] for e in entries),
        "the rest of the server (views, messages)": statistics.median(e["server_ms"] - e["solve_ms"] for e in entries),
        "transport and waiting": statistics.median(e["transport_ms"] for e in entries),
        "drawing": statistics.median(e["paint_ms"] for e in entries),
    }
    rows = [("from change to picture", f"{total:.0f}", "100%")]
    rows += [(name, f"{ms:.0f}", f"{ms / total:.0%}") for name, ms in parts.items()]
    rows.append(("slowest of all", f"{max(e['total_ms'] for e in entries):.0f}", ""))
    show(f"Redraw after a change of the GPU count, {model}, median of {CHANGES}", ("part", "ms", "share"), rows,
         "dash", "plotly", "numba")  # fmt: skip
