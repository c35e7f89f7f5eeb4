"""People with browsers among the crowd: each question is an address that is opened, and its answer is drawn."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.benchmarks.serving.crowd import Attempt, Question
from tests.browser.conftest import FLAGS, Service, webdriver

LISTEN = """
const Own = window.WebSocket;
window.WebSocket = class extends Own {
  constructor(...given) {
    super(...given);
    this.addEventListener("message", function (event) {
      const message = JSON.parse(event.data);
      if (message.type !== "plan") return;
      const limits = message.memory.map((device) => parseFloat(device.limit));
      window.__first = window.__first || {limits: limits, at: performance.now()};
      if (message.reason === "final") window.__final = {limits: limits, at: performance.now()};
    });
  }
};
"""
EVENTS = "return {first: window.__first, last: window.__final, state: document.body.dataset.state || ''}"
DRAWN = "const drawn = window.explorer.gantt.drawn(); return drawn ? drawn.lanes.length : 0"


@dataclass
class Person:
    """Opens one page after the other in a browser of its own; times are those of the page since it was opened."""

    address: str
    token: str
    questions: Iterator[Question]
    folder: Path
    patience_s: float = 180.0
    attempts: list[Attempt] = field(default_factory=list)

    def live(self, until: float) -> None:
        """In a thread of its own. until: of `time.monotonic`."""
        browser = self._browser()
        try:
            browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": LISTEN})
            browser.get(f"{self.address}?token={self.token}&v=2&theme=dark")
            while time.monotonic() < until:
                self.submit(browser, next(self.questions))
                time.sleep(1.0)
        finally:
            browser.quit()

    def submit(self, browser: Any, question: Question) -> None:
        variant = Attempt(question, time.monotonic())
        self.attempts.append(variant)
        browser.get(f"{self.address}?{urlencode({**question.session, 'v': 2})}")
        while time.monotonic() < variant.at_s + self.patience_s:
            events = browser.execute_script(EVENTS)
            if events["first"] and variant.first_s is None:
                variant.first_s = events["first"]["at"] / 1000
                variant.foreign += events["first"]["limits"] != question.limits
            if events["last"] and events["state"] in ("optimal", "feasible") and browser.execute_script(DRAWN):
                variant.final_s = events["last"]["at"] / 1000
                variant.foreign += events["last"]["limits"] != question.limits
                return
            if events["state"] in ("failed", "infeasible", "none"):
                variant.refusal = browser.execute_script("return document.getElementById('banner').innerText")
                return
            time.sleep(0.2)

    def _browser(self) -> Any:
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for flag in (*FLAGS, "--window-size=1440,900", f"--user-data-dir={self.folder}"):
            options.add_argument(flag)
        browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        browser.set_page_load_timeout(self.patience_s)
        return browser
