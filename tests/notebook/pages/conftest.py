"""Notebook servers on free ports of this machine, from an environment of their own, and a browser that is watched."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from explorer.notebook.built import FOLDER
from tests.browser.conftest import ROOT, chromium, requests
from tests.notebook.pages.jupyter import Server, serve

__all__ = ["chromium"]

ENVIRONMENT = Path(os.environ.get("NOTEBOOK", ROOT / ".venv-notebook"))
"""Made by `make test`."""
HARMLESS = ("'beforeunload'", "Connection lost, reconnecting", "preloaded using link preload")
"""Said by notebooks that are left without having been touched, whose kernel is restarted, and of pictures of theirs."""
OWN = "/static/notebook/"
"""Where Jupyter Notebook has its scripts, which complain of their own menus and settings; what the widget's module
throws has an address of its own."""


@pytest.fixture(scope="session")
def bundle() -> None:
    """Skips where the widget's module was not built."""
    if not (FOLDER / "widget.js").exists():
        pytest.skip("the widget is not built: `make widget` (needs Node)")


@pytest.fixture(scope="session")
def notebooks(bundle: None) -> Path:
    """The programs of the environment with the notebooks."""
    programs = ENVIRONMENT / "bin"
    if not (programs / "jupyter-lab").exists():
        pytest.skip(f"there is no environment with notebooks ({ENVIRONMENT}): `make test` makes it")
    return programs


def left(browser, running: Iterator[Server]) -> Iterator[Server]:
    """A running server, whose page is left before it ends: it would look for it."""
    yield next(running)
    browser.get("about:blank")
    running.close()


@pytest.fixture(scope="module")
def jupyterlab(chromium, notebooks: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from left(chromium, serve(notebooks / "jupyter-lab", "lab/tree/{}?reset", tmp_path_factory.mktemp("lab")))


@pytest.fixture(scope="module")
def notebook7(chromium, notebooks: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("notebook")
    yield from left(chromium, serve(notebooks / "jupyter-notebook", "notebooks/{}", folder))


@pytest.fixture
def watched(chromium) -> Iterator[Callable[[], None]]:
    """Fails, after a test, on any complaint in the browser's console and on any request that leaves this machine."""
    chromium.get_log("browser")
    chromium.get_log("performance")
    yield lambda: None
    complaints = [
        entry["message"]
        for entry in chromium.get_log("browser")
        if entry["level"] in ("WARNING", "SEVERE") and not any(known in entry["message"] for known in (*HARMLESS, OWN))
    ]
    abroad = [url for url in requests(chromium) if urlsplit(url).hostname not in ("127.0.0.1", "localhost", None)]
    assert complaints == []
    assert abroad == []
