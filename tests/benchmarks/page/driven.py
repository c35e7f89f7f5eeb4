"""A browser whose main thread's CPU is counted: figures that mean something on a machine with other work, too."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from tests.browser.page import Page


class Counted:
    """CPU milliseconds of a page's main thread."""

    def __init__(self, page: Page) -> None:
        self.browser = page.browser
        self.browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        self.browser.set_script_timeout(120)

    def now_ms(self) -> float:
        found = self.browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return 1000 * next(metric["value"] for metric in found if metric["name"] == "TaskDuration")

    def of(self, act: Callable[[], Any]) -> float:
        before = self.now_ms()
        act()
        return self.now_ms() - before


def median(values: Sequence[float]) -> str:
    return f"{statistics.median(values):,.1f}"
