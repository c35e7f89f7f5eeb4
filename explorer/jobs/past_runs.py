"""The runs of a model that are kept, as a page lists them."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from explorer.runner.bundles import history
from explorer.runner.bundles.bundle import MARKER
from explorer.runner.bundles.outcome import RunStatus
from explorer.view.run_events import PastRun, local_time
from solvers.errors import InvalidProblem
from solvers.formats.json_text import file_bytes

MOST = 40
"""Runs listed."""
MAX_PLAN_BYTES = 2**27
_PLANNER = re.compile(rb'"planner":\s*"([A-Za-z0-9:=,._-]{1,80})"')


def past_runs(model: str, most: int = MOST) -> list[PastRun]:
    """The newest ``most`` runs of a model, the newest first."""
    runs = [run for run in history.past_runs() if run.model == model and "-calibrate-" not in run.id]
    runs.sort(key=lambda run: (run.created, _made_ns(run.folder)), reverse=True)
    return [
        PastRun(
            run.id,
            local_time(run.created) or run.created,
            run.target,
            _planner(run.folder),
            run.predicted_s,
            run.iteration_s,
            run.status == RunStatus.DONE,
            run.status,
        )
        for run in runs[:most]
    ]


def _made_ns(folder: Path) -> int:
    """When a bundle was made: two of one second differ by this."""
    try:
        return (folder / MARKER).stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=512)
def _planner(folder: Path) -> str:
    """The planner that a plan file names, looked for as text: the file may be large, and this is a list."""
    try:
        match = _PLANNER.search(file_bytes(folder / "plan.json", MAX_PLAN_BYTES))
    except InvalidProblem:
        return ""
    return match[1].decode() if match else ""
