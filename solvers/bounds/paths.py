"""Heads and tails: the longest paths before and after every operator, by operator time."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from solvers.kernels.arrays import Floats
from solvers.plan.successors import with_mirrors
from solvers.problem.graph import OpGraph, Phase, per_graph, topological_order


def heads_and_tails_s(graph: OpGraph, seconds: Floats, *, whole: bool = False) -> tuple[Floats, Floats]:
    """Longest path by operator time before and after every operator, itself excluded, [operators].

    A mirror comes after its forward operator. whole: the gradients of an operator's inputs and of its parameters are
    one action of its stage, so who reads the former waits for the latter too.
    """
    after, order = with_whole_backwards(graph) if whole else with_mirrors(graph)
    took = seconds.tolist()
    head, tail = [0.0] * len(graph), [0.0] * len(graph)
    for operator in order:
        end = head[operator] + took[operator]
        for target in after[operator]:
            if end > head[target]:
                head[target] = end
    for operator in reversed(order):
        for target in after[operator]:
            rest = took[target] + tail[target]
            if rest > tail[operator]:
                tail[operator] = rest
    return np.array(head), np.array(tail)


@per_graph
def with_whole_backwards(graph: OpGraph) -> tuple[list[list[int]], tuple[int, ...]]:
    """`with_mirrors`, with the gradients of parameters between those of inputs and whoever reads these.

    A path through both stays below the time of a plan: what is of one action on it is part of that action's time, and
    what is not comes after. Where the graph has it the other way round it is left as it is.
    """
    plain, order = with_mirrors(graph)
    of_parameters: dict[int, list[int]] = defaultdict(list)
    for operator, spec in enumerate(graph.operators):
        if spec.phase is Phase.BACKWARD_WEIGHT and spec.forward_of is not None:
            of_parameters[spec.forward_of].append(operator)
    after = [list(targets) for targets in plain]
    for operator, spec in enumerate(graph.operators):
        if spec.phase is not Phase.BACKWARD_INPUT or spec.forward_of is None:
            continue
        chain = [operator]
        for other in of_parameters[spec.forward_of]:
            after[chain[-1]].append(other)
            chain.append(other)
        readers = [r for r in plain[operator] if graph.operators[r].forward_of != spec.forward_of]
        if len(chain) > 1:
            after[chain[-1]].extend(readers)
    arranged = topological_order(after)
    return (after, arranged) if len(arranged) == len(graph) else (plain, order)
