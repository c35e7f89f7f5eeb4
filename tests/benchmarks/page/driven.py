"""A browser whose main thread's CPU is counted: figures that mean something on a machine with other work, too."""

from __future__ import annotations

import json
import os
import shutil
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tests.browser.conftest import FLAGS, Service, webdriver
from tests.browser.page import Page

PATIENCE_S = 300.0
"""For a page whose server compiles first, on a machine with other work."""


class Counted:
    """CPU milliseconds of a page's main thread."""

    def __init__(self, page: Page) -> None:
        self.browser = page.browser
        self.browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        self.browser.set_script_timeout(120)

    def now_ms(self) -> float:
        metrics = self.browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return 1000 * next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")

    def of(self, act: Callable[[], Any]) -> float:
        before = self.now_ms()
        act()
        return self.now_ms() - before


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser that reports at which CPU time of its main thread a page's marks were."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("chromium and chromedriver are not installed (tests/browser/install.sh)")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, "--window-size=1440,900", f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
    prefs = {"enableNetwork": False, "enablePage": False, "traceCategories": "blink.user_timing"}
    options.add_experimental_option("perfLoggingPrefs", prefs)
    browser = webdriver.Chrome(options=options, service=Service(driver))
    yield browser
    browser.quit()


def marks_cpu_ms(browser: Any) -> dict[str, float]:
    """Main-thread CPU from the mark "first begin" to the others, of the page that was left just now.

    The log is written when a page is left, and emptied by reading it.
    """
    marks = {}
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        event = message["params"]
        if message["method"] == "Tracing.dataCollected" and event.get("name", "").startswith("first "):
            marks[event["name"].removeprefix("first ")] = event["tts"] / 1000
    return {name: at - marks["begin"] for name, at in marks.items() if "begin" in marks}


def median(values: Sequence[float]) -> str:
    return f"{statistics.median(values):,.1f}"


def whole(values: Sequence[float]) -> str:
    """Median and range, where the machine has other work."""
    return f"{statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def load() -> str:
    """What else the machine has to do."""
    return ", ".join(f"{each:.1f}" for each in os.getloadavg())
