"""Whatever a page sends, it is answered by an error and its conversation goes on, or ends; the server says nothing of
a traceback (`tests.browser.conftest.serve` looks)."""

from __future__ import annotations

import json
import struct

import pytest

from tests.browser.serving.connecting import connect, websocket

HUGE = 10**400
ABSURD = [
    {"devices": HUGE},
    {"devices": -HUGE},
    {"devices": 1e300},
    {"devices": "9" * 5000},
    {"devices": True},
    {"devices": [4]},
    {"memory": "1e400"},
    {"memory": "nan,nan"},
    {"memory": {}},
    {"mini_batch": HUGE},
    {"micro_batches": "\u0663" * 9},
    {"time_limit": HUGE},
    {"time_limit": "nan"},
    {"time_limit": -1},
    {"seed": 2**400},
    {"bandwidth": "inf"},
    {"latency": HUGE},
    {"model": "../../etc/passwd"},
    {"model": "os:system"},
    {"model": ["chain"]},
    {"model": "file-" + "0" * 24},
    {"planner": {"a": 1}},
    {"pair": "a" * 5000},
    {"pins": {"a": HUGE}},
]
UNKNOWN = [{}, {"type": None}, {"type": ["solve"]}, {"type": "__class__"}, {"type": "x" * 9000}, {"kind": "solve"}]
ODD = [
    {"type": "solve", "session": "x"},
    {"type": "solve", "session": {"model": "chain"}, "canvas": [HUGE, -1]},
    {"type": "window", "from": HUGE, "to": 1},
    {"type": "window", "from": "a", "to": None},
    {"type": "expand", "element": {"a": HUGE}},
    {"type": "select", "kind": "operator", "id": "9" * 300},
    {"type": "select", "kind": "device", "id": HUGE},
    {"type": "open", "shown": ["x" * 9000, HUGE]},
    {"type": "show-row", "element": "\u0663"},
    {"type": "run", "target": "fake", "steps": HUGE},
    {"type": "show-run", "element": "../../../etc"},
    {"type": "reopen", "element": HUGE},
    {"type": "export", "format": HUGE},
    {"type": "sweep", "axis": HUGE},
    {"type": "find", "text": HUGE},
    {"type": "rename", "element": HUGE, "name": HUGE},
    {"type": "depth", "step": HUGE},
    {"type": "waits", "step": HUGE},
    {"type": "lesson", "name": HUGE, "step": HUGE},
    {"type": "theme", "theme": {"a": HUGE}},
]


def sent(message: object) -> str:
    """JSON of numbers that Python itself does not write."""
    return json.dumps(message)


def answers(page, until):
    """What the page is sent, up to the first message that ``until`` holds for."""
    messages = []
    while not (messages and until(messages[-1])):
        messages.append(json.loads(page.recv()))
    return messages


@pytest.fixture
def page(fake_server):
    opened = connect(fake_server)
    assert json.loads(opened.recv())["type"] == "hello"
    yield opened
    opened.shutdown()


def is_banner(message):
    return message["type"] == "banner"


@pytest.mark.parametrize("changed", ABSURD, ids=lambda changed: sent(changed)[:40])
def test_an_absurd_value_is_answered_by_an_error(page, changed):
    page.send(sent({"type": "solve", "session": {"model": "chain", **changed}}))
    shown = answers(page, is_banner)[-1]
    assert len(json.dumps(shown)) < 2000
    page.send('{"type": "solve", "session": {"model": "chain"}}')
    answers(page, lambda message: message.get("state") == "optimal")


@pytest.mark.parametrize("message", UNKNOWN, ids=lambda message: sent(message)[:30])
def test_an_unknown_message_is_answered_by_an_error(page, message):
    page.send(sent(message))
    assert "does not know" in json.dumps(answers(page, is_banner)[-1])


def test_odd_messages_leave_the_conversation_as_it_was(page):
    for with_plan in (False, True):
        if with_plan:
            page.send('{"type": "solve", "session": {"model": "chain"}}')
            answers(page, lambda message: message.get("state") == "optimal")
        for message in ODD:
            page.send(sent(message))
        page.send('{"type": "nobody knows this"}')
        answers(page, lambda message: is_banner(message) and "does not know" in json.dumps(message))


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ((b"\x00\x01", websocket.ABNF.OPCODE_BINARY), 1003),
        ((b"", websocket.ABNF.OPCODE_BINARY), 1003),
        ((b"[1]", websocket.ABNF.OPCODE_TEXT), 1009),
        ((b"{", websocket.ABNF.OPCODE_TEXT), 1009),
        ((b"[" * 9000, websocket.ABNF.OPCODE_TEXT), 1009),
        ((b'{"a":' * 3000, websocket.ABNF.OPCODE_TEXT), 1009),
        ((b"x" * 20_000, websocket.ABNF.OPCODE_TEXT), 1009),
        ((b"x" * 200_000, websocket.ABNF.OPCODE_TEXT), 1009),
        ((b'{"devices": ' + b"9" * 9000 + b"}", websocket.ABNF.OPCODE_TEXT), 1009),
        ((b"\xff\xfe", websocket.ABNF.OPCODE_TEXT), 1007),
    ],
)
def test_what_is_no_message_ends_the_conversation_and_says_so(page, frame, code):
    page.send(*frame)
    shown = page.recv_frame()
    assert shown.opcode == websocket.ABNF.OPCODE_CLOSE
    assert struct.unpack("!H", shown.data[:2])[0] == code


def test_a_message_in_pieces_without_end_ends_the_conversation(page):
    with pytest.raises((OSError, websocket.WebSocketException)):
        go_on_for_ever(page)


def go_on_for_ever(page):
    """As far as the server listens: it hangs up."""
    page.send_frame(websocket.ABNF.create_frame(b"y", websocket.ABNF.OPCODE_TEXT, 0))
    for _ in range(2000):
        page.send_frame(websocket.ABNF.create_frame(b"y" * 4096, websocket.ABNF.OPCODE_CONT, 0))
    while True:
        page.recv_frame()
