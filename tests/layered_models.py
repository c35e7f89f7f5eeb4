"""Models of equal layers, as a trace gives them: numbered modules, residuals, both backwards and updates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from solvers.problem.graph import Operator, OpGraph
from solvers.problem.problem import Objective, Problem
from tests.instances import problem, training_graph

LAYER = ("norm", "attention", "add", "up", "down", "add#2")
"""Operators of a layer: the adds also read what went into the norm, and what the first add made."""
SECONDS = (0.1, 3.0, 0.1, 2.0, 4.0, 0.1)


def layered(
    layers: int, devices: int = 3, changed: Mapping[str, Mapping[str, object]] | None = None, **options: object
) -> Problem:
    """An embedding, ``layers`` equal layers and a head, in training. changed: fields of single forward operators, by
    name, and "seconds"."""
    names, edges, seconds = ["embed"], [], [1.0]
    for layer in range(layers):
        first, before = len(names), len(names) - 1
        names += [f"model.layers.{layer}.{name}" for name in LAYER]
        seconds += SECONDS
        norm, attention, add, up, down, last = range(first, first + len(LAYER))
        edges += [(before, norm), (norm, attention), (attention, add), (before, add)]
        edges += [(add, up), (up, down), (down, last), (add, last)]
    edges.append((len(names) - 1, len(names)))
    names.append("head")
    seconds.append(5.0)
    graph = training_graph(edges, len(names), nbytes=0.01, param_bytes=2.0, saved=1.0)
    question = changed or {}
    operators = []
    for position, operator in enumerate(graph.operators):
        name = names[position % len(names)]
        fields = {key: value for key, value in question.get(name, {}).items() if key != "seconds"}
        mirrored = position >= len(names)
        made = replace(
            operator, name=name + ("'" if mirrored else ""), module_path=name, op_type=name.rpartition(".")[2],
            param_bytes=0.0 if mirrored else operator.param_bytes,
        )  # fmt: skip
        operators.append(made if mirrored else _with(made, fields))
    forward_s = [float(question.get(n, {}).get("seconds", s)) for n, s in zip(names, seconds, strict=True)]  # type: ignore[arg-type]
    options = {"objective": Objective.ITERATION, "mini_batch": 8, "micro_batches": 8, **options}
    times = [*forward_s, *(2 * s for s in forward_s)]
    return problem(OpGraph(tuple(operators), graph.tensors, name="layered"), times, devices, **options)


def _with(operator: Operator, fields: Mapping[str, object]) -> Operator:
    return replace(operator, **fields)  # type: ignore[arg-type]
