"""Nothing of the page is cut off in narrow windows."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

CHAIN = "model=chain&devices=4&micro_batches=4&v=2"
CHANGES = """
for (const value of document.querySelectorAll('.kpi .value')) {
  value.querySelector('b').textContent = '55.7 GiB';
  const change = value.querySelector('.change') || value.appendChild(document.createElement('em'));
  change.className = 'change';
  change.textContent = '+12.3 %';
}
"""
CLIPPED = """
const found = [];
for (const box of document.querySelectorAll('.kpi *, .card-head > *, [role=tab], .rail-foot *')) {
  const frame = box.closest('.kpi, .card, .rail-foot').getBoundingClientRect();
  const own = box.getBoundingClientRect();
  if (!own.width || box.matches('.sr')) continue;
  const inline = getComputedStyle(box).display === 'inline';
  if (own.right > frame.right + 0.5 || (!inline && box.scrollWidth > box.clientWidth + 1))
    found.push(box.id || box.className || box.textContent);
}
return found;
"""
BELOW = """
const button = document.querySelector('[data-whole-of=details]').getBoundingClientRect();
return [...document.querySelectorAll('[role=tab]')].filter((tab) => {
  const box = tab.getBoundingClientRect();
  return box.right > button.left && box.left < button.right && box.bottom > button.top && box.top < button.bottom;
}).map((tab) => tab.innerText);
"""
LEGEND = """
const legend = document.getElementById('gantt-legend').getBoundingClientRect();
return Object.fromEntries([...document.querySelectorAll('#gantt-legend .legend')].map((one) => {
  const box = one.getBoundingClientRect();
  const within = box.left >= legend.left && box.right <= legend.right + 0.5 && box.bottom <= legend.bottom;
  return [one.textContent, box.width > 0 && within];
}));
"""
LABELLED = """
const cy = document.getElementById('graph')._cyreg.cy;
return cy.zoom() * cy.nodes()[0].numericStyle('font-size') >= cy.nodes()[0].numericStyle('min-zoomed-font-size');
"""


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (1280, 720), (1024, 768), (900, 900)])
def test_figures_buttons_tabs_and_names_are_whole(fake, width, height):
    page = fake.at(CHAIN)
    with page.sized(width, height):
        page.js(CHANGES)
        assert page.js(CLIPPED) == []
        assert page.js(BELOW) == [], "of tabs, names that the button for one part covers"
        page.until(lambda: page.js(LABELLED))


@pytest.mark.parametrize("width", [1440, 1180, 1024])
def test_the_legend_of_bars_wraps_and_hides_no_kind(fake, width):
    page = fake.at(CHAIN)
    with page.sized(width, 820):
        shown = page.js(LEGEND)
        assert {"forward", "backward", "warm-up", "steady", "drain", "bubble"} <= {words.split()[0] for words in shown}
        assert all(shown.values()), shown
