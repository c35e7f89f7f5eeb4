"""The connection of a client that asks and does not read is closed; that of one that is only slow is not."""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.browser.serving.conftest import fake
from tests.browser.serving.connecting import connect, request

SLOW_S = 1.0
PATIENCE_S = 60.0
SOLVE = json.dumps({"type": "solve", "session": {"model": "lattice-large"}})
THEMES = [json.dumps({"type": "theme", "theme": theme}) for theme in ("dark", "light")]
"""Each draws the plan again, in some 260 kB."""


@pytest.fixture(scope="module")
def hasty() -> Iterator[str]:
    yield from fake({"slow_s": SLOW_S})


def narrow(address: str) -> socket.socket:
    """A connection that holds little on this side."""
    parts = urlsplit(address)
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
    made.connect((parts.hostname, parts.port))
    return made


def with_plan(address: str, held: socket.socket) -> Any:
    """A page that shows a large plan."""
    page = connect(address, socket=held)
    page.send(SOLVE)
    while json.loads(page.recv()).get("state") != "optimal":
        pass
    return page


def is_hung_up_on(connection: socket.socket) -> bool:
    waiting = select.poll()
    waiting.register(connection, select.POLLHUP | select.POLLERR)
    return any(event & (select.POLLHUP | select.POLLERR) for _, event in waiting.poll(PATIENCE_S * 1000))


@pytest.mark.slow
def test_a_page_that_never_reads_is_disconnected(hasty):
    held = narrow(hasty)
    page = with_plan(hasty, held)
    for number in range(100):
        page.send(THEMES[number % 2])
    assert is_hung_up_on(held)
    held.close()
    other = connect(hasty)
    assert json.loads(other.recv())["type"] == "hello"
    other.close()


@pytest.mark.slow
def test_a_download_that_nobody_takes_is_hung_up_on(hasty):
    parts = urlsplit(hasty)
    held = narrow(hasty)
    path = next(word for word in request(hasty).text.split('"') if word.endswith(".js") and "cytoscape" in word)
    one = f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n"
    held.sendall(one.encode() * 8)
    assert is_hung_up_on(held)
    held.close()


def test_a_file_that_stands_still_is_given_up(hasty):
    page = connect(hasty)
    key = json.loads(page.recv())["token"]
    parts = urlsplit(hasty)
    headers = f"Host: {parts.netloc}\r\nOrigin: {hasty.rstrip('/')}\r\nx-page-token: {key}\r\nContent-Length: 9000\r\n"
    held = narrow(hasty)
    held.settimeout(PATIENCE_S)
    held.sendall(f"POST /open HTTP/1.1\r\n{headers}\r\n{{".encode())
    assert held.recv(12) == b"HTTP/1.1 408"
    held.close()
    assert request(hasty, "/open", "POST", b"{}", x_page_token=key, origin=hasty.rstrip("/")).status == 200, (
        "the next may"
    )
    page.close()


@pytest.mark.slow
def test_a_page_that_reads_slowly_gets_all_of_it(hasty):
    held = narrow(hasty)
    page = with_plan(hasty, held)
    most = 32
    for number in range(most):
        page.send(THEMES[number % 2])
    drawn = 0
    while drawn < most:
        drawn += json.loads(page.recv())["type"] == "plan"
        time.sleep(2.2 * SLOW_S / most)  # in all longer than a page may stand still, however fast it is drawn
    page.shutdown()
