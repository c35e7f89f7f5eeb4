"""The page in print: both pictures whole, on one sheet, without buttons and other controls."""

from __future__ import annotations

import base64
import re

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(240)]

START = "model=gpt-small&devices=2&micro_batches=4&effort=quick&v=2"
HIDDEN = """
return ['.left', '#share', '#guide-open', '.split', '.clock', '#gantt-fit'].filter(function (part) {
  const found = getComputedStyle(document.querySelector(part));
  return found.display !== 'none' && found.visibility !== 'hidden';
});
"""
CUT = """
return ['#graph', '#gantt'].filter(function (part) {
  const own = document.querySelector(part).getBoundingClientRect();
  const card = document.querySelector(part).closest('.card').getBoundingClientRect();
  return own.width < 100 || own.left < card.left - 1 || own.right > card.right + 1;
});
"""


def test_a_plan_is_printed_on_one_sheet(real):
    page = real.at(START)
    with page.sized(1440, 900):
        page.js("window.dispatchEvent(new Event('beforeprint'))")
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        try:
            assert page.js(HIDDEN) == []
            assert page.js(CUT) == []
        finally:
            page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        shown = page.browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True, "printBackground": True})
        paper = base64.b64decode(shown["data"])
    assert len(re.findall(rb"/Type\s*/Page\b(?!s)", paper)) == 1
