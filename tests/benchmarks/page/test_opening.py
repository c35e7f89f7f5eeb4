"""From an address to the first picture that can be used, on a server that has answered the question before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.page.driven import PATIENCE_S, Counted, load, marks_cpu_ms, traced, whole  # noqa: F401
from tests.benchmarks.table import show
from tests.browser.conftest import serve
from tests.browser.page import Page

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

LOADS = 20
QUESTION = "model=gpt&devices=4&micro_batches=8&effort=quick&v=2"
WATCH = (Path(__file__).parent / "watch.js").read_text()
PAINTED = "return performance.getEntriesByName('first-contentful-paint')[0].startTime"
PARTS = {
    "paint": "first paint",
    "controls": "controls",
    "graph": "operators",
    "bars": "schedule painted, free for a click",
    "idle": "idle",
}


def loads(browser, module: str, cached: bool = False) -> dict[str, list[tuple[float, float]]]:
    """For each part of the page, (milliseconds, main-thread CPU until then; nan where it is not known)."""
    times: dict[str, list[tuple[float, float]]] = {part: [] for part in PARTS}
    for address in serve(module, "gpt"):
        page = Page(browser, address, PATIENCE_S).open(QUESTION)
        counted = Counted(page)
        for _ in range(3 if cached else 0):  # compiled code is kept from the third visit on
            page.open(QUESTION)
        for _ in range(LOADS):
            if not cached:
                browser.execute_cdp_cmd("Network.clearBrowserCache", {})
            browser.get("about:blank")
            browser.get_log("performance")
            browser.get(f"{address}?{QUESTION}")
            page.settle()
            first = {**page.js("return window.__first"), "paint": page.js(PAINTED)}
            idle = counted.now_ms()  # of a renderer that is new with every load
            browser.get("about:blank")
            cpu = {**marks_cpu_ms(browser), "idle": idle}
            for part in PARTS:
                times[part].append((first.get(part, float("nan")), cpu.get(part, float("nan"))))
    return times


@pytest.fixture(scope="module")
def watching(traced):  # noqa: F811
    traced.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
    return traced


def test_first_picture_of_gpt(watching):
    """Of somebody who is here for the first time, and of somebody who was here before."""
    before = load()
    times = {
        "first time": loads(watching, "tests.browser.fakes.serve_real"),
        "cache kept": loads(watching, "tests.browser.fakes.serve_real", cached=True),
    }
    rows = [
        (name, word, *("-" if each[0] != each[0] else whole(each) for each in zip(*taken[part], strict=True)))
        for name, taken in times.items()
        for part, word in PARTS.items()
    ]
    title = f"First picture of gpt, median of {LOADS} (least to most); load before {before}, after {load()}"
    show(title, ("", "until", "ms", "main-thread CPU, ms"), rows, "dash", "plotly")
