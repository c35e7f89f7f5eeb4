"""The pictures of docs, taken of the real page and the real widget.

``python -m tests.project.save_pictures [NAME...]`` takes them, by default all; a name is that of a file in docs.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.browser.conftest import ROOT, launched, serve
from tests.browser.page import Page

FOLDER = ROOT / "docs"
LARGE, SMALL, LESSON = (1440, 900), (1280, 720), (1440, 810)
PATIENCE_S = 600.0
CLUSTER = "devices=4&device_kind=H100-80GB"


def tab(page: Page, name: str) -> None:
    next(t for t in page.browser.find_elements(By.CSS_SELECTOR, "[role=tab]") if t.text == name).click()


def opening(page: Page) -> None:
    """The page as it opens: a plan of the demo model that comes with it."""
    page.open()


def sweep(page: Page) -> None:
    page.open(f"model=gpt&{CLUSTER}&micro_batches=8&planner=layer-split")
    page.js("document.querySelector('[data-act=help]').click()")
    page.until(lambda: "Throughput against this plan" in page.text("help"))
    tab(page, "Sweep")
    page.click("#sweep-start")
    page.until(lambda: "A click on one asks it" in page.text("sweep-note"))


def stages(page: Page) -> None:
    page.open(
        "model=multimodal&devices=8&device_kind=H100-80GB&micro_batches=8&pipeline=1f1b&planner=graph-pipeline&graph=stages&v=2"
    )
    page.click("[data-act=pair]")
    page.until(lambda: "faster" in page.text("pair"))


def operators(page: Page) -> None:
    page.open("model=gnmt&devices=2&device_kind=V100-32GB&objective=makespan&time_limit=20")
    for part in ("#gantt-links", "#gantt-path"):
        if page.find(part).get_attribute("aria-pressed") != "true":
            page.click(part)
    page.click("#shallower")
    page.settle()


def scenarios(page: Page) -> None:
    page.open(f"model=gpt&{CLUSTER}&micro_batches=8&planner=equal")
    tab(page, "Scenarios")
    page.click("#scenarios [data-act=keep]")
    page.change(lambda: page.choose("planner", "layer-split"))
    page.click("#scenarios [data-act=keep]")
    page.until(lambda: len(page.browser.find_elements(By.CSS_SELECTOR, ".scenarios tbody tr")) == 2)
    page.click("#scenarios [data-act=differ]")
    page.until(lambda: "moved; bright in the graph" in page.text("scenarios"))


def lessons(page: Page) -> None:
    page.open("lesson=bubbles&step=3")
    page.change(lambda: page.js("document.querySelector('#micro-batches input[value=\"16\"]').click()"))
    page.until(lambda: "Yes" in page.text("lesson-verdict"))


def measured(page: Page) -> None:
    """A plan with costs of this machine and its run: to be taken where nothing else runs."""
    page.open("model=gpt-small&devices=2&micro_batches=4&mini_batch=64")
    page.find("#run-open").send_keys(Keys.ENTER)
    page.until(lambda: page.browser.find_elements(By.CSS_SELECTOR, "#run-body [data-act=plan-here]"))
    page.js("document.querySelector('#run-body [data-act=plan-here]').click()")
    page.until(lambda: "with measured costs" in page.text("status"))
    page.settle()
    page.until(lambda: page.find("#run-start").is_enabled())
    page.click("#run-start")
    page.until(lambda: "Fed with measured times" in page.text("run-body"))


PAGES: dict[str, tuple[tuple[int, int], Callable[[Page], None]]] = {
    "page": (LARGE, opening),
    "what-if": (SMALL, sweep),
    "stages": (LARGE, stages),
    "operators": (LARGE, operators),
    "scenarios": (SMALL, scenarios),
    "lessons": (LESSON, lessons),
    "run": (LARGE, measured),
}
WIDGET = "widget"
CELLS = (
    "import explorer\n"
    "w = explorer.PlacementWidget(explorer.trace('gpt'), devices=4, device_kind='H100-80GB', micro_batches=8)\nw",
)


@contextmanager
def browsing() -> Iterator[Any]:
    """Raises SystemExit where no browser is installed."""
    with tempfile.TemporaryDirectory() as profile:
        browser = launched(Path(profile))
        if browser is None:
            raise SystemExit("chromium and chromedriver are not installed (tests/browser/install.sh)")
        try:
            yield browser
        finally:
            browser.quit()


def save_pages(browser: Any, names: list[str]) -> None:
    with closing(serve("tests.browser.fakes.serve_real")) as server:
        page = Page(browser, next(server), PATIENCE_S)
        for name in names:
            (width, height), show = PAGES[name]
            browser.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
            )
            show(page)
            page.settle()
            save(name, browser.get_screenshot_as_png())


def save_widget(browser: Any) -> None:
    """The widget in JupyterLab, from the environment that `make test` makes."""
    from tests.notebook.pages.conftest import ENVIRONMENT
    from tests.notebook.pages.jupyter import Notebook
    from tests.notebook.pages.jupyter import serve as serve_notebooks

    browser.set_window_size(1700, 1400)
    with tempfile.TemporaryDirectory() as root:
        running = serve_notebooks(ENVIRONMENT / "bin" / "jupyter-lab", "lab/tree/{}?reset", Path(root))
        with closing(running):
            notebook = Notebook(browser, next(running), CELLS)
            notebook.run_all()
            notebook.solved()
            shown = notebook.find(".shell")
            notebook.js("arguments[0].scrollIntoView()", shown)
            save(WIDGET, shown.screenshot_as_png)
            browser.get("about:blank")


def save(name: str, picture: bytes) -> None:
    path = FOLDER / f"{name}.png"
    path.write_bytes(picture)
    print(f"{path.relative_to(ROOT)}: {len(picture):,} bytes")


def main() -> None:
    names = sys.argv[1:] or [*PAGES, WIDGET]
    if unknown := sorted({*names} - {*PAGES, WIDGET}):
        raise SystemExit(f"no picture {', '.join(unknown)}; there are {', '.join([*PAGES, WIDGET])}")
    with browsing() as browser:
        if pages := [name for name in names if name in PAGES]:
            save_pages(browser, pages)
        if WIDGET in names:
            save_widget(browser)


if __name__ == "__main__":
    main()
