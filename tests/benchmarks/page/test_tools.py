"""The same exported program in this page, in Netron and in Model Explorer: opened, expanded, searched and dragged."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from tests.benchmarks.page.driven import Counted, load, whole
from tests.benchmarks.page.tools import EXPLORER, OTHERS, PYTHON, served
from tests.benchmarks.table import show
from tests.browser.conftest import FLAGS, ROOT, Service, webdriver
from tests.browser.page import Page

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

OPENINGS, TIMES, EXPANSIONS, STEPS = 20, 20, 2, 30
WORDS = ("layer_norm", "linear")
LOCAL = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
WATCH = """
document.cookie = 'consent=1;path=/'; /* or Netron asks first, over the network */
window.Worker = class extends window.Worker {
  constructor(...given) {
    super(...given);
    this.addEventListener('message', () => { window.__worked = performance.now(); });
  }
};
(function look() {
  let ready = false;
  try { ready = READY; } catch { /* not yet */ }
  if (ready) requestAnimationFrame(() => setTimeout(() => { window.__ready = performance.now(); }, 0));
  else setTimeout(look, 4);
})();
"""
SEARCH = """
const [field, found, word, done] = arguments;
const input = document.querySelector(field);
const tell = () => [...document.querySelectorAll(found)].filter((e) => e.offsetParent).map((e) => e.textContent).join();
const was = tell();
Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(input, word);
const began = performance.now();
input.dispatchEvent(new Event('input', { bubbles: true }));
(function look() {
  const now = tell();
  if (now && now !== was) requestAnimationFrame(() => setTimeout(() => done(performance.now() - began), 0));
  else if (performance.now() - began > 20000) done(null);
  else setTimeout(look, 4);
})();
"""


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "narrow.pt2"
    subprocess.run([sys.executable, "-m", "tests.benchmarks.page.narrow", str(path)], cwd=ROOT, check=True)
    return path


@pytest.fixture
def drawing(tmp_path):
    """A browser that draws WebGL in software and knows no address but this machine's."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or pytest.skip("chromium is not installed")
    for flag in (*FLAGS, "--window-size=1440,900", "--enable-unsafe-swiftshader", LOCAL, f"--user-data-dir={tmp_path}"):
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    yield browser
    browser.quit()


def opened(page: Page, address: str) -> float:
    page.browser.execute_cdp_cmd("Network.clearBrowserCache", {})
    page.browser.get("about:blank")
    page.browser.get(address)
    return page.until(lambda: page.js("return window.__ready"), 180)


def dragged(page: Page, counted: Counted, at: tuple[int, int], by: int) -> float | None:
    """Main-thread CPU of a step of a drag, milliseconds. by: pixels a step, right and down. None if nothing moved."""
    x, y = at

    def mouse(kind: str, dx: int, **held: object) -> None:
        about = {"type": kind, "x": x + dx, "y": y + dx, **held}
        page.browser.execute_cdp_cmd("Input.dispatchMouseEvent", about)

    was = page.browser.get_screenshot_as_png()
    mouse("mouseMoved", 0)
    mouse("mousePressed", 0, button="left", buttons=1, clickCount=1)
    took = counted.of(
        lambda: [mouse("mouseMoved", by * step, button="left", buttons=1) for step in range(1, STEPS + 1)]
    )
    mouse("mouseReleased", by * STEPS, button="left", clickCount=1)
    return took / STEPS if page.browser.get_screenshot_as_png() != was else None


def measured(browser, tool, file) -> list[tuple[str, str]]:
    page = Page(browser, "")
    with served(tool, file) as address:
        watch = {"source": WATCH.replace("READY", tool.ready)}
        watching = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", watch)
        browser.set_script_timeout(120)
        first = opened(page, address)
        counted, again, cpu = Counted(page), [], []
        for _ in range(OPENINGS):
            again.append(opened(page, address))
            cpu.append(counted.now_ms())
        rows = [
            ("first opening on a fresh server", f"{first:,.0f}"),
            (f"opening again, to interactive ({OPENINGS})", whole(again)),
            ("of that main-thread CPU", whole(cpu)),
        ]
        x, y = page.js(
            "const box = document.querySelector(arguments[0]); const r = box && box.getBoundingClientRect();"
            "return r ? [Math.round(r.x), Math.round(r.y)] : [0, 0]",
            "#graph",
        )
        moves = [dragged(page, counted, (x + tool.at[0], y + tool.at[1]), by) for by in (-5, 5, -5, 5, -5)]
        moved = [ms for ms in moves if ms is not None]
        rows.append(("pan by dragging, main-thread CPU a step (5 drags)", whole(moved) if moved else "not measured"))
        if tool.expand:
            taken = []
            for number in range(EXPANSIONS):
                if number:
                    opened(page, address)
                taken.append(browser.execute_async_script(tool.expand)[0])
            rows.append((f"expand to all operators ({EXPANSIONS})", whole(taken)))
        else:
            rows.append((f"expand to all operators ({EXPANSIONS})", "always drawn"))
        if tool.open_search:
            page.js(tool.open_search)
        page.until(lambda: page.js("return !!document.querySelector(arguments[0])", tool.field))
        milliseconds = [
            browser.execute_async_script(SEARCH, tool.field, tool.answer, WORDS[i % 2]) for i in range(TIMES)
        ]
        assert None not in milliseconds, f"{tool.name} did not tell what it found"
        rows.append((f"search, from the last letter to the list ({TIMES})", whole(milliseconds)))
    print(f"\n{tool.name}: {rows}")
    browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", watching)
    return rows


def test_three_tools_on_one_model(drawing, narrow):
    if not PYTHON:
        pytest.skip("OTHER_TOOLS names no Python with netron and ai-edge-model-explorer")
    versions = {tool.name: tool.version() for tool in OTHERS}
    if missing := [name for name, version in versions.items() if not version]:
        pytest.skip(f"{PYTHON} has no {' and no '.join(missing)}")
    before = load()
    tables = {tool.name: measured(drawing, tool, narrow) for tool in (EXPLORER, *OTHERS)}
    rows = [(whats[0][0], *(figure for _, figure in whats)) for whats in zip(*tables.values(), strict=True)]
    header = ("ms, median (least to most)", *(f"{name} {versions.get(name, '')}".strip() for name in tables))
    show(f"A narrow GPT as a .pt2 file; load before {before}, after {load()}", header, rows, "dash", "plotly")
