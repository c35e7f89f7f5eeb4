"""What a browser says is data from outside: what is not understood is not answered."""

from __future__ import annotations

import pytest

from explorer.notebook.messages import CHECKS, SETTABLE, checked_message, value_of
from explorer.notebook.widget import QUESTION_TRAITS, PlacementWidget
from tests.notebook.fakes.worker import drawn, receive


@pytest.mark.parametrize(
    "content",
    [
        None, 3, "solve", [], {}, {"type": None}, {"type": ["set"]}, {"type": "__init__"}, {"type": "close"},
        {"type": "set"}, {"type": "set", "name": "problem", "value": "x"}, {"type": "set", "name": "pins", "value": 3},
        {"type": "set", "name": "cluster", "value": "/etc/passwd"}, {"type": "set", "name": "profile", "value": "/x"},
        {"type": "set", "name": "devices", "value": None}, {"type": "set", "name": "devices", "value": [4]},
        {"type": "set", "name": "memory", "value": float("nan")}, {"type": "set", "name": "memory", "value": 10**400},
        {"type": "set", "name": "memory", "value": "9" * 401}, {"type": "select", "kind": "everything", "id": ""},
        {"type": "select", "kind": "box", "id": "x" * 401}, {"type": "select", "kind": "box", "id": 3},
        {"type": "expand"}, {"type": "depth", "step": 7}, {"type": "find", "text": "x" * 81},
        {"type": "window", "from": 1.0, "to": 0.0}, {"type": "window", "from": "0", "to": 1},
        {"type": "window", "from": 0, "to": float("inf")}, {"type": "view", "rows": "columns"},
        {"type": "view", "path": "yes"}, {"type": "theme", "theme": "url(x)"}, {"type": "pin", "device": "-1"},
        {"type": "canvas"}, {"type": "canvas", "width": "600", "height": 300},
        {"type": "canvas", "width": 0, "height": 0},
        {"type": "canvas", "width": 600, "height": 10**400}, {"type": "canvas", "width": 1e9, "height": 300},
        {"type": "pin", "device": "²"}, {"type": "pin", "device": 1}, {"type": "pin", "device": "12345"},
    ],
)  # fmt: skip
def test_what_makes_no_sense_changes_nothing(widget, content):
    widget.listed.answer()
    before, count = drawn(widget), len(widget.listed.requests)
    assert checked_message(content) is None
    receive(widget, content)
    assert drawn(widget) == before
    assert len(widget.listed.requests) == count


@pytest.mark.parametrize(
    "content",
    [
        {"type": "select", "kind": "box", "id": "m:nowhere"}, {"type": "select", "kind": "stage", "id": "99"},
        {"type": "select", "kind": "device", "id": "9" * 30}, {"type": "select", "kind": "operator", "id": "__class__"},
        {"type": "expand", "element": "m:nowhere"}, {"type": "collapse", "element": "o:0"},
        {"type": "pin", "device": "1"},
    ],
)  # fmt: skip
def test_what_is_not_there_any_more_is_nothing(widget, content):
    widget.listed.answer()
    receive(widget, content)
    assert widget.selection is None
    assert widget.pins == {}


@pytest.mark.parametrize(
    ("name", "typed", "value"),
    [
        ("devices", " 8 ", 8), ("devices", "8.5", "8.5"), ("devices", "many", "many"), ("micro_batches", "", None),
        ("micro_batches", "auto", None), ("mini_batch", "128", 128), ("memory", "", None), ("memory", "16GiB", "16GiB"),
        ("objective", "", None), ("time_limit_s", "2.5", 2.5), ("recompute", True, True), ("planner", "auto", "auto"),
        ("devices", "9" * 5000, "9" * 5000),
    ],
)  # fmt: skip
def test_what_is_typed_becomes_a_value_of_its_trait(name, typed, value):
    parsed = value_of(name, typed)
    assert parsed == value or (name == "devices" and parsed != parsed.__class__())


def test_every_message_has_an_answer():
    assert [kind for kind in CHECKS if not callable(getattr(PlacementWidget, f"_on_{kind}", None))] == []
    assert [name for name in (*SETTABLE, *QUESTION_TRAITS) if name not in PlacementWidget.class_trait_names()] == []


def test_a_browser_cannot_write_the_traits_that_are_drawn(widget):
    """The protocol of widgets lets a browser send state; nothing that Python believes is among it."""
    widget.listed.answer()
    plan, cluster = widget.result, widget.cluster
    widget.set_state({"cluster": "c.yaml", "result": None, "problem": None, "pins": {"x": 1}, "status": "optimal!"})
    assert (widget.result, widget.cluster, widget.pins) == (plan, cluster, {})
