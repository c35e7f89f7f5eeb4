"""The server answers its own page only."""

from __future__ import annotations

import http.client
import json
import time
from urllib.parse import urlsplit

import pytest

from explorer.web.serving.live import MAX_MESSAGE, MAX_PAGES
from explorer.web.serving.security import content_security_policy, hostname, same_origin

websocket = pytest.importorskip("websocket")


def get(address, path="/", **headers):
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode()
    finally:
        connection.close()


def connect(address, path="live"):
    return websocket.create_connection(address.replace("http", "ws") + path, timeout=60, origin=address.rstrip("/"))


def test_a_foreign_host_name_is_refused(fake_server):
    assert get(fake_server, Host="evil.example")[0] == 421
    assert get(fake_server, Host="127.0.0.1.evil.example")[0] == 421
    assert get(fake_server)[0] == 200


def test_every_answer_carries_the_policy(fake_server):
    for path in ("/", "/assets/page.css", "/_dash-layout", "/nothing/here"):
        headers = get(fake_server, path)[1]
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "unsafe-eval" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_scripts_need_no_unsafe_inline():
    policy = content_security_policy(["'sha256-abc'"])
    assert "script-src 'self' 'sha256-abc';" in policy


@pytest.mark.parametrize("path", ["/live", "/_dash-ws-callback"])
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1"])
def test_a_foreign_websocket_origin_is_refused(fake_server, path, origin):
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg==",
    }
    assert get(fake_server, path, Origin=origin, **upgrade)[0] == 403


def test_a_message_that_is_too_long_or_no_object_ends_the_conversation(fake_server):
    for message in ("[" * 50, "x", json.dumps({"type": "x" * MAX_MESSAGE}), "[1]"):
        socket = connect(fake_server)
        try:
            socket.send(message)
            while (opcode := socket.recv_data()[0]) == websocket.ABNF.OPCODE_TEXT:  # what every page is sent first
                pass
            assert opcode == websocket.ABNF.OPCODE_CLOSE
        finally:
            socket.shutdown()


def test_a_binary_message_ends_the_conversation(fake_server):
    socket = connect(fake_server)
    try:
        socket.send_binary(b"{}")
        while (opcode := socket.recv_data()[0]) == websocket.ABNF.OPCODE_TEXT:
            pass
        assert opcode == websocket.ABNF.OPCODE_CLOSE
    finally:
        socket.shutdown()


def greeted(socket):
    """Whether a new page is taken in."""
    opcode, data = socket.recv_data()
    return opcode == websocket.ABNF.OPCODE_TEXT and json.loads(data)["type"] == "hello"


def test_a_page_that_sends_and_never_listens_keeps_no_other_waiting(fake_server):
    """Nor does it keep its place once it is gone without a word."""
    for _ in range(MAX_PAGES + 2):
        flooding = connect(fake_server)
        for _ in range(500):
            flooding.send('{"type": "nonsense"}')
        for _ in range(100):  # the server may not have noticed yet that the one before is gone
            other = connect(fake_server)
            if greeted(other):
                break
            other.shutdown()
            time.sleep(0.1)
        other.send('{"type": "nonsense"}')
        assert json.loads(other.recv())["type"] == "banner"
        other.shutdown()
        flooding.shutdown()


def test_the_socket_of_dash_is_closed_to_the_page_too(fake_server):
    with pytest.raises(websocket.WebSocketException):
        connect(fake_server, "_dash-ws-callback")


def test_no_page_that_loads_from_elsewhere_is_offered(fake_server):
    for path in ("/docs", "/redoc", "/openapi.json"):
        assert "cdn" not in get(fake_server, path)[2]


def test_names_and_origins():
    assert hostname("localhost:8050") == "localhost"
    assert hostname("[::1]:80") == "[::1]"
    assert hostname("a b") is None
    assert hostname(None) is None
    assert same_origin("http://127.0.0.1:8050", "127.0.0.1:8050")
    assert not same_origin("http://127.0.0.1:8051", "127.0.0.1:8050")
    assert not same_origin(None, "127.0.0.1:8050")
