"""The messages between browser and server: the scripts send and read what `explorer.web.contract.messages` has, and
nothing that is hostile gets through."""

from __future__ import annotations

from types import NoneType
from typing import get_args, get_type_hints

import pytest

from explorer.web.contract import messages
from explorer.web.contract.messages import INCOMING, MAX_TEXT, Outgoing, Plain, Pressed, read
from explorer.web.handlers.table import HANDLERS
from explorer.web.state.page_state import PageState
from tests.explorer.web import scripts

OUTGOING = {get_args(get_type_hints(shape)["type"])[0]: shape for shape in get_args(Outgoing)}


def fields(kind: str) -> set[str]:
    """Of a message of the browser, as that writes them."""
    return {field.alias or name for name, field in INCOMING[kind].model_fields.items()} - {"type"}


def test_scripts_send_only_what_the_server_knows():
    messages = list(scripts.sent())
    assert len(messages) > 40
    for kind, keys in messages:
        assert kind in INCOMING, kind
        assert keys <= fields(kind), kind


def test_buttons_send_only_what_the_server_knows():
    assert {"expand", "show-row", "export"} <= scripts.acts()
    for act in scripts.acts() - scripts.local_acts():
        assert INCOMING[act] in (Plain, Pressed), act


def test_every_message_that_the_server_knows_is_sent_by_somebody():
    written = {kind for kind, _ in scripts.sent()} | scripts.acts()
    assert set(INCOMING) <= written | {"view"}


def test_scripts_act_on_every_message_of_the_server_and_read_only_what_it_has():
    received = scripts.received()
    assert set(received) == set(OUTGOING)
    for kind, read_fields in received.items():
        shape = OUTGOING[kind]
        assert read_fields <= shape.__required_keys__ | shape.__optional_keys__, kind
    assert {"curve", "running"} <= received["search"]
    assert {"figure", "reason", "nodes", "memory"} <= received["plan"]


@pytest.mark.parametrize(
    ("script", "now", "wrong"),
    [
        ("plans/pins.js", 'type: "pin"', 'type: "pinn"'),
        ("plans/pins.js", "device: device", "gpu: device"),
        ("plans/sweep.js", "sweep.points", "sweep.spots"),
        ("shared/find.js", "message.matches", "message.found"),
        ("time/page.js", "ex.on.course", "ex.on.curse"),
    ],
)
def test_a_script_with_another_name_is_noticed(monkeypatch, script, now, wrong):
    whole = dict(scripts.scripts())
    assert now in whole[script]
    monkeypatch.setattr(scripts, "scripts", lambda: whole | {script: whole[script].replace(now, wrong)})
    with pytest.raises(AssertionError):
        _compare_scripts_with_the_server()


def _compare_scripts_with_the_server():
    test_scripts_send_only_what_the_server_knows()
    test_scripts_act_on_every_message_of_the_server_and_read_only_what_it_has()


def test_every_message_has_a_handler_that_takes_its_shape():
    assert set(HANDLERS) == set(INCOMING)
    for kind, handler in HANDLERS.items():
        state, message, returns = get_type_hints(handler).values()
        assert (state, message, returns) == (PageState, INCOMING[kind], NoneType), kind


def test_what_is_no_message_is_none():
    for raw in ({}, {"type": None}, {"type": ["solve"]}, {"type": "__class__"}, {"kind": "solve"}):
        assert read(raw) is None


@pytest.mark.parametrize(
    ("raw", "field", "value"),
    [
        ({"type": "pin", "device": 2}, "device", 2),
        ({"type": "pin", "device": None}, "device", None),
        ({"type": "pin", "device": True}, "device", -1),
        ({"type": "pin", "device": "2"}, "device", -1),
        ({"type": "expand", "element": {"a": 1}}, "element", ""),
        ({"type": "expand", "element": "m" * 9000}, "element", "m" * MAX_TEXT),
        ({"type": "solve", "session": "x"}, "session", {}),
        ({"type": "solve", "canvas": [800, 600]}, "canvas", [800, 600]),
        ({"type": "solve", "canvas": [800, -1]}, "canvas", None),
        ({"type": "solve", "canvas": [10**400, 600]}, "canvas", None),
        ({"type": "solve", "canvas": [800, 600, 1]}, "canvas", None),
        ({"type": "solve", "fresh": 1}, "fresh", False),
        ({"type": "theme", "theme": 7}, "theme", "light"),
        ({"type": "depth", "step": "up"}, "step", -1),
        ({"type": "waits", "at_s": float("nan")}, "at_s", None),
        ({"type": "waits", "at_s": 10**400}, "at_s", None),
        ({"type": "window", "from": 0.5, "to": "1"}, "start", 0.5),
        ({"type": "window", "from": 0.5, "to": "1"}, "end", None),
        ({"type": "open", "shown": ["run", 3]}, "shown", []),
        ({"type": "same", "plan": "0123456789abcdef"}, "plan", "0123456789abcdef"),
        ({"type": "same", "plan": "0123456789ABCDEF\n"}, "plan", None),
    ],
    ids=str,
)
def test_a_field_that_is_not_of_its_type_or_beyond_its_limits_has_its_default(raw, field, value):
    assert getattr(read(raw), field) == value


@pytest.mark.parametrize(
    ("element", "place"), [("0", 0), ("2", 2), ("3", None), ("-1", None), ("²", None), ("٣", None), ("", None)]
)
def test_a_number_that_is_pressed_is_one_of_those_there_are(element, place):
    message = read({"type": "show-row", "element": element})
    assert isinstance(message, Pressed)
    assert message.position(3) == place


def test_messages_are_never_changed():
    with pytest.raises(ValueError, match="frozen"):
        read({"type": "pin", "device": 2}).device = 3
    assert messages.Message.model_config["strict"]
