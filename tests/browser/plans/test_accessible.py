"""Every tab of the page and a lesson, in both themes, as axe-core sees them: nothing serious for who hears or hardly
sees the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.plans.test_lessons import WAYS

ROOT = Path(__file__).parents[3]
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(240),
    pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed: `npm ci` (the widget's build does it)"),
]
START = "model=gpt-small&devices=4&micro_batches=8&effort=quick&time_limit=5&v=2"
TABS = "return [...document.querySelectorAll('[role=tab]')].map((tab) => tab.innerText)"
OPEN = "[...document.querySelectorAll('[role=tab]')].find((tab) => tab.innerText === arguments[0]).click()"
RUN = """
const done = arguments[0];
const told = (v) => v.id + ' at ' + v.nodes.map((node) => node.target.join(' ')).join(', ');
axe.run(document, {resultTypes: ['violations']}).then((found) =>
  done(found.violations.filter((v) => ['serious', 'critical'].includes(v.impact)).map(told)));
"""


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_tab_and_no_lesson_has_a_serious_finding(real, theme):
    page = real.open(f"{START}&theme={theme}")
    page.js("document.querySelector('details.each summary').click()")
    page.js(AXE.read_text(encoding="utf-8") + "\nwindow.axe = axe;")
    findings = {}
    for tab in page.js(TABS):
        page.js(OPEN, tab)
        page.settle()
        findings[tab] = page.browser.execute_async_script(RUN)
    page.open(f"{START}&lesson=bubbles&step=1&theme={theme}")
    page.js(AXE.read_text(encoding="utf-8") + "\nwindow.axe = axe;")
    findings["a lesson"] = page.browser.execute_async_script(RUN)
    assert len(findings) >= 9
    assert {tab: expected for tab, expected in findings.items() if expected} == {}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("lesson", WAYS)
def test_no_lesson_has_a_serious_finding_at_its_first_step_nor_at_its_question(real, theme, lesson):
    page = real.open(f"lesson={lesson}&step=1&theme={theme}")
    assert page.theme == theme
    page.js(AXE.read_text(encoding="utf-8") + "\nwindow.axe = axe;")
    with page.sized(1440, 900):
        assert page.browser.execute_async_script(RUN) == []
        page.js("[...document.querySelectorAll('#lesson-steps button')].at(-1).click()")
        page.until(lambda: page.text("lesson-verdict"))
        page.settle()
        assert page.browser.execute_async_script(RUN) == []
