"""A question over units of operators: the same question over fewer operators, and back.

A unit has one operator a phase, with the times and sizes of its members together and every tensor that leaves it, so
that a plan whose stages are made of whole units is judged alike in both questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers.errors import InvalidProblem
from solvers.evaluation.columns import graph_columns
from solvers.kernels.arrays import Floats, Ints
from solvers.plan.plan import Plan
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.groups import group_of, together
from solvers.problem.problem import ComputeTable, Problem

BYTES = ("param_bytes", "frozen_bytes", "factorable_bytes", "buffer_bytes", "gradient_sum_bytes")
"""Sizes of operators that do not depend on samples."""


@dataclass(frozen=True, eq=False)
class Contraction:
    """question: the one over units. members: of each of its operators the positions of those that it stands for, in
    the order in which they run."""

    whole: Problem
    question: Problem
    members: tuple[tuple[int, ...], ...]

    def expanded(self, plan: Plan) -> Plan:
        """The plan of the question, for the whole graph: stages, devices and orders are the same."""
        rank = np.empty(len(self.whole.graph), np.int64)
        rank[list(self.whole.graph.topological_order)] = np.arange(len(rank))
        stages = []
        for stage in plan.stages:
            inside = np.array([o for unit in stage.operators for o in self.members[unit]], np.int64)
            stages.append(replace(stage, operators=tuple(inside[rank[inside].argsort()].tolist())))
        return replace(plan, stages=tuple(stages))


def contraction(problem: Problem, units: Sequence[Sequence[int]]) -> Contraction | None:
    """The question over units, each of several co-location groups (numbers in `together`); every other group is a
    unit by itself. None where units wait for each other.

    Its plans do not say which operators run again: of a unit that caches what it makes the inside would be lost.
    In training, plans of whole units have the same times in both; their peaks are at most a little higher in the
    question, where a unit's workspace is the most of its members' in each of its two parts. In inference a unit's
    workspace leaves out what its members hand to each other.
    """
    graph = problem.graph
    unit_of = _units(graph, units)
    into, members = _operators_of_units(graph, unit_of)
    tensors = list(_moved(graph, unit_of.tolist(), into.tolist()))

    def summed(values: Floats) -> Floats:
        sums = np.zeros((len(members), *values.shape[1:]))
        np.add.at(sums, into, values)
        return sums

    stated, each_s = problem.stated_bytes, problem.transfer_s
    try:
        return Contraction(
            problem,
            replace(
                problem,
                graph=OpGraph(
                    _operators(graph, unit_of, into, members), tuple(moved for _, moved in tensors), graph.samples,
                    graph.name,
                ),
                plain=None,
                recompute_operators=False,
                compute=ComputeTable(
                    problem.compute.samples, {kind: summed(table) for kind, table in problem.compute.seconds.items()}
                ),
                stated_bytes=None if stated is None else tuple(summed(np.array(stated)).tolist()),
                transfer_s=None if each_s is None else tuple(each_s[t] for t, _ in tensors),
                pins={int(into[o]): device for o, device in problem.pins.items()},
            ),
            members,
        )  # fmt: skip
    except InvalidProblem:  # a cycle of units
        return None


def _units(graph: OpGraph, units: Sequence[Sequence[int]]) -> Ints:
    """The unit of every operator, [operators]."""
    groups = together(graph)
    unit_of_group = np.full(len(groups), -1, np.int64)
    for number, unit in enumerate(units):
        unit_of_group[list(unit)] = number
    alone = np.flatnonzero(unit_of_group < 0)
    unit_of_group[alone] = len(units) + np.arange(len(alone))
    return np.asarray(unit_of_group[group_of(graph)])


def _operators_of_units(graph: OpGraph, unit_of: Ints) -> tuple[Ints, tuple[tuple[int, ...], ...]]:
    """Operator -> operator of the question, and back: one for each phase of a unit, in the order of first members."""
    units = unit_of.tolist()
    number: dict[tuple[int, Phase], int] = {}
    members: list[list[int]] = []
    into = np.empty(len(graph), np.int64)
    for o in graph.topological_order:
        key = (units[o], graph.operators[o].phase)
        if key not in number:
            number[key] = len(members)
            members.append([])
        members[number[key]].append(o)
        into[o] = number[key]
    return into, tuple(map(tuple, members))


def _moved(graph: OpGraph, unit_of: list[int], into: list[int]) -> Iterator[tuple[int, Tensor]]:
    """The tensors between operators of the question, each with its position in the graph. Of those that stay inside a
    unit, and so are never sent, the order is left: one between the same operators, of no size."""
    seen: set[tuple[int, ...]] = set()
    for t, tensor in enumerate(graph.tensors):
        producer = into[tensor.producer]
        readers = {into[reader]: None for reader in tensor.consumers}
        readers.pop(producer, None)
        if not readers:
            continue
        own = unit_of[tensor.producer]
        if any(unit_of[reader] != own for reader in tensor.consumers):
            yield t, Tensor(producer, tuple(readers), tensor.nbytes, tensor.shape, tensor.dtype, tensor.sum_group)
        elif (ends := (producer, *readers)) not in seen:
            seen.add(ends)
            yield t, Tensor(producer, tuple(readers))


def _operators(graph: OpGraph, unit_of: Ints, into: Ints, members: Sequence[Sequence[int]]) -> tuple[Operator, ...]:
    forward_of = {
        int(unit_of[inside[0]]): number
        for number, inside in enumerate(members)
        if graph.operators[inside[0]].phase is Phase.FORWARD
    }
    columns = graph_columns(graph)
    sizes = np.array(
        [
            [*(getattr(o, name) for name in BYTES), o.flops.fixed, o.flops.per_sample, o.moved_bytes.fixed,
             o.moved_bytes.per_sample]
            for o in graph.operators
        ]
    )  # fmt: skip
    sums = np.zeros((len(members), sizes.shape[1] + 2))
    np.add.at(sums, into, np.hstack([sizes, columns.saved_bytes]))
    workspace = np.zeros((len(members), 2))
    np.maximum.at(workspace, into, columns.workspace_bytes)
    made = []
    for number, (inside, amounts, working) in enumerate(zip(members, sums.tolist(), workspace.tolist(), strict=True)):
        first = graph.operators[inside[0]]
        unit = int(unit_of[inside[0]])
        home = forward_of.get(unit)
        made.append(
            replace(
                first,
                **dict(zip(BYTES, amounts, strict=False)),
                flops=Amount(*amounts[-6:-4]),
                moved_bytes=Amount(*amounts[-4:-2]),
                saved_bytes=Amount(*amounts[-2:]),
                workspace_bytes=Amount(*working),
                colocation=f"unit {unit}" if home is None else None,
                forward_of=None if home is None or home == number else home,
                replicable=all(graph.operators[o].replicable for o in inside),
            )
        )
    return tuple(made)
