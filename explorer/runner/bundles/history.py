"""The runs that are kept in the default place, as a list: for the page's history and for ``runs``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from explorer.runner.bundles.bundle import KEPT, Bundle, bundle_folders, read_about, read_limited
from explorer.runner.bundles.outcome import RunStatus
from explorer.runner.bundles.places import runs_folder
from explorer.runner.bundles.words import one_line
from solvers.errors import InvalidProblem
from solvers.formats.json_fields import Field
from solvers.formats.json_text import parse_json

UNFINISHED = "unfinished"
"""The status of a run that has no outcome: it is still going on, or whoever asked for it was ended."""
MAX_SUMMARY_BYTES = 2**16


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


def past_runs(root: Path | None = None, limit: int = KEPT) -> list[PastRun]:
    """The newest ``limit`` runs, the newest first. Folders that are damaged are passed over."""
    found = []
    for folder in bundle_folders(runs_folder() if root is None else root):
        if len(found) == limit:
            break
        try:
            found.append(_read(folder))
        except InvalidProblem:
            continue
    return found


def find_run(identifier: str, root: Path | None = None) -> PastRun:
    """The run of that id. Raises InvalidProblem if there is none: an id is a name, never a path."""
    place = runs_folder() if root is None else root
    if identifier not in [folder.name for folder in bundle_folders(place)]:
        raise InvalidProblem(f"no run {identifier[:100]!r} in {place}; `placement-explorer runs` lists them")
    return _read(place / identifier)


def _read(folder: Path) -> PastRun:
    about = read_about(folder)
    status, reason, iteration_s = _read_summary(Bundle(folder))
    return PastRun(
        folder.name,
        folder,
        one_line(about.model),
        about.target,
        about.ranks,
        about.created,
        status,
        reason,
        iteration_s,
        about.predicted_s,
    )


def _read_summary(bundle: Bundle) -> tuple[str, str, float | None]:
    """Status, reason and median iteration; a summary that is not there or not whole is no outcome."""
    if not bundle.summary.is_file():
        return UNFINISHED, "", None
    try:
        value = parse_json(read_limited(bundle.summary, MAX_SUMMARY_BYTES), str(bundle.summary))
        parts = Field(value, f"{bundle.summary}:").fields(("status", "reason", "iteration_s"))
        iteration = parts["iteration_s"]
        return (
            parts["status"].choice(RunStatus).value,
            one_line(parts["reason"].text()),
            None if iteration.is_null else iteration.number(),
        )
    except InvalidProblem:
        return UNFINISHED, "", None
