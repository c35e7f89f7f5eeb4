"""Plans in which every stage has the same number of replicas: one for every pair of degrees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from solvers.errors import InvalidPlan, InvalidProblem, NoLink
from solvers.evaluation.evaluate import bytes_words
from solvers.pipelines.part_of_many import part_of
from solvers.pipelines.planners.repeated_blocks import first_split
from solvers.pipelines.planners.selective_recompute import SelectiveRecompute
from solvers.pipelines.planners.splits_in_turn import split_in_turn
from solvers.plan.degrees import DegreePlan
from solvers.plan.plan import Plan
from solvers.planners.baselines import EqualSplit
from solvers.planners.shortfall import shortfall
from solvers.problem.problem import IN_TURN, Objective, Pipeline, Problem
from solvers.search.monitor import Monitor, Stop

Groups = tuple[tuple[int, ...], ...]


def uniform_degrees(problem: Problem) -> list[tuple[int, int]]:
    """(replicas, stages) that use every accelerator of a problem, the fewest replicas first."""
    devices = len(problem.cluster.accelerators)
    return [(data, devices // data) for data in range(1, problem.max_replicas + 1) if devices % data == 0]


def uniform_plan(problem: Problem, data: int, pipeline: int, limit_s: float) -> tuple[DegreePlan, Plan | None]:
    """The best of plain splits into so many stages of so many replicas each, and its row of the table over degrees.

    A pipeline of ``pipeline`` devices is planned with its share of the mini-batch, and all others do what it does: with
    devices that follow one another, or one of each node. Its operators run again where memory asks for that. Where the
    pipeline asked for gives devices several stages in turn, splits into that many times as many are looked at, too
    (`split_in_turn`). limit_s: of a look, a guard. Of an ITERATION only.
    """
    monitor = Monitor(problem, time_limit_s=limit_s)
    row = DegreePlan(data, problem.graph.tensor_parallel, pipeline)
    if not any(problem.can_share(problem.mini_batch // count, data) for count in problem.micro_batch_choices()):
        return replace(row, reason=f"{problem.mini_batch:,} samples cannot be shared by {data} replicas"), None
    reason = "no plain split into so many stages fits"
    plain_s: float | None = None  # of one stage a device, where these were laid out best
    for groups in _layouts(problem, data, pipeline):
        try:
            part = part_of(problem, groups)
        except NoLink as error:
            reason = str(error)
            continue
        question = replace(part.question, max_replicas=1)
        inner = monitor.for_question(question, part.answer)
        try:
            first_split(question, inner)
            if inner.best is None and EqualSplit().unsupported(question) is None:
                EqualSplit()(question, inner)
            if inner.best is None and SelectiveRecompute().unsupported(question) is None:
                SelectiveRecompute()(question, inner)
            if plain_s is None or inner.objective_s < plain_s:
                plain_s = inner.objective_s
                split_in_turn(question, inner)
        except (InvalidPlan, Stop) as error:
            reason = str(error) or reason
        if inner.best is None and (lack := shortfall(question)) is not None:
            reason = f"the fullest device needs {bytes_words(lack.peak_bytes)}, and has {bytes_words(lack.cap_bytes)}"
    if monitor.best is None or monitor.judged is None:
        return replace(row, reason=reason), None
    return replace(row, objective_s=monitor.objective_s, peak_bytes=monitor.judged.peak_bytes), monitor.best


def plain_splits(problem: Problem, monitor: Monitor) -> None:
    """Offer plain splits of every number of replicas that uses all devices: of models that are divided over groups with
    one stage a device, and with several (`split_in_turn`) where the pipeline asked for may have them. Raises Stop."""
    divided = problem.graph.tensor_parallel > 1
    in_turn = problem.pipeline in (*IN_TURN, Pipeline.PLANNER)
    if problem.objective is not Objective.ITERATION or problem.pins or not (divided or in_turn):
        return
    monitor.begin("plain splits")
    for data, pipeline in uniform_degrees(problem):
        samples = problem.mini_batch // data
        if problem.mini_batch % data or samples % problem.graph.sample_step:
            continue
        try:
            part = part_of(problem, next(_layouts(problem, data, pipeline)))
        except (NoLink, InvalidProblem):
            continue
        question = replace(part.question, max_replicas=1)
        inner = monitor.for_question(question, part.answer)
        if divided:
            first_split(question, inner)
        split_in_turn(question, inner)


def _layouts(problem: Problem, data: int, pipeline: int) -> Iterator[Groups]:
    """Which devices make a pipeline: [data, pipeline]."""
    devices = problem.cluster.accelerators
    yield tuple(tuple(devices[i * pipeline : (i + 1) * pipeline]) for i in range(data))
    if data > 1 and pipeline > 1 and len({device.node for device in problem.cluster.devices}) > 1:
        yield tuple(tuple(devices[i::data]) for i in range(data))
