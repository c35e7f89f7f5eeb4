"""Lay traces of a run elsewhere over a plan: they are somebody's files, read where such files are read."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from explorer.jobs.held_plans import file_from, text_of
from explorer.jobs.read_kind import plainly
from explorer.jobs.requests import Emit, LayTracesRequest
from explorer.jobs.run_kinds import view_of
from explorer.measured.traces import traced_outcome
from explorer.view import events, run_events
from explorer.view.plan_types import RunView
from explorer.words import text
from solvers.errors import InvalidProblem, PlacementError


def lay_traces_job(request: LayTracesRequest, emit: Emit, should_stop: Callable[[], bool]) -> None:
    """Emit what a run of the plan would: its ``ran`` event, with the text of the plan; there is no bundle. Raises
    InvalidProblem in one line that calls the file by its name."""
    emit(events.loading(f"laying {request.name} over the plan"))
    file = file_from(request.plan)
    try:
        outcome = traced_outcome(file.problem, file.plan, request.path)
        view = view_of(f"traces-{secrets.token_hex(8)}", file, outcome, str)
    except PlacementError as error:
        raise InvalidProblem(plainly(str(error), request.path, request.name)) from None
    except OSError as error:  # it had to make room for others
        raise InvalidProblem(f"{request.name}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    run: RunView = {
        **view, "bundle": "", "target": "", "when": "", "log": [], "folder": "", "command": "", "text": text_of(file),
        "words": f"plan of {text.short(request.name, 40)}",
    }  # fmt: skip
    emit(run_events.ran(run))
