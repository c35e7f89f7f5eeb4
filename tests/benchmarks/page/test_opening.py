"""From an address to the first picture, with an empty cache and a server that has answered the question before."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.web.serving.chart_script import BUILT
from tests.benchmarks.page.driven import Counted, median
from tests.benchmarks.table import show
from tests.browser.conftest import chromium, serve  # noqa: F401
from tests.browser.page import Page

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

LOADS = 20
QUESTION = "model=gpt&devices=4&micro_batches=8&effort=quick&v=2"
WATCH = (Path(__file__).parent / "watch.js").read_text()


def loads(browser, module: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"controls": [], "graph": [], "bars": [], "cpu": []}
    for address in serve(module, "gpt"):
        page = Page(browser, address).open(QUESTION)
        counted = Counted(page)
        for _ in range(LOADS):
            browser.execute_cdp_cmd("Network.clearBrowserCache", {})
            browser.get("about:blank")
            browser.get(f"{address}?{QUESTION}")
            page.settle()
            for what, at_ms in page.js("return window.__first").items():
                found[what].append(at_ms)
            found["cpu"].append(counted.now_ms())  # of a renderer that is new with every load
    return found


def test_first_picture_of_gpt(chromium):  # noqa: F811
    if not BUILT.exists():
        pytest.skip("the small build of plotly.js is not here: `make charts`")
    chromium.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
    small = loads(chromium, "tests.browser.standins.serve_real")
    whole = loads(chromium, "tests.browser.standins.serve_whole")
    names = {"controls": "controls", "graph": "operators", "bars": "schedule", "cpu": "main-thread CPU until idle"}
    rows = [
        (word, median(small[what]), median(whole[what]), f"{_ratio(small[what], whole[what]):.2f}")
        for what, word in names.items()
    ]
    title = f"First picture of gpt, cache empty, ms, median of {LOADS}"
    show(title, ("until", "small build", "whole plotly.js", "ratio"), rows, "dash", "plotly")


def _ratio(a: list[float], b: list[float]) -> float:
    return sorted(a)[len(a) // 2] / sorted(b)[len(b) // 2]
