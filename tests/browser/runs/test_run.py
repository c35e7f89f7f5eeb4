"""Running a plan on the page, as a person does."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LANES = "return [...new Set((window.explorer.gantt.drawn()?.lanes || []).map((lane) => lane.of || 'plan'))].sort()"
HISTORY = "return [...document.querySelectorAll('#run-history tbody tr')].map((r) => r.lastChild.innerText)"
HIDDEN = "return document.getElementById(arguments[0]).hidden"
OVERFLOW = "return [...document.querySelectorAll(arguments[0])].map((e) => e.scrollWidth - e.clientWidth)"
PARTS = ("#run-body", "#run-history", ".run-head", ".gantt-card .card-head", ".graph-card .card-head")


def opened(page, query=""):
    """The page with the tab open, by keyboard."""
    page.open(query)
    page.find("#run-open").send_keys(Keys.ENTER)
    page.until(lambda: page.js("return document.activeElement.id") == "run-start")
    page.until(lambda: "Ready to run" in page.text("run-body"))
    return page


def run(page, target, ends):
    """Run on a target that pretends, until the panel says how it ended."""
    if target != "fake":
        page.choose("run-target", f"{target} ·")
    page.until(lambda: page.find("#run-start").is_enabled())
    page.click("#run-start")
    page.until(lambda: ends in page.text("run-body"))
    return page


def test_a_run_is_laid_over_its_plan_and_listed_among_the_others(fake):
    page = opened(fake, "planner=auto")
    listed = len(page.js(HISTORY))
    ActionChains(page.browser).send_keys(Keys.ENTER).perform()
    page.until(lambda: "Predicted" in page.text("run-body"))
    assert "164 ms" in page.text("run-body")
    assert "Operators" in page.text("run-body")
    assert "run.sh" in page.text("run-body")
    assert "run: " in page.text("kpis")
    page.until(lambda: page.js(LANES) == ["measured", "predicted", "wait"])
    page.click("#gantt-which [data-value=measured]")
    page.until(lambda: page.js(LANES) == ["measured", "wait"])
    page.click("#gantt-which [data-value=predicted]")
    page.until(lambda: page.js(LANES) == ["plan"])
    assert set(page.boxes.values()) == {"d0", "d1", "d2", "d3"}
    page.click("#graph-colour")
    page.until(lambda: set(page.boxes.values()) == {""})
    assert "slower" in page.text("error-legend")
    page.click("#graph-colour")
    page.until(lambda: set(page.boxes.values()) == {"d0", "d1", "d2", "d3"})
    assert len(page.js(HISTORY)) == listed + 1
    page.change(lambda: page.slide("devices", 1))
    assert page.js(HIDDEN, "gantt-which")
    page.find("#run-history .row-link").send_keys(Keys.ENTER)
    page.until(lambda: not page.js(HIDDEN, "gantt-which"))
    page.until(lambda: set(page.boxes.values()) == {"d0", "d1", "d2", "d3"})
    assert "plan of the run of" in page.text("status")


def test_a_run_that_fails_or_is_cancelled_says_so_and_harms_nothing(fake):
    page = opened(fake)
    run(page, "broken", "The run failed.")
    assert "rank 1 was killed (signal 9)" in page.text("run-body")
    assert "measuring" in page.text("run-body")
    assert page.state == "optimal"
    run(page, "gone", "does not answer")
    assert "10.1.2.3" not in page.js("return document.documentElement.innerHTML")
    run(page, "slow", "warming up 0 of 2")
    assert not page.find("#run-start").is_enabled()
    page.change(lambda: page.slide("devices", 1))
    assert page.state == "optimal"
    assert "Running" in page.text("run-note")
    page.browser.refresh()
    page.settle()
    page.js("document.getElementById('run-open').click()")
    page.until(lambda: "warming up" in page.text("run-body"))
    page.click("#run-stop")
    page.until(lambda: "The run was cancelled." in page.text("run-body"))
    assert page.js(HISTORY)[:3] == ["cancelled", "failed", "failed"]


def test_a_plan_is_made_again_with_what_was_measured(fake):
    page = run(opened(fake, "time_limit=0.5"), "fake", "Predicted")
    page.click("#run-replan")
    page.until(lambda: "With measured costs" in page.text("run-body"))
    assert "costs measured" in page.text("model-chip")
    page.until(lambda: page.find("#run-start").is_enabled())
    page.click("#run-start")
    page.until(lambda: "Operators" in page.text("run-body"))


def test_the_panel_fits_its_place(fake):
    page = opened(fake)
    page.js("document.getElementById('run-verify').click()")
    run(page, "fake", "Agrees")
    page.click("#graph-colour")
    try:
        for width, height in ((1440, 900), (1024, 768), (1920, 1080)):
            size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
            page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            page.js("return new Promise((done) => setTimeout(done, 300))")
            for part in PARTS:
                assert max(page.js(OVERFLOW, part)) <= 0, (part, width)
            assert page.js("return document.documentElement.scrollWidth") <= width
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.timeout(240)
def test_a_plan_really_runs_on_two_processes(real):
    page = real.open("model=gpt-small&devices=2&micro_batches=2&time_limit=0.5")
    page.js("document.getElementById('run-open').click()")
    page.until(lambda: page.text("run-body") and page.find("#run-start").is_enabled())
    page.js("window.dash_clientside.set_props('run-steps', { value: 2 })")
    page.click("#run-start")
    page.until(lambda: "This plan is for 2 H100-80GB" in page.text("run-body"))
    page.click("#run-body [data-act=run-anyway]")
    ended = ("Operators", "The run failed", "Nothing was run")
    page.until(lambda: any(words in page.text("run-body") for words in ended), 180)
    text = page.text("run-body")
    assert "median of 2 iterations" in text
    assert "2 ranks on" in text
    assert page.js(LANES)[:2] == ["measured", "predicted"]
    assert "errors of operators and links" in text
    assert page.js(HISTORY)[0] != "running"
    assert page.state in ("optimal", "feasible")
