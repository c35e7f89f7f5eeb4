"""Room for what training makes of parameters and drops again: gradients that are added to others, and what an update
computes on its way. A graph as it is traced has neither, since both depend on what is asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from solvers.problem.graph import NOTHING, Amount, Operator, OpGraph, Phase, per_graph
from solvers.problem.problem import Objective, Problem
from solvers.problem.training import ZERO_GRADIENTS, Optimizer, copies

TEMPORARIES = {Optimizer.ADAM: 2.0, Optimizer.ADAMW: 2.0, Optimizer.ADAFACTOR: 1.0}
"""How often a step holds numbers as many as those of the parameter that it updates, parameter by parameter: Adam the
root of its second moment and the divisor that it makes of it, Adafactor the second moment of every entry
(`torch.optim`, ``foreach=False, fused=False``); SGD and momentum change what is there. A fused step has none; one with
``foreach=True``, PyTorch's default on GPUs, has those of all parameters at once."""


def with_gradient_room(problem: Problem) -> Problem:
    """The problem with room for gradients and updates; itself in inference and where sizes are stated.

    From the second micro-batch on a gradient is there beside those that it is added to: as workspace of the operator
    that makes it; of parameters that several operators read, whose gradients are added up before they join those of
    earlier micro-batches, all the time (`Operator.gradient_sum_bytes`). One micro-batch adds nothing: its gradients
    are the ones that are held all the time, unless replicas hold shares of these (ZeRO-2), and a whole one is there
    until it was shared out. With ZeRO a replica updates its share, and what that takes is not counted.
    """
    if not problem.training or problem.stated_bytes is not None or problem.optimizer is Optimizer.NONE:
        return problem
    several = problem.objective is not Objective.MAKESPAN and problem.micro_batches != 1
    adds = several or problem.zero >= ZERO_GRADIENTS
    wide = copies(problem.optimizer, problem.precision).masters or 1.0
    of_parameters = TEMPORARIES.get(problem.optimizer, 0.0) * wide if not problem.zero else 0.0
    known = _known(problem.graph)
    if (adds, of_parameters) not in known:
        known[adds, of_parameters] = _roomy(problem.graph, adds, of_parameters)
    return replace(problem, graph=known[adds, of_parameters])


@per_graph
def _known(graph: OpGraph) -> dict[tuple[bool, float], OpGraph]:
    """What was made of a graph: questions about one model share it, with all that is derived from it."""
    return {}


def _roomy(graph: OpGraph, adds: bool, of_parameters: float) -> OpGraph:
    made = _gradients(graph) if adds else {}
    sums = _sums(graph, made)
    operators = tuple(
        replace(o, gradient_sum_bytes=sums[i])
        if i in sums
        else _with_room(o, made.get(i, NOTHING))
        if o.phase is Phase.BACKWARD_WEIGHT
        else _with_room(o, Amount(of_parameters * graph.operators[o.forward_of].trained_bytes))
        if o.phase is Phase.UPDATE and o.forward_of is not None
        else o
        for i, o in enumerate(graph.operators)
    )
    return graph if operators == graph.operators else replace(graph, operators=operators)


def _gradients(graph: OpGraph) -> dict[int, Amount]:
    """Operator -> bytes of the gradients of parameters that it makes."""
    found: dict[int, Amount] = defaultdict(Amount)
    for tensor in graph.tensors:
        if any(graph.operators[c].phase is Phase.UPDATE for c in tensor.consumers):
            found[tensor.producer] += tensor.nbytes
    return found


def _sums(graph: OpGraph, made: Mapping[int, Amount]) -> dict[int, float]:
    """Forward operator -> bytes of its parameters that other operators read too: no more than it trains, and than all
    but the largest of the gradients made of them. made: of each operator that makes any."""
    found = {}
    for position, operator in enumerate(graph.operators):
        if operator.phase is Phase.UPDATE and operator.forward_of is not None:
            several = sorted(made[o].fixed for o in graph.predecessors[position] if o in made)
            shared = min(sum(several[:-1]), graph.operators[operator.forward_of].trained_bytes)
            if shared > 0:
                found[operator.forward_of] = shared
    return found


def _with_room(operator: Operator, room: Amount) -> Operator:
    return operator if room == NOTHING else replace(operator, workspace_bytes=operator.workspace_bytes + room)
