"""Room for what training makes of parameters and drops again: gradients that are added to others, and what an update
computes on its way. A graph as it is traced has neither, since both depend on what is asked for.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from solvers.errors import InvalidProblem
from solvers.problem.graph import NOTHING, Amount, Operator, OpGraph, Phase, per_graph
from solvers.problem.problem import Objective, Problem
from solvers.problem.training import ZERO_GRADIENTS, Optimizer, copies

PIECE_BYTES = 8 * 2**20
"""Of masters and states that come from the host at a time: long enough for its link, and short against a layer."""
PIECES = 3
"""That are on a device at once: one that comes, one that is updated, one that goes."""
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
    until it is sharded. With ZeRO a replica updates its share, and what that takes is not counted. Where states
    come from the host an update is done in pieces.
    """
    if not problem.training or problem.stated_bytes is not None or problem.optimizer is Optimizer.NONE:
        return problem
    several = problem.objective is not Objective.MAKESPAN and problem.micro_batches != 1
    adds = several or problem.zero >= ZERO_GRADIENTS
    wide = copies(problem.optimizer, problem.precision).masters or 1.0
    of_parameters = TEMPORARIES.get(problem.optimizer, 0.0) * wide if not problem.zero else 0.0
    at_once = math.inf
    if problem.state_links:
        streamed = copies(problem.optimizer, problem.precision).streamed
        at_once, of_parameters = PIECE_BYTES / streamed, of_parameters + PIECES * streamed
    known, key = _known(problem.graph), (adds, of_parameters, at_once)
    if key not in known:
        known[key] = _roomy(problem.graph, *key)
    return replace(problem, graph=known[key])


def states_on_hosts(problem: Problem, bytes_per_s: Mapping[str, float]) -> Problem:
    """The problem in which masters and optimizer states are in the hosts' memory (Ren et al., ZeRO-Offload, USENIX ATC
    2021) and come to the device for the update, over links of so many B/s each way, by kind of device.

    An update takes its operators one after the other, each in pieces of `PIECE_BYTES`: the first piece comes, then the
    others come and go while pieces are updated, then the last goes. Raises InvalidProblem where there are none, or not
    all entries are updated alike.
    """
    held = copies(problem.optimizer, problem.precision)
    if not problem.training or problem.stated_bytes is not None or held.streamed <= 0:
        raise InvalidProblem(
            "--offload-optimizer is of optimizer states that are counted, of which there are none; leave it out"
        )
    if held.factored:
        raise InvalidProblem(
            "--offload-optimizer: adafactor keeps sums by row and column, which is next to nothing, and needs all of a"
            " parameter to update it; leave one of them out"
        )
    if problem.zero:
        raise InvalidProblem("--offload-optimizer with --zero is not modelled; leave one of them out")
    home = {u: o.forward_of for u, o in enumerate(problem.graph.operators) if o.phase is Phase.UPDATE}
    updates = [(u, f) for u, f in home.items() if f is not None]
    rows = np.array([u for u, _ in updates], np.int64)
    nbytes = held.streamed * np.array([problem.graph.operators[f].trained_bytes for _, f in updates])
    piece = np.minimum(nbytes, PIECE_BYTES)
    seconds = {kind: np.array(table) for kind, table in problem.compute.seconds.items()}
    each = problem.mini_batch / problem.compute.samples[0] if len(problem.compute.samples) == 1 else 1.0  # see its `at`
    for kind, speed in bytes_per_s.items():
        for column in range(len(problem.compute.samples)) if kind in seconds else ():
            while_coming = np.maximum(seconds[kind][rows, column] * each, (nbytes - piece) / speed)
            seconds[kind][rows, column] = (2 * piece / speed + while_coming) / each
    return replace(problem, compute=replace(problem.compute, seconds=seconds), state_links=dict(bytes_per_s))


@per_graph
def _known(graph: OpGraph) -> dict[tuple[bool, float, float], OpGraph]:
    """What was made of a graph: questions about one model share it, with all that is derived from it."""
    return {}


def _roomy(graph: OpGraph, adds: bool, of_parameters: float, at_once: float) -> OpGraph:
    """of_parameters: times their bytes that an update needs; at_once: B of parameters that it updates at a time."""
    made = _gradients(graph) if adds else {}
    sums = _sums(graph, made)
    operators = tuple(
        replace(o, gradient_sum_bytes=sums[i])
        if i in sums
        else _with_room(o, made.get(i, NOTHING))
        if o.phase is Phase.BACKWARD_WEIGHT
        else _with_room(o, Amount(of_parameters * min(at_once, graph.operators[o.forward_of].trained_bytes)))
        if o.phase is Phase.UPDATE and o.forward_of is not None
        else o
        for i, o in enumerate(graph.operators)
    )
    return graph if operators == graph.operators else replace(graph, operators=operators)


def _gradients(graph: OpGraph) -> dict[int, Amount]:
    """Operator -> bytes of the gradients of parameters that it makes."""
    gradients: dict[int, Amount] = defaultdict(Amount)
    for tensor in graph.tensors:
        if any(graph.operators[c].phase is Phase.UPDATE for c in tensor.consumers):
            gradients[tensor.producer] += tensor.nbytes
    return gradients


def _sums(graph: OpGraph, made: Mapping[int, Amount]) -> dict[int, float]:
    """Forward operator -> bytes of its parameters that other operators read too: no more than it trains, and than all
    but the largest of the gradients made of them. made: of each operator that makes any."""
    sums = {}
    for position, operator in enumerate(graph.operators):
        if operator.phase is Phase.UPDATE and operator.forward_of is not None:
            several = sorted(made[o].fixed for o in graph.predecessors[position] if o in made)
            shared = min(sum(several[:-1]), graph.operators[operator.forward_of].trained_bytes)
            if shared > 0:
                sums[operator.forward_of] = shared
    return sums


def _with_room(operator: Operator, room: Amount) -> Operator:
    return operator if room == NOTHING else replace(operator, workspace_bytes=operator.workspace_bytes + room)
