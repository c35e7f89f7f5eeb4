"""JupyterLab or Jupyter Notebook in a subprocess, and a notebook in it, driven through the page's own commands."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tests.browser.conftest import ROOT
from tests.browser.fakes.ports import free_port

PATIENCE_S = 90.0
T = TypeVar("T")

RUN = """
const [code, done] = arguments;
const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
let said = "";
const future = kernel.requestExecute({ code, store_history: false, allow_stdin: false });
future.onIOPub = (message) => {
  if (message.header.msg_type === "stream") said += message.content.text;
  if (message.header.msg_type === "error") said += message.content.ename + ": " + message.content.evalue;
};
future.done.then(() => done(said), (error) => done("the kernel did not answer: " + error));
"""
COMMAND = """
const [name, given, done] = arguments;
window.jupyterapp.commands.execute(name, given || {}).then(() => done(""), (error) => done(String(error)));
"""
PAINTED = """
const canvas = arguments[0];
const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
const seen = new Set();
for (let i = 0; i < pixels.length; i += 4) {
  if (pixels[i + 3] > 200) seen.add([pixels[i], pixels[i + 1], pixels[i + 2]].join());
}
return [...seen];
"""


@dataclass(frozen=True)
class Server:
    """address: with a slash at its end; page: the path of a notebook, with {} for its name; root: its folder."""

    address: str
    page: str
    root: Path


def serve(program: Path, page: str, root: Path) -> Iterator[Server]:
    """A server without a token that listens on this machine only, with settings of its own."""
    port = free_port()
    settings = root / "settings"
    (settings / "labconfig").mkdir(parents=True)
    if "lab" in program.name:  # which asks whether to fetch news
        quiet = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}
        (settings / "labconfig" / "page_config.json").write_text(json.dumps(quiet), encoding="utf-8")
    folders = {"JUPYTER_CONFIG_DIR": settings, "JUPYTER_RUNTIME_DIR": root / "runtime", "IPYTHONDIR": root / "ipython"}
    environment = {**os.environ, **{name: str(path) for name, path in folders.items()}, "PYTHONPATH": str(ROOT)}
    work = root / "work"
    work.mkdir()
    command = [str(program), "--no-browser", "--allow-root", "--expose-app-in-browser", f"--port={port}",
               "--ServerApp.ip=127.0.0.1", "--IdentityProvider.token=", "--ServerApp.port_retries=0",
               f"--ServerApp.root_dir={work}"]  # fmt: skip
    with (root / "log.txt").open("w") as log, subprocess.Popen(
        command, cwd=work, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
    ) as server:  # fmt: skip
        try:
            until = time.monotonic() + PATIENCE_S
            while time.monotonic() < until and server.poll() is None:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    time.sleep(0.2)
            else:
                raise AssertionError((root / "log.txt").read_text()[-2000:])
            yield Server(f"http://127.0.0.1:{port}/", page, work)
        finally:
            server.send_signal(signal.SIGINT)
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()


class Notebook:
    """A notebook that is open in the browser."""

    def __init__(self, browser: Any, server: Server, cells: Sequence[str], name: str = "tour.ipynb") -> None:
        self.browser = browser
        content = {
            "cells": [
                {"cell_type": "code", "id": f"cell{i}", "metadata": {}, "source": cell, "outputs": [],
                 "execution_count": None}
                for i, cell in enumerate(cells)
            ],
            "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
            "nbformat": 4,
            "nbformat_minor": 5,
        }  # fmt: skip
        self.server = server
        (server.root / name).write_text(json.dumps(content), encoding="utf-8")
        browser.set_script_timeout(PATIENCE_S)
        self.open(name)

    def open(self, name: str) -> None:
        """Load the page of a notebook that is in the server's folder, with the kernel that it gets."""
        self.browser.get("about:blank")
        self.browser.get(self.server.address + self.server.page.format(name))
        self.until(lambda: self.js("""
            const shown = window.jupyterapp && window.jupyterapp.shell.currentWidget;
            const session = shown && shown.sessionContext && shown.sessionContext.session;
            const kernel = session && session.kernel;
            return kernel && kernel.status === "idle" && document.querySelectorAll(".jp-CodeCell").length > 0;
        """))  # fmt: skip

    def js(self, script: str, *given: Any) -> Any:
        return self.browser.execute_script(script, *given)

    def until(self, test: Callable[[], T], what: str = "") -> T:
        """What ``test`` says, once that is true."""
        until = time.monotonic() + PATIENCE_S
        while not (value := test()):
            assert time.monotonic() < until, what or f"not in {PATIENCE_S:g} s"
            time.sleep(0.1)
        return value

    def command(self, name: str, **given: Any) -> None:
        """A command of the application."""
        message = self.browser.execute_async_script(COMMAND, name, given)
        assert message == "", message

    def run_all(self) -> None:
        self.command("notebook:run-all-cells")

    def python(self, code: str) -> str:
        """What a line of Python prints in the kernel."""
        output: str = self.browser.execute_async_script(RUN, code)
        return output.strip()

    def widgets(self) -> list[Any]:
        """The widgets that are shown, in their order."""
        widgets: list[Any] = self.js("return [...document.querySelectorAll('.placement-explorer')]")
        return widgets

    def state(self, widget: int = 0) -> str:
        """What the dot of a widget says; "" before it is there."""
        state: str = self.js(
            "const shell = document.querySelectorAll('.placement-explorer .shell')[arguments[0]];"
            "return shell ? shell.dataset.state : ''",
            widget,
        )
        return state

    def solved(self, widget: int = 0) -> None:
        """Wait for an answer that is drawn."""
        self.until(lambda: self.state(widget) in ("optimal", "feasible"), "no plan is shown")

    def find(self, selector: str, widget: int = 0) -> Any:
        """An element of a widget."""
        return self.js(
            "return document.querySelectorAll('.placement-explorer')[arguments[0]].querySelector(arguments[1])",
            widget, selector,
        )  # fmt: skip

    def painted(self, selector: str, widget: int = 0) -> set[str]:
        """The colours on a canvas, "r,g,b"."""
        return set(self.js(PAINTED, self.find(selector, widget)))
