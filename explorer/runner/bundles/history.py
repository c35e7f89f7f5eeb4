"""The runs that are kept in the default place, as a list: for the page's history and for ``runs``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from explorer.runner.bundles.bundle import MOST_RUNS, bundle_folders, read_about, read_summary, runs_folder
from explorer.runner.bundles.words import one_line
from solvers.errors import InvalidProblem

UNFINISHED = "unfinished"
"""The status of a run that has no outcome: it is still going on, or the process that started it is gone."""


@dataclass(frozen=True, slots=True)
class PastRun:
    """One run. id: the name of its folder. status: a `RunStatus`, or UNFINISHED. iteration_s: the median
    measured; predicted_s: what the plan promised; None where there is none. created: as in `About`."""

    id: str
    folder: Path
    model: str
    target: str
    ranks: int
    created: str
    status: str
    reason: str
    iteration_s: float | None
    predicted_s: float | None


def past_runs(root: Path | None = None, limit: int = MOST_RUNS) -> list[PastRun]:
    """The newest ``limit`` runs, the newest first. Folders that are damaged are passed over."""
    runs: list[PastRun] = []
    for folder in bundle_folders(runs_folder() if root is None else root):
        if len(runs) == limit:
            break
        try:
            runs.append(_read(folder))
        except InvalidProblem:
            continue
    return runs


def find_run(identifier: str, root: Path | None = None) -> PastRun:
    """The run of that id. Raises InvalidProblem if there is none: an id is a name, never a path."""
    root_folder = runs_folder() if root is None else root
    if identifier not in [folder.name for folder in bundle_folders(root_folder)]:
        raise InvalidProblem(f"no run {identifier[:100]!r} in {root_folder}; `placement-explorer runs` lists them")
    return _read(root_folder / identifier)


def _read(folder: Path) -> PastRun:
    about = read_about(folder)
    try:
        summary = read_summary(folder)
        status, reason, iteration_s = summary.status.value, summary.reason, summary.iteration_s
    except InvalidProblem:  # a summary that is not there or not whole is no outcome
        status, reason, iteration_s = UNFINISHED, "", None
    return PastRun(
        folder.name, folder, one_line(about.model), about.target, about.ranks, about.created, status, reason,
        iteration_s, about.predicted_s,
    )  # fmt: skip
