"""A problem whose operators wait for one another in one linear order, as sequential pipelines have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from solvers.coarsening.coarsen import Condensed
from solvers.contiguous.chains import topological_orders
from solvers.problem.graph import Phase, Tensor
from solvers.problem.problem import Problem


def in_sequence(problem: Problem, order: Sequence[int]) -> Problem:
    """The same problem with an empty tensor from every forward operator of ``order`` to the next, and from
    the backward of that back.

    order: the forward operators, each after those that it reads. Any consecutive stages are then a chain:
    each takes a micro-batch up only when the one before is done with it, and keeps as many in flight as
    stages follow, whether or not they read its tensors (sequential pipeline parallelism, as in GraphPipe,
    ASPLOS 2025, section 2). Empty tensors take no time and no memory. Raises InvalidProblem if the order
    or backward operators contradict the graph.
    """
    graph = problem.graph
    backward: dict[int, int] = {}
    for position, operator in enumerate(graph.operators):
        if operator.phase is Phase.BACKWARD_INPUT and operator.forward_of is not None:
            backward[operator.forward_of] = position
    ahead = [Tensor(a, (b,)) for a, b in pairwise(order)]
    back = [Tensor(backward[b], (backward[a],)) for a, b in pairwise(o for o in order if o in backward)]
    tensors = (*graph.tensors, *ahead, *back)
    stated = problem.transfer_s
    return replace(
        problem,
        graph=replace(graph, tensors=tensors),
        transfer_s=None if stated is None else (*stated, *(0.0 for _ in (*ahead, *back))),
    )


def sequential_problems(problem: Problem, orders: int = 4) -> list[Problem]:
    """The problem in several sequences: branch after branch, branches in turn, and mixed."""
    contracted = Condensed(problem, ordered=True).at(problem.mini_batch, merge_trivial=False)
    operators = problem.graph.operators
    rank = {operator: place for place, operator in enumerate(problem.graph.topological_order)}
    sequences: dict[tuple[int, ...], None] = {}
    for nodes in topological_orders(contracted.shape, orders):
        groups = [sorted(contracted.shape.members[node], key=rank.__getitem__) for node in nodes[::-1].tolist()]
        sequences.setdefault(tuple(o for group in groups for o in group if operators[o].phase is Phase.FORWARD))
    return [in_sequence(problem, order) for order in sequences]
