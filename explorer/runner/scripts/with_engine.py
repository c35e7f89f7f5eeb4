"""A plan as the runner will run it: its problem with the engine's own time added where it falls."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import cache
from math import isfinite
from pathlib import Path
from statistics import fmean

import numpy as np

from explorer.question.graphs.sources import sources_hash
from explorer.runner.scripts.duties import duties
from explorer.runner.scripts.lowering import make_script
from explorer.runner.scripts.script import Script
from solvers.errors import PlacementError
from solvers.evaluation.simulation import simulate
from solvers.plan.plan import PHASES_OF, Plan
from solvers.problem.cluster import Link
from solvers.problem.engine import Duty, EngineCosts
from solvers.problem.problem import ComputeTable, Objective, Problem

FASTEST = 1e15
"""Bytes per second of a link of which all time is the ranks' own."""


def with_engine(problem: Problem, plan: Plan) -> Problem:
    """``problem`` at which ``plan`` takes what its run is to take: every action of a device longer by the engine's
    step and by the messages that it makes or waits for; links shorter by what of a message's time is the ranks' own,
    since links were measured from rank to rank.

    For this plan alone, to simulate it: every accelerator gets a kind of its own. The time of an action goes to its
    operators by their share. The same problem where the engine was not measured, where transfers take what a file
    states, or where the plan cannot be run.
    """
    if problem.engine is None:
        return problem
    try:
        script = make_script(problem, plan)
    except PlacementError:
        return problem
    extra = _extra_seconds(problem, script, problem.engine)
    devices, tables = [], {}
    for index, device in enumerate(problem.cluster.devices):
        kind = device.kind if device.is_cpu else f"{device.kind} of device {index}"
        devices.append(replace(device, kind=kind))
        table = np.array(problem.compute.seconds[device.kind])
        members = [i for i, d in enumerate(problem.cluster.devices) if d.is_cpu] if device.is_cpu else [index]
        for o in {o for d, o in extra if d in members}:
            table[o] = np.maximum(0.0, table[o] + fmean(extra[d, o] for d in members if (d, o) in extra))
        tables[kind] = table
    links = tuple(_without_ranks(link, problem.engine) for link in problem.cluster.links)
    return replace(
        problem,
        cluster=replace(problem.cluster, devices=tuple(devices), links=links),
        compute=ComputeTable(problem.compute.samples, tables),
        host_links=problem.links_on(problem.host_links, devices),
        state_links=problem.links_on(problem.state_links, devices),
        engine=None,
    )


def run_seconds(problem: Problem, plan: Plan) -> float | None:
    """Seconds that a run of the plan takes with the engine's own time: an iteration, or a pass where the problem asks
    for one; None where nobody measured the engine, or where the plan cannot be run."""
    engaged = with_engine(problem, plan)
    if engaged is problem:
        return None
    objective = Objective.MAKESPAN if problem.objective is Objective.MAKESPAN else Objective.ITERATION
    seconds = simulate(engaged, plan, objective).makespan_s
    return seconds if isfinite(seconds) else None


@dataclass(frozen=True)
class RunSeconds:
    """`run_seconds`, and the name of the code that computes it."""

    def __call__(self, problem: Problem, plan: Plan) -> float | None:
        return run_seconds(problem, plan)

    @property
    def name(self) -> str:
        """Another one with every change of how runs are made: what an answer from a library depends on, beside the
        engine's costs, which are the problem's, and `solvers`."""
        return f"seconds of a run, scripts {_scripts_hash()}"


@cache
def _scripts_hash() -> str:
    return sources_hash(Path(__file__).parent)


def runtime_estimator(problem: Problem) -> RunSeconds | None:
    """`run_seconds` where it is the objective of the problem with the engine's time added, for
    `solvers.planners.solve.solve`; None for max-load, whose objective is another, and where the engine was not
    measured."""
    return None if problem.engine is None or problem.objective is Objective.MAX_LOAD else RunSeconds()


def _extra_seconds(problem: Problem, script: Script, engine: EngineCosts) -> dict[tuple[int, int], float]:
    """(device, operator) -> seconds more for each time it runs (less, where a forward that runs again would count the
    engine's part of it twice). An operator that several segments of a device hold
    gets the mean, since one table cannot tell them apart."""
    graph = problem.graph
    mirrors: dict[int, list[int]] = defaultdict(list)
    for position, operator in enumerate(graph.operators):
        mirrors[position if operator.forward_of is None else operator.forward_of].append(position)
    duty_of = duties(script, lambda tensor, samples: graph.tensors[tensor].nbytes.at(samples))
    forwards: Counter[int] = Counter()
    for (_, kind, device), duty in duty_of.items():
        forwards[device] += int(duty.runs) * (kind == "F")
    total_s: dict[tuple[int, int], float] = defaultdict(float)
    held: Counter[tuple[int, int]] = Counter()
    for (s, kind, device), duty in duty_of.items():
        segment = script.segments[s]
        operators = [
            o for home in segment.operators for o in mirrors[home] if graph.operators[o].phase in PHASES_OF[kind]
        ]
        left = sum(graph.operators[o].trained_bytes for o in segment.operators)
        seconds = _each_s(engine, kind, duty) + engine.adding_s(kind, duty.runs, left)
        if segment.recompute and kind in "BI":  # the forward runs again, the engine's part of it does not
            seconds -= (
                _each_s(engine, "F", duty_of.get((s, "F", device), Duty())) + engine.iteration_s / forwards[device]
            )
        if kind == "F":
            seconds += engine.iteration_s / forwards[device]
        times = problem.compute.at(problem.cluster.devices[device].kind, segment.share)[operators]
        whole = float(times.sum())
        for o, time in zip(operators, times.tolist(), strict=True):
            total_s[device, o] += seconds * (time / whole if whole > 0 else 1 / len(operators))
            held[device, o] += 1
    return {key: seconds / held[key] for key, seconds in total_s.items()}


def _each_s(engine: EngineCosts, kind: str, duty: Duty) -> float:
    """Seconds of the engine for one run of an action."""
    return engine.seconds(kind, duty) / duty.runs if duty.runs else 0.0


def _without_ranks(link: Link, engine: EngineCosts) -> Link:
    per_byte = 1 / link.bandwidth_bytes_per_s - engine.sent_byte_s - engine.received_byte_s
    return replace(
        link,
        latency_s=max(0.0, link.latency_s - engine.sent_s - engine.received_s),
        bandwidth_bytes_per_s=1 / max(per_byte, 1 / FASTEST),
    )
