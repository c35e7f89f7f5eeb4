"""What a widget explains about its plan: in the same words as the page and the shell."""

from __future__ import annotations

import threading

import pytest

from explorer.notebook.explanations import Beside
from tests.notebook.fakes.worker import receive

PATIENCE_S = 30.0


@pytest.fixture
def sent(widget, monkeypatch):
    """What the widget sends, as it comes: (list, wait for so many)."""
    messages, came = [], threading.Condition()

    def send(message):
        with came:
            messages.append(message)
            came.notify_all()

    monkeypatch.setattr(widget, "_beside", Beside(send))

    def wait(count):
        with came:
            assert came.wait_for(lambda: len(messages) >= count, PATIENCE_S)
        return messages

    return wait


def test_why_here_tells_every_place_and_the_edges_of_the_stage(widget, sent):
    widget.listed.answer()
    widget.selection = "stage 1"
    receive(widget, {"type": "elsewhere"})
    rows = sent(1)[0]["rows"]
    assert sum(row["here"] for row in rows) == 1
    assert len([row for row in rows if not row["edge"]]) == 4
    assert all(row["delta"] for row in rows)


def test_a_review_and_a_difference_are_those_of_the_shell(widget, sent):
    first = widget.listed.answer()
    receive(widget, {"type": "review"})
    shown = sent(1)[0]
    assert shown["type"] == "review"
    assert {"rules"} <= {line["what"] for line in shown["lines"]} or shown["lines"]
    assert shown["verdict"] in ("pass", "warn", "fail")
    receive(widget, {"type": "differ"})  # nothing is kept yet
    receive(widget, {"type": "keep"})
    assert sent(2)[1]["words"].startswith("Kept: ")
    widget.micro_batches = 2
    widget.listed.answer()
    receive(widget, {"type": "differ"})
    lines = sent(3)[2]["lines"]
    assert any(line.startswith("asked") and "micro" in line for line in lines)
    assert first.plan is not None


def test_nothing_is_sent_where_there_is_no_plan(widget, sent):
    for what in ("elsewhere", "review", "keep", "differ"):
        receive(widget, {"type": what})
    widget.listed.answer()
    receive(widget, {"type": "elsewhere"})  # nothing is selected
    receive(widget, {"type": "review"})
    assert [message["type"] for message in sent(1)] == ["review"]
