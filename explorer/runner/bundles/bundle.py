"""A bundle: the folder of one run, with all that is needed to do it again and what came of it.

    plan.json  request.json  bundle.json   what is run, how, and where it was pushed to
    run.sh  run.env  requirements.txt      the same again by hand, here or elsewhere (`by_hand`)
    log.txt  result.json                   what the processes printed, and the outcome
    summary.json                           the outcome in a few numbers, for a list of runs
    failure-<rank>.json                    what a rank failed with
    tensors-<rank>.npz                     gradients and parameters of one iteration, where they were asked for

Nothing in it is secret: tokens of targets are never written there.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated

from explorer.files import NotWritten, write_file
from explorer.runner.bundles import heartbeats, reproduce
from explorer.runner.bundles.outcome import MAX_RANKS, Outcome, RunStatus
from explorer.runner.bundles.request import RunRequest, read_request, request_json
from explorer.runner.bundles.result_json import read_outcome, write_outcome
from explorer.runner.bundles.words import Words
from explorer.runner.scripts.executable import processes
from solvers.errors import InvalidProblem, RunError
from solvers.formats.graph_json import read_header
from solvers.formats.json_fields import Field
from solvers.formats.json_text import dump_json, file_bytes, parse_json
from solvers.formats.plan_json import PlanFile, read_plan
from solvers.formats.records import STATED, Within, keys_of, read_record, record_json, record_of
from solvers.problem.problem import Objective

FORMAT = "placement-explorer/bundle"
VERSION = 1
MOST_RUNS = 200
"""Runs kept in the default place; older ones are removed."""

MARKER = "bundle.json"
_OWN = re.compile(
    r"((plan|request|bundle|result|summary|profile|failure-\d{1,5})\.json|run\.(sh|env)|requirements\.txt|tensors-\d{1,5}\.npz)((\.[0-9a-f]{8})?\.part)?|log\.txt"
)
"""What a bundle is made of. A folder that holds anything else is nobody's to remove."""


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """$PLACEMENT_EXPLORER_HOME, else placement-explorer in $XDG_STATE_HOME (~/.local/state). It may not exist."""
    if home := environ.get("PLACEMENT_EXPLORER_HOME"):
        return Path(home).expanduser().absolute()
    base = environ.get("XDG_STATE_HOME")
    return (Path(base).absolute() if base else Path.home() / ".local" / "state") / "placement-explorer"


def runs_folder(environ: Mapping[str, str] = os.environ) -> Path:
    return state_folder(environ) / "runs"


class Part:
    """A file of a bundle."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, bundle: Bundle, owner: type[Bundle]) -> Path:
        return bundle.folder / self.name


@dataclass(frozen=True, slots=True)
class Bundle:
    """The places of a bundle's parts; which of them are there depends on how far the run is."""

    folder: Path
    plan = Part("plan.json")
    request = Part("request.json")
    marker = Part(MARKER)
    script = Part("run.sh")
    variables = Part("run.env")
    requirements = Part("requirements.txt")
    log = Part("log.txt")
    result = Part("result.json")
    summary = Part("summary.json")

    def failure(self, rank: int) -> Path:
        return self.folder / f"failure-{rank}.json"


@dataclass(frozen=True, slots=True)
class About:
    """What bundle.json says. created: UTC, "2026-11-21T16:07:42Z". predicted_s: of an iteration, if known."""

    model: str
    target: Annotated[str, Within(most=200)]
    ranks: Annotated[int, Within(1, MAX_RANKS)]
    created: Annotated[str, Within(most=40)]
    predicted_s: Annotated[float | None, STATED] = None


@dataclass(frozen=True, slots=True)
class Summary:
    """What summary.json says. iteration_s: the median measured, None where none was."""

    status: RunStatus
    reason: Words
    iteration_s: float | None


def new_folder(model: str, environ: Mapping[str, str] = os.environ) -> Path:
    """A place for a new bundle among the others: <UTC time>-<model>-<short id>. Nothing is made there."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", re.split(r"[/\\]", model)[-1])[:40].strip("-") or "plan"
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return runs_folder(environ) / f"{moment}-{name}-{secrets.token_hex(3)}"


def write_bundle(
    folder: Path, plan_text: str, request: RunRequest, target_name: str, *, predicted_s: float | None = None
) -> Bundle:
    """Make the folder, which must not be there yet or be empty, and fill it with what is to be run.

    Raises InvalidProblem or InvalidPlan if ``plan_text`` is no plan, RunError if there is something already.
    """
    file = read_plan(plan_text)
    bundle = Bundle(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        if any(folder.iterdir()):
            raise RunError(f"{folder}: is not empty; a bundle needs a folder of its own")
        ranks = processes(file.problem, file.plan)
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        about = About(file.reference, target_name, ranks, created, predicted_s)
        doing = "preparing the run"
        write_file(bundle.marker, dump_json({"format": FORMAT, "version": VERSION, **record_json(about)}), doing)
        write_file(bundle.plan, plan_text, doing)
        write_file(bundle.request, dump_json(request_json(request), indent=2) + "\n", doing)
        write_file(bundle.variables, reproduce.variables(request.threads), doing)
        write_file(bundle.requirements, reproduce.requirements(), doing)
        script = reproduce.script(about.model, about.target, ranks, created)
        write_file(bundle.script, script, doing, mode=0o700)
    except NotWritten as error:
        raise RunError(str(error)) from None
    except OSError as error:
        raise RunError(
            f"{folder}: a bundle cannot be written there: {(error.strerror or str(error)).lower()}"
        ) from None
    return bundle


def predicted_s(file: PlanFile, *, engine: bool = True) -> float:
    """Seconds that an iteration of what runs is expected to take (one pass, if the plan is for that); with ``engine``,
    its own time included where it was measured."""
    from explorer.runner.scripts.with_engine import with_engine
    from solvers.evaluation.simulation import simulate

    single = file.problem.objective is Objective.MAKESPAN
    problem = with_engine(file.problem, file.plan) if engine else file.problem
    return simulate(problem, file.plan, Objective.MAKESPAN if single else Objective.ITERATION).makespan_s


def read_bundle(folder: Path) -> tuple[str, RunRequest]:
    """The text of the plan, and the request. Raises InvalidProblem."""
    bundle = Bundle(folder)
    request = read_request(parse_json(file_bytes(bundle.request, 2**20), str(bundle.request)))
    try:
        return file_bytes(bundle.plan).decode("utf-8"), request
    except UnicodeDecodeError as error:
        raise InvalidProblem(f"{bundle.plan}: not UTF-8 text (byte {error.start})") from None


def read_about(folder: Path) -> About:
    """What bundle.json says. Raises InvalidProblem."""
    path = folder / MARKER
    value = Field(parse_json(file_bytes(path, 2**16), str(path)), f"{path}:")
    return record_of(About, read_header(value, FORMAT, VERSION, *keys_of(About)))


def read_summary(folder: Path) -> Summary:
    """What summary.json says. Raises InvalidProblem."""
    path = Bundle(folder).summary
    return read_record(Field(parse_json(file_bytes(path, 2**16), str(path)), f"{path}:"), Summary)


def finish_bundle(bundle: Bundle, outcome: Outcome) -> None:
    """Write result.json and summary.json: the end of a run, whichever way it ended. Of the runs in the default
    place, the oldest are then removed. Raises RunError."""
    middle = median(outcome.iterations_s) if outcome.iterations_s else None
    summary = Summary(outcome.status, outcome.reason[:1000], middle)
    try:
        write_outcome(bundle.result, outcome)
        write_file(bundle.summary, dump_json(record_json(summary)), "saving the result of the run")
    except NotWritten as error:
        raise RunError(str(error)) from None
    if bundle.folder.parent == runs_folder():
        prune(bundle.folder.parent)


def clear_results(bundle: Bundle) -> None:
    """Remove what an earlier run of the same bundle left. Raises RunError."""
    heartbeats.clear(bundle.folder)
    left = [bundle.result, bundle.summary, *bundle.folder.glob("failure-*.json"), *bundle.folder.glob("tensors-*.npz")]
    try:
        for path in left:
            path.unlink(missing_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise RunError(f"{bundle.folder}: an earlier result cannot be removed: {reason}") from None


def read_result(bundle: Bundle) -> Outcome:
    """Raises InvalidProblem if there is none, or a damaged one."""
    return read_outcome(file_bytes(bundle.result), str(bundle.result))


def bundle_folders(root: Path) -> list[Path]:
    """The bundles in ``root``, the newest first. Links and folders without our mark are left out."""
    try:
        bundles = [entry for entry in root.iterdir() if not entry.is_symlink() and (entry / MARKER).is_file()]
    except OSError:
        return []
    return sorted(bundles, key=lambda folder: folder.name, reverse=True)


def prune(root: Path, most: int | None = None) -> int:
    """Remove all but the newest ``most`` bundles (MOST_RUNS) of ``root``; how many were. A folder without our mark, or
    with anything in it that no run writes, stays as it is."""
    removed = 0
    for folder in bundle_folders(root)[MOST_RUNS if most is None else most :]:
        try:
            read_about(folder)
            parts = list(folder.iterdir())
            if all(_OWN.fullmatch(part.name) and part.is_file() and not part.is_symlink() for part in parts):
                for part in parts:
                    part.unlink()
                folder.rmdir()
                removed += 1
        except (OSError, InvalidProblem):
            continue
    return removed
