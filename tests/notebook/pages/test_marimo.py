"""The widget in marimo, which shows it in a shadow tree of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.common.exceptions import StaleElementReferenceException

from tests.browser.conftest import ROOT
from tests.browser.fakes.ports import free_port
from tests.notebook.pages.jupyter import PAINTED
from tests.notebook.pages.test_jupyterlab import BLUE, ORANGE

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.usefixtures("watched")]

PATIENCE_S = 90.0
PROGRAM = """
import marimo

app = marimo.App()


@app.cell
def _():
    import explorer

    w = explorer.PlacementWidget(explorer.trace("gpt-small"), devices=4, planner="equal", micro_batches=4)
    w
    return


if __name__ == "__main__":
    app.run()
"""
FIND = """
const find = (root) => {
  const found = root.querySelector(".placement-explorer");
  if (found) return found;
  for (const each of root.querySelectorAll("*")) {
    const inside = each.shadowRoot && find(each.shadowRoot);
    if (inside) return inside;
  }
  return null;
};
const widget = find(document);
return widget && widget.querySelector(arguments[0]);
"""


@pytest.fixture(scope="module")
def marimo(notebooks: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that runs one notebook as an app."""
    folder = tmp_path_factory.mktemp("marimo")
    (folder / "tour.py").write_text(PROGRAM, encoding="utf-8")
    port = free_port()
    command = [str(notebooks / "marimo"), "run", "tour.py", "--headless", "--no-token", "--host", "127.0.0.1",
               "--port", str(port)]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    with (folder / "log.txt").open("w") as log, subprocess.Popen(
        command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT
    ) as server:  # fmt: skip
        try:
            until = time.monotonic() + PATIENCE_S
            while server.poll() is None and time.monotonic() < until:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    time.sleep(0.2)
            else:
                raise AssertionError((folder / "log.txt").read_text()[-2000:])
            yield f"http://127.0.0.1:{port}/"
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()


def test_a_plan_is_shown_and_changed(chromium, marimo):
    def find(selector):
        return chromium.execute_script(FIND, selector)

    def until(test):
        end = time.monotonic() + PATIENCE_S
        while not (value := test()):
            assert time.monotonic() < end, f"not in {PATIENCE_S:g} s"
            time.sleep(0.1)
        return value

    def cards():
        script = FIND.replace("widget.querySelector(", "widget.querySelectorAll(") + ".length"
        return chromium.execute_script(script.replace(";\n.length", ".length"), ".mem")

    def clicked(selector):
        """Cards are drawn again with every better plan, maybe just now."""
        try:
            find(selector).click()
        except StaleElementReferenceException:
            return False
        return True

    chromium.set_window_size(1200, 1200)
    chromium.get(marimo)
    until(lambda: cards() == 4)
    until(lambda: {BLUE, ORANGE} <= set(chromium.execute_script(PAINTED, find(".chart canvas"))))
    until(lambda: {BLUE, ORANGE} <= set(chromium.execute_script(PAINTED, find("canvas[data-id='layer2-node']"))))
    find("button[aria-label='One GPU more']").click()
    until(lambda: cards() == 5)
    until(lambda: clicked(".mem[data-device='1']"))
    until(lambda: "GPU 1" in chromium.execute_script("return arguments[0].textContent", find(".inspector")))
