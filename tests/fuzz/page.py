"""A page that sends anything: the conversation behind the websocket, with a plan on the page and without."""

from __future__ import annotations

import json
from typing import Any

from explorer.view import events
from explorer.web.contract.messages import Outgoing
from explorer.web.serving.live import decoded, encode
from solvers.formats.workload import Workload
from tests.browser.test_conversation import CHOICES, Recorder, result
from tests.explorer.view.lessons.written import read
from tests.explorer.view.small import chain_workload
from tests.explorer.web.pages import OpenPage
from tests.fuzz.shown import check_texts

SESSION = {
    "model": "chain", "devices": 4, "memory": "16000000000", "planner": "auto", "time_limit": 5, "seed": 1,
    "device_kind": "toy", "mini_batch": 64, "micro_batches": 8, "pins": "", "theme": "light", "pair": "auto,single",
}  # fmt: skip
MESSAGES: tuple[dict[str, Any], ...] = (
    {"type": "solve", "session": SESSION, "canvas": [800, 600], "fresh": True},
    {"type": "compare", "session": SESSION, "every": True},
    {"type": "theme", "theme": "dark"},
    {"type": "view", "graph": "modules", "rows": "stages", "path": True, "link_rows": "all"},
    {"type": "window", "from": 0.1, "to": 0.4},
    {"type": "select", "kind": "operator", "id": "3"},
    {"type": "find", "text": "block"},
    {"type": "open", "shown": ["m0", "m1"]},
    {"type": "run", "target": "local", "steps": 5, "verify": True},
    {"type": "export", "what": "png", "format": "png"},
    {"type": "lesson", "lesson": "two-devices", "step": 1},
    {"type": "sweep", "element": "devices"},
    {"type": "why-here", "element": "3"},
    {"type": "pin", "element": "3", "device": 1},
)
WITHOUT_FIELDS = (
    "cancel", "depth", "expand", "collapse", "stop-comparing", "show-row", "pair", "unpair", "show-pair", "run-target",
    "run-anyway", "plan-here", "cancel-run", "show-run", "replan", "opening", "reopen", "show-lean", "together", "keep",
    "forget", "rename", "as-baseline", "differ", "share", "same", "help", "stop-help", "go-help", "go-way",
    "stop-sweep", "go-sweep", "leave-lesson", "course", "waits", "stop-why-here", "nothing-known",
)  # fmt: skip
SAMPLES: tuple[dict[str, Any], ...] = (
    *MESSAGES,
    *(
        {"type": kind, "element": "1", "name": "x", "step": 1, "id": "3", "key": "devices", "value": 2}
        for kind in WITHOUT_FIELDS
    ),
)
LOOKS: tuple[dict[str, Any], ...] = (
    {"type": "select", "kind": "operator", "id": "0"},
    {"type": "find", "text": "a"},
    {"type": "keep"},
    {"type": "view", "graph": "modules", "rows": "stages", "path": True, "link_rows": "all"},
    {"type": "theme", "theme": "dark"},
)
"""What is done with a plan on the page that has names in its answer."""


class Backend(Recorder):
    """Knows of no runs."""

    def past_runs(self, model: str) -> list[object]:
        return []

    def may_run(self, model: str) -> bool:
        return True


def send(data: bytes) -> None:
    """Send it to a fresh page and to one that shows a plan; all answers must be messages that can be sent, of text that
    can be shown."""
    message = decoded(data.decode("utf-8", "replace"))
    if message is None:
        return
    for shows in (False, True):
        page = OpenPage(Backend(), CHOICES, lessons=(read(),))
        if shows:
            _answered(page, chain_workload(), result())
        page.receive(message)
        _check(page.sent)
        page.close()


def drawn(workload: Workload, ended: events.Event) -> None:
    """Show a model and the end of its search on a page, with what is opened of it."""
    page = OpenPage(Backend(), CHOICES, lessons=(read(),))
    _answered(page, workload, ended)
    for message in LOOKS:
        page.receive(dict(message))
    _check(page.sent)
    page.close()


def _answered(page: OpenPage, workload: Workload, ended: events.Event) -> None:
    page.receive({"type": "solve", "session": {"model": "chain"}})
    page.on_event(page.turn, events.model(workload))
    page.on_event(page.turn, ended)


def _check(sent: list[Outgoing]) -> None:
    for message in sent:
        check_texts(json.loads(encode(message)))
