"""Traces made by hand, of two ranks that run a plan of two stages."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from solvers.plan.plan import Plan
from solvers.problem.graph import OpGraph
from solvers.problem.problem import Objective, Problem
from solvers.schedules.assemble import assemble
from tests.explorer.costs.times.test_trace import ENGINE, event
from tests.explorer.measured.measured_instances import two_devices
from tests.instances import problem, training_graph

LINEAR = {"Input_Dims": [[4, 8], [16, 8]], "Input_type": ["float", "float"]}
GELU = {"Input_Dims": [[4, 16]], "Input_type": ["float"]}
ARGUMENTS = {"aten::linear": LINEAR, "aten::gelu": GELU}
NODES = {"aten::linear": "AddmmBackward0", "aten::gelu": "GeluBackward0"}


def two_stages(**options: object) -> tuple[Problem, Plan]:
    """`two_devices`, whose first operator is a linear and whose second a GELU."""
    given, plan = two_devices(**options)
    kinds = ["aten.linear", "aten.gelu", "aten.linear", "aten.gelu"]
    operators = tuple(replace(o, op_type=kind) for o, kind in zip(given.graph.operators, kinds, strict=True))
    return replace(given, graph=OpGraph(operators, given.graph.tensors)), plan


def one_device() -> tuple[Problem, Plan]:
    """A linear, forward and backward, on one device, for two micro-batches."""
    options = {"objective": Objective.ITERATION, "mini_batch": 2, "micro_batches": 2}
    given = problem(training_graph([], 1), [1, 2], 1, **options)
    operators = tuple(replace(o, op_type="aten.linear") for o in given.graph.operators)
    made = replace(given, graph=OpGraph(operators, given.graph.tensors))
    return made, assemble(made, [(0,), (0,)], 2)


def forward(name: str, start: float, length: float, number: int) -> dict[str, Any]:
    return event(name, start, length, number, **ARGUMENTS[name])


def backward(name: str, start: float, length: float, number: int) -> dict[str, Any]:
    return event(f"{ENGINE}{NODES[name]}", start, length, number)


def optimizer(start: float, length: float) -> dict[str, Any]:
    return event("Optimizer.step#Adam.step", start, length, cat="user_annotation")


def rank_events(
    name: str, *actions: tuple[str, float, float], begin: float = 0.0, first: int = 0
) -> list[dict[str, Any]]:
    """Calls of one iteration: ("F0", start, length) and so on, times in microseconds from ``begin``; "U" is a step of
    the optimizer. first: the number that autograd gives the first call."""
    make = {"F": forward, "B": backward}
    return [
        optimizer(begin + start, length)
        if action == "U"
        else make[action[0]](name, begin + start, length, first + int(action[1:]))
        for action, start, length in actions
    ]


RANKS = (
    ("aten::linear", ("F0", 0, 10), ("F1", 10, 10), ("B0", 60, 20), ("B1", 90, 20), ("U", 110, 5)),
    ("aten::gelu", ("F0", 15, 10), ("B0", 25, 20), ("F1", 45, 10), ("B1", 55, 20), ("U", 75, 5)),
)
"""Two micro-batches in 110 us, and steps of an optimizer, which the plan has not: the first message takes 5 us, and the
gradients of both arrive late."""


def write_ranks(
    folder: Path, ranks: tuple[list[dict[str, Any]], ...], hosts: tuple[str, ...] = (), **more: Any
) -> Path:
    """The traces of some ranks, as files."""
    folder.mkdir(exist_ok=True)
    for rank, events in enumerate(ranks):
        fields = {"distributedInfo": {"rank": rank, "backend": "gloo"}, "host_name": (hosts or ("one",) * 9)[rank]}
        text = json.dumps({"traceEvents": events, **fields, **more})
        (folder / f"trace{rank}.json.gz").write_bytes(gzip.compress(text.encode()))
    return folder


def iterations(count: int = 3, length: float = 200.0) -> tuple[list[dict[str, Any]], ...]:
    """``RANKS``, some times."""
    return tuple(
        [one for at in range(count) for one in rank_events(name, *actions, begin=1000 + at * length, first=10 * at)]
        for name, *actions in RANKS
    )
