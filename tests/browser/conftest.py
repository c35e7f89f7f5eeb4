"""The real app in a subprocess, driven in headless Chromium as a person would.

Every test fails on any console error and on any request that leaves this machine.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.browser.fakes.ports import free_port
from tests.browser.page import Page

webdriver = pytest.importorskip("selenium.webdriver")
from selenium.webdriver.chrome.service import Service  # noqa: E402

ROOT = Path(__file__).parents[2]
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-device-scale-factor=1",
)
HARMLESS = ("custom wheel sensitivity",)
"""Said by cytoscape because dash-cytoscape always passes the option, with its default."""


VISITED: set[str] = set()
"""Addresses of pages that tests of this module were given."""


def serve(module: str, *arguments: str, root: Path | None = None) -> Iterator[str]:
    """The address of a server in a subprocess, once it answers. root: of another checkout, whose code runs."""
    port = free_port()
    command = [sys.executable, "-m", module, str(port), *arguments]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=root or ROOT, text=True, **piped) as server:
        lines: list[str] = []
        up = threading.Event()

        def listen() -> None:
            for line in server.stdout:
                lines.append(line)
                if "http://" in line:
                    up.set()
            up.set()

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        try:
            assert up.wait(180), "the server did not answer in 180 s"
            assert server.poll() is None, "".join(lines)
            yield f"http://127.0.0.1:{port}/"
        finally:
            server.terminate()
            try:
                server.wait(15)
            except subprocess.TimeoutExpired:
                server.kill()
            listener.join(5)
    assert not [line for line in lines if "Traceback" in line], "".join(lines)


@pytest.fixture(scope="session")
def fake_server() -> Iterator[str]:
    yield from serve("tests.browser.fakes.serve_fake")


@pytest.fixture(scope="session")
def real_server() -> Iterator[str]:
    yield from serve("tests.browser.fakes.serve_real", "gpt-small")


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    browser = launched(tmp_path_factory.mktemp("profile"))
    if browser is None:
        pytest.skip("chromium and chromedriver are not installed (tests/browser/install.sh)")
    yield browser
    browser.quit()


def launched(profile: Path) -> webdriver.Chrome | None:
    """Chromium with an empty profile; None where it is not installed."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        return None
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, "--window-size=1440,900", f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(driver))


@pytest.fixture(scope="module")
def window(chromium: webdriver.Chrome) -> Iterator[webdriver.Chrome]:
    """The browser, empty after a module and with nothing kept: pages are shared within one at most."""
    yield chromium
    chromium.get("about:blank")
    for address in VISITED:
        stored = {"origin": address.rstrip("/"), "storageTypes": "local_storage"}
        chromium.execute_cdp_cmd("Storage.clearDataForOrigin", stored)
    VISITED.clear()


@pytest.fixture
def fake(window: webdriver.Chrome, fake_server: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page on hand-made plans."""
    yield from watched(window, fake_server, request.session)


@pytest.fixture
def real(window: webdriver.Chrome, real_server: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page on the real engine."""
    yield from watched(window, real_server, request.session)


def watched(browser: webdriver.Chrome, address: str, session: pytest.Session) -> Iterator[Page]:
    VISITED.add(address)
    browser.get_log("browser")
    browser.get_log("performance")
    failed = session.testsfailed
    yield Page(browser, address)
    complaints = [
        entry["message"]
        for entry in browser.get_log("browser")
        if entry["level"] in ("WARNING", "SEVERE") and not any(known in entry["message"] for known in HARMLESS)
    ]
    abroad = [url for url in requests(browser) if urlsplit(url).hostname not in ("127.0.0.1", None)]
    if complaints or abroad or session.testsfailed > failed:
        browser.get("about:blank")  # what a failed test leaves is nothing to go on from
    assert complaints == []
    assert abroad == []


def requests(browser: webdriver.Chrome) -> list[str]:
    """Every address asked for, websockets included."""
    addresses = []
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            addresses.append(message["params"]["request"]["url"])
        elif message["method"] == "Network.webSocketCreated":
            addresses.append(message["params"]["url"])
    return [url for url in addresses if not url.startswith(("data:", "blob:", "chrome:", "about:"))]
