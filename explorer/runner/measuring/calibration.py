"""Asks a target to measure a model, its operators and the links between ranks. No torch here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from explorer.costs.profile import Profile
from explorer.runner.bundles.bundle import finish_bundle, write_bundle
from explorer.runner.bundles.outcome import RunStatus
from explorer.runner.bundles.request import RunRequest
from explorer.runner.targets.target import OnProgress, Target
from solvers.errors import InvalidProblem, RunError
from solvers.formats.op_graph_json import graph_hash
from solvers.formats.plan_json import write_plan
from solvers.plan.plan import Action, Plan, Stage
from solvers.problem.cluster import Device, uniform_cluster
from solvers.problem.graph import OpGraph
from solvers.problem.problem import ComputeTable, Problem
from solvers.schedules.ordering.orders import kinds_of

MODULE = "explorer.runner.calibrate"
"""What ranks run: `Targets.get` is asked for a target with it."""
UNKNOWN = "to be measured"
"""Kind of the devices of a plan that is only there to be measured by."""


class Ended(RunError):
    """A calibration that was cancelled, or reached its time limit."""


def calibrate_on(
    target: Target,
    graph: OpGraph,
    reference: str,
    ranks: int,
    request: RunRequest,
    folder: Path,
    on_progress: OnProgress,
    should_stop: Callable[[], bool],
) -> Profile:
    """Measures on ``ranks`` processes at once and returns what they found. folder: a new bundle, which stays.

    target: one whose ranks run `MODULE`. Raises RunError, in one line, if it failed, and Ended if it was
    cancelled; InvalidProblem for what cannot be measured.
    """
    if len(set(graph.degrees)) > 1:
        raise InvalidProblem(f"{reference}: operators of a model with degrees by part are not measured")
    if ranks < 1:
        raise InvalidProblem(f"the number of devices must be at least 1, found {ranks}")
    text = calibration_plan(graph, reference, ranks)
    bundle = write_bundle(folder, text, request, target.name)
    outcome = target.run(text, request, ranks, folder, on_progress, should_stop)
    finish_bundle(bundle, outcome)
    if outcome.status is not RunStatus.DONE:
        kind = RunError if outcome.status is RunStatus.FAILED else Ended
        raise kind(f"{reference} was not measured: {outcome.reason or outcome.status.value} (log: {bundle.log})")
    profile = outcome.profile
    if profile is None or profile.graph_sha256 != graph_hash(graph):
        raise RunError(f"{reference} was not measured: the target {target.name} sent no profile of it")
    return profile


def calibration_plan(graph: OpGraph, reference: str, ranks: int) -> str:
    """The text of a plan.json that says which model to measure, and on how many ranks at once: all of it
    on each of them. Its costs say nothing."""
    devices = [Device(f"rank {rank}", UNKNOWN) for rank in range(ranks)]
    problem = Problem(
        graph,
        uniform_cluster(devices, 1e9),
        ComputeTable((1,), {UNKNOWN: np.zeros((len(graph), 1))}),
        mini_batch=ranks,
        training=graph.trains,
        costs_from="nothing yet",
    )
    stage = Stage(tuple(range(len(graph))), tuple(range(ranks)), micro_batch_size=ranks)
    order = tuple(Action(0, kind) for kind in kinds_of(problem, stage))
    return write_plan(problem, Plan((stage,), (order,) * ranks), reference=reference)
