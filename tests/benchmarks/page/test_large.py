"""Ten thousand operators on the page: opened from a file, panned, zoomed, hovered and recoloured."""

from __future__ import annotations

from pathlib import Path

import pytest

from solvers.formats.graph_json import write_graph
from solvers.formats.workload import Workload
from tests.benchmarks.page.driven import Counted, load, median
from tests.benchmarks.table import show
from tests.browser.conftest import chromium, serve  # noqa: F401
from tests.browser.page import Page
from tests.explorer.view.small import chain

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

TIMES = 20
FRAMES = 60
BLOCKS, EACH = 417, 12
MOST_BOXES = 1490
"""Modules of a second file: as many boxes as are drawn."""
OPENED = """
const was = document.getElementById('graph')._cyreg.cy.nodes().map((n) => n.id()).join();
window.__opened = null;
document.getElementById('open-input').addEventListener('change', function () {
  const began = performance.now();
  (function look() {
    const now = document.getElementById('graph')._cyreg.cy.nodes().map((n) => n.id()).join();
    if (now === was) setTimeout(look, 20);
    else window.__opened = performance.now() - began;
  })();
}, { once: true, capture: true });
"""
FRAME = """
const [kind, frames, done] = arguments;
const cy = document.getElementById('graph')._cyreg.cy;
let n = 0;
(function go() {
  if (n++ >= frames) return done(n);
  if (kind === 'pan the graph') cy.panBy({ x: n % 2 ? 5 : -5, y: 2 });
  const by = n < frames / 2 ? 1.03 : 1 / 1.03;
  if (kind === 'zoom the graph') cy.zoom({ level: cy.zoom() * by, renderedPosition: { x: 300, y: 200 } });
  if (kind === 'zoom the schedule') {
    const { from, to } = window.explorer.gantt.sight();
    window.explorer.gantt.look(from + 0.01 * (to - from), to - 0.01 * (to - from));
  }
  requestAnimationFrame(go);
})();
"""
HOVER = """
const [i, done] = arguments;
const nodes = document.getElementById('graph')._cyreg.cy.nodes();
const began = performance.now();
nodes[i % nodes.length].emit('mouseover');
requestAnimationFrame(() => setTimeout(() => done(performance.now() - began), 0));
"""
RECOLOUR = """
const [i, done] = arguments;
const began = performance.now();
window.explorer.graph.overlay(window.__overlay[i % 2]);
requestAnimationFrame(() => setTimeout(() => done(performance.now() - began), 0));
"""
CATCH = """
const was = window.explorer.graph.overlay;
window.__last = null;
window.explorer.graph.overlay = function (message) { window.__last = message; was(message); };
"""
TWO = """
const first = window.__last;
const next = (devices) => devices.map((device) => (device + 1) % 8);
const nodes = Object.fromEntries(Object.entries(first.nodes).map(([id, on]) => [id, next(on)]));
window.__overlay = [first, { ...first, nodes: nodes }];
return Object.keys(first.nodes).length;
"""


def frame_ms(page: Page, counted: Counted, kind: str) -> float:
    """Main-thread CPU of a frame."""
    return counted.of(lambda: page.browser.execute_async_script(FRAME, kind, FRAMES)) / FRAMES


def boxes_of(page: Page) -> int:
    return page.js("return document.getElementById('graph')._cyreg.cy.nodes().length")


def open_file(page: Page, path: Path) -> float:
    """Milliseconds from choosing the file to its graph."""
    page.open("model=gpt-small&devices=8&effort=quick&time_limit=20&v=2")
    page.find("#open-file").click()
    page.js("document.getElementById('open-dialog').close()")
    page.js(OPENED)
    page.js(CATCH)
    page.find("#open-input").send_keys(str(path))
    took = page.until(lambda: page.js("return window.__opened"), 120)
    page.until(lambda: page.js("return window.__last"), 120)
    page.settle()
    return took


def open_level(page: Page) -> None:
    """All modules of the first level, each a box."""
    page.click("#deeper")
    page.until(lambda: boxes_of(page) >= MOST_BOXES, 120)
    page.settle()


def drawn(page: Page, counted: Counted, kinds: tuple[str, ...]) -> list[tuple[str, str, str]]:
    """Main-thread CPU of a frame of what moves."""
    rows = []
    idle = frame_ms(page, counted, "nothing")
    for kind in kinds:
        took = [frame_ms(page, counted, kind) - idle for _ in range(5)]
        rows.append((f"{kind}, {boxes_of(page):,} boxes, main-thread CPU a frame", median(took), "16"))
    return rows


def touched(page: Page, counted: Counted) -> list[tuple[str, str, str]]:
    """Panning, zooming, hovering and recolouring what is drawn: CPU a frame, or milliseconds to the painted frame."""
    page.js(TWO)
    rows = drawn(page, counted, ("pan the graph", "zoom the graph"))
    for what, script, target in (("hover one of", HOVER, "50"), ("recolour", RECOLOUR, "100")):
        began = counted.now_ms()
        taken = [page.browser.execute_async_script(script, i) for i in range(TIMES)]
        cpu = (counted.now_ms() - began) / TIMES
        rows.append((f"{what} {boxes_of(page):,} boxes", median(taken), target))
        rows.append((f"{what} {boxes_of(page):,} boxes, main-thread CPU, mean", f"{cpu:,.1f}", target))
    return rows


def test_a_file_of_ten_thousand_operators(chromium, tmp_path):  # noqa: F811
    path = tmp_path / "large.json"
    graph = chain(BLOCKS, EACH)
    path.write_text(write_graph(Workload(graph, "large", parameters=10**9)))
    rows: list[tuple[str, str, str]] = []
    before = load()
    for address in serve("tests.browser.fakes.serve_real", "gpt-small"):
        page = Page(chromium, address)
        opened = [open_file(page, path) for _ in range(5)]
        rows.append((f"choose the file ({path.stat().st_size / 2**20:.1f} MiB) to the graph", median(opened), "3,000"))
        counted = Counted(page)
        rows += drawn(page, counted, ("zoom the schedule",))
        rows += touched(page, counted)
        many = tmp_path / "many.json"
        many.write_text(write_graph(Workload(chain(MOST_BOXES, 7), "many", parameters=10**9)))
        open_file(page, many)
        open_level(page)
        rows += touched(page, counted)
    title = f"{len(graph):,} operators on the page, median of {TIMES} (5 for the file and the frames)"
    show(f"{title}; load before {before}, after {load()}", ("what", "ms", "target"), rows, "dash", "plotly")
