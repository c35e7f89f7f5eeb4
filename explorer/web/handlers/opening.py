"""Files that are opened, one at a time: read, then used. What is refused leaves model and plan as they were."""

from __future__ import annotations

import time

from explorer.jobs.requests import LayTracesRequest, PlaceRequest, ReadRequest
from explorer.view.events import Event, OpenedEvent, before_you
from explorer.web.contract.messages import Controls, Plain, Pressed
from explorer.web.handlers.answering import drop_search, show_model, show_other
from explorer.web.handlers.jobs import drop, start
from explorer.web.handlers.known_plans import show_with_plan
from explorer.web.handlers.runs import show_run
from explorer.web.handlers.searching import GONE
from explorer.web.handlers.status import announce, banner, show_status, stand_as_before
from explorer.web.parts import panels, run_panel
from explorer.web.redraw.picture import colour_values
from explorer.web.state.page_state import PageState
from explorer.web.state.shelf import StoredFile


def expect_file(page: PageState, _: Plain) -> None:
    page.server.backend.expect_file()


def reopen(page: PageState, message: Pressed) -> None:
    """A file of before, by the name the server gave it."""
    file = page.server.shelf.get(message.element) if page.server.shelf is not None else None
    if file is None:
        _refuse(page, GONE)
    else:
        take(page, file)


def take(page: PageState, file: StoredFile) -> None:
    """A file has arrived: look at it, in a process of its own."""
    drop(page, page.reading)
    _read(page, ReadRequest(file.path, file.name), file, time.perf_counter())
    show_status(page, "loading", f"reading {file.name}", "", elapsed_s=0.0)


def _read(
    page: PageState, request: ReadRequest | PlaceRequest | LayTracesRequest, file: StoredFile, since: float
) -> None:
    page.reading = start(page, request, lambda event: _on_read(page, event, file, since))


def _refuse(page: PageState, words: str) -> None:
    """Nothing becomes of a file."""
    banner(page, panels.refused(words))
    if not page.searching:
        stand_as_before(page)


def _on_read(page: PageState, event: Event, file: StoredFile, since: float) -> None:
    """since: the time when the file arrived."""
    elapsed_s = time.perf_counter() - since
    match event["kind"]:
        case "waiting":
            show_status(page, "waiting", "waiting", before_you(event), elapsed_s=elapsed_s)
        case "loading":
            show_status(page, "loading", event["text"], "", elapsed_s=elapsed_s)
        case "opened":
            use(page, file, event, since)
        case "placed":
            _show_opened(page, file, "placement", event["view"]["words"])
            show_other(page, event["view"])
        case "ran":
            _show_opened(page, file, "traces", event["run"]["words"])
            show_with_plan(page, event["run"])
            show_run(page)
            announce(page, run_panel.run_in_a_line(event["run"]))
        case "failed":
            words = event["message"]
            if page.server.path(file.identifier) != file.path:
                words = GONE
            elif "process ended unexpectedly" in words:
                words = f"{file.name}: not read: it takes more than 60 s or more than 4 GiB of memory"
            _refuse(page, words)


def use(page: PageState, file: StoredFile, event: OpenedEvent, since: float = 0.0) -> None:
    """What a file holds takes the place of what the page had."""
    if event["what"] == "placement":
        _place(page, file, since)
        return
    if event["what"] == "values":
        _colour(page, file, event)
        return
    if event["what"] == "traces":
        _lay_over(page, file, since)
        return
    plan = event["plan"]
    controls = dict(plan["controls"]) if plan else {}
    if event["devices"]:
        controls["devices"] = event["devices"]
    _show_opened(page, file, event["what"], event["words"], controls, event["memory_bytes"])
    if event["skeleton"]:
        drop_search(page)
        show_model(page, event["skeleton"])
    if plan:
        show_other(page, plan, file.path)
    elif not page.searching:
        stand_as_before(page)


def _colour(page: PageState, file: StoredFile, event: OpenedEvent) -> None:
    """Numbers on operators: colours of the graph on the page, if it has any of them."""
    data = event["values"]
    assert data is not None
    known = {*page.skeleton["names"], *page.skeleton["modules"]} if page.skeleton is not None else set()
    inside = {".".join(parts[:i]) for parts in (name.split(".") for name in known) for i in range(1, len(parts) + 1)}
    if not data.values.keys() & (known | inside):
        of = page.skeleton["name"] if page.skeleton is not None else "a model: open one first"
        _refuse(page, f"{file.name}: none of its {len(data.values):,} names is an operator or module of {of}")
        return
    _show_opened(page, file, "values", event["words"])
    page.values = data
    colour_values(page)
    if not page.searching:
        stand_as_before(page)


def drop_values(page: PageState, _: Plain) -> None:
    page.values = None
    colour_values(page)


def _place(page: PageState, file: StoredFile, since: float) -> None:
    """Judge a placement made by hand on the page's model."""
    session = page.session
    if session is None:
        _refuse(page, f"{file.name}: a placement needs a model; open that first")
        return
    model, files = page.server.model_of(session), page.server.files_of(session)
    _read(page, PlaceRequest(model, session.settings, file.path, file.name, files), file, since)


def _lay_over(page: PageState, file: StoredFile, since: float) -> None:
    """Traces of a run elsewhere, over the plan on the page."""
    if page.source.known:
        _read(page, LayTracesRequest(page.source, file.path, file.name), file, since)
    else:
        _refuse(page, f"{file.name}: traces are laid over a finished plan; solve, or open the plan that ran, first")


def _show_opened(
    page: PageState,
    file: StoredFile,
    what: str,
    words: str,
    controls: Controls | None = None,
    memory_bytes: float | None = None,
) -> None:
    """The browser takes over what was opened, and asks for a plan if that changes its question. memory_bytes: what
    devices of a cluster have."""
    page.send(
        {
            "type": "opened",
            "what": what,
            "file": file.identifier,
            "name": file.name,
            "words": words,
            "memory_bytes": memory_bytes,
            "controls": controls or {},
        }
    )
