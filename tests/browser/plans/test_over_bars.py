"""What is drawn over the bars of the schedule leaves them, and their numbers, to be read."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.keys import Keys

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

CHAIN = "model=chain&devices=4&micro_batches=4&v=2"
ALONG = """
const middle = window.explorer.gantt.sight().rows.middle;
const over = window.explorer.gantt.drawn().over.filter((shape) => shape.name === 'path');
const lines = over.flatMap((shape) => shape.lines);
return lines.filter((line) => line[2] === line[3]).map((line) => Math.min(...middle.map((y) => Math.abs(y - line[2]))));
"""
COVERED = """
const sight = window.explorer.gantt.sight();
const top = sight.plot.getBoundingClientRect().top;
return [...document.querySelectorAll('#cursor .reading')].map(function (reading, row) {
  const box = reading.getBoundingClientRect();
  return top + sight.top(row) >= box.top && top + sight.top(row) <= box.bottom;
});
"""


def test_the_critical_path_and_the_readings_of_an_instant_stand_beside_the_numbers_of_bars(fake):
    page = fake.at(CHAIN)
    page.find("#gantt-path").click()
    page.until(lambda: page.js(ALONG))
    assert min(page.js(ALONG)) > 0.2
    page.find("#gantt-path").click()
    page.find("body").send_keys(".")
    assert page.until(lambda: page.js(COVERED)) == [False] * 4
    page.find("body").send_keys(Keys.ESCAPE)
    page.js("window.explorer.clock.rest()")
