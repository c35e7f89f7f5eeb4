"""Operators timed in place: the whole graph runs, forward and backward, and marks tell whose turn it was.

An operator in a loop of its own finds its inputs in the cache and its memory allocated; in the graph it does
not. So every operator is timed while all of them run, with the marks of `instrument`, and what the marks
take is taken off. The sum over operators is not what the graph takes without marks: in the forward it is some 10 %
less, since every operator's lower quartile is its own and they are not undisturbed all at once; in the backward it
is up to 15 % more before that, since a mark amid a backward costs more than in the chain that its cost is measured by.
Both are kept (`profile.WholeTimes`), and whoever plans brings the operators to the whole (`costs.measured.to_wholes`).

A backward that computes the gradients of inputs and of parameters in one go is divided in two by running it
again for the inputs alone and for the parameters alone (as autograd skips what is not asked for), once for
every kind of operator and shape: in place it took so long, and the two parts are to one another as these two
times. Adding to the parameters' gradients (micro-batches after the first) is part of the latter.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from explorer.runner.measuring.attribution import OUTSIDE, attribute, calm, divide, settle
from explorer.runner.measuring.instrument import (
    Ownership,
    clock_of,
    mark_costs,
    marked,
    marked_backward,
    walk,
)
from explorer.runner.model.optimizers import step
from solvers.problem.graph import OpGraph, Phase

LEAST_REPETITIONS = 4
MOST_REPETITIONS = 400
IN_FLIGHT = 2
"""Micro-batches at once where the whole graph is timed."""
PAUSE_S = 1e-3
ALONE_REPEATS = 6
"""Runs of one operator's backward for the inputs, or for the parameters, alone; the fastest counts."""
SIGNIFICANT_S = 1e-4
"""A backward that takes less says nothing of what dividing it costs: asking for it takes as long."""
ACCUMULATE = "AccumulateGrad"
"""In the names of the autograd nodes that add to the gradient of a parameter."""


@dataclass(frozen=True)
class Subject:
    """The whole model, or a block of its operators, on this rank at one number of samples.

    owner: name of a node of ``module`` -> position of the forward operator it is a call of.
    """

    graph: OpGraph
    module: fx.GraphModule
    inputs: tuple[Tensor, ...]
    owner: Mapping[str, int]
    samples: int
    device: torch.device

    def leaves(self) -> tuple[Tensor, ...]:
        """The inputs, those with a gradient as new tensors: none is added to that of a run before."""
        return tuple(value.detach().requires_grad_() if value.requires_grad else value for value in self.inputs)

    def run(self) -> tuple[Tensor, ...]:
        """The outputs."""
        with torch.set_grad_enabled(self.graph.trains):
            return tuple(pytree.tree_leaves(self.module(*self.leaves())))


@dataclass
class Measured:
    """seconds and spread: of every operator of the graph but updates, for which they are 0. forward_s and
    backward_s: of the whole graph without marks (`as_in_a_run`), lower quartiles. unclaimed_s: what
    the backward spent on behalf of operators that the graph has no backward of. split_ratio: gradients of inputs
    and of parameters one after the other, over both in one go, where an operator has both and
    takes long enough to tell; 1 if none does. added_s: how much longer a backward takes that adds to the parameters'
    gradients than one that makes them, the median."""

    seconds: list[float]
    spread: list[float]
    forward_s: float
    backward_s: float
    repetitions: int
    unclaimed_s: float = 0.0
    split_ratio: float = 1.0
    added_s: float = 0.0
    notes: list[str] = field(default_factory=list)

    def total(self, graph: OpGraph, *, forward: bool) -> float:
        """Seconds of all operators of the forward, or of the backward."""
        return sum(
            seconds
            for seconds, operator in zip(self.seconds, graph.operators, strict=True)
            if (operator.phase is Phase.FORWARD) == forward
        )


def timer_of(device: torch.device, threads: int) -> tuple[Callable[[], float], str]:
    """(a clock in seconds, its name). One thread on a CPU is timed by what it computes, not by how long it
    had to wait for a core that other programs use: the same on a quiet machine, and right on a busy one."""
    if device.type == "cpu" and threads == 1:
        return time.thread_time, "CPU time of one thread"
    return time.perf_counter, "GPU events" if device.type == "cuda" else "wall clock"


def whole(subject: Subject, now: Callable[[], float] = time.perf_counter) -> tuple[float, float]:
    """(forward, backward) seconds of the graph once, without any mark."""
    wait = _waiter(subject.device)
    wait()
    began = now()
    outputs = subject.run()
    wait()
    between = now()
    if subject.graph.trains:
        torch.autograd.backward(*_start(outputs))
        wait()
    return between - began, (now() - between) if subject.graph.trains else 0.0


class InARun(NamedTuple):
    """Seconds of a forward, of a backward, and by how much the backward that added to gradients took longer."""

    forward_s: float
    backward_s: float
    added_s: float


def as_in_a_run(subject: Subject, now: Callable[[], float] = time.perf_counter) -> InARun:
    """Seconds of the graph, each the mean of two micro-batches in flight after the parameters' gradients were dropped,
    as at the start of an iteration, with a pause before each as a rank has that waits for a message: its core is
    somebody else's meanwhile, and so are its caches. One graph again and again, forward and backward at once, finds all
    where it left it, and takes less than any run can. On a GPU, which does not care and may lack the room, that is what
    is timed all the same.
    """
    if subject.device.type != "cpu" or not subject.graph.trains:
        return InARun(*whole(subject, now), 0.0)
    for parameter in subject.module.parameters():
        parameter.grad = None
    forward_s = 0.0
    made, backwards = [], []
    for _ in range(IN_FLIGHT):
        time.sleep(PAUSE_S)
        began = now()
        made.append(subject.run())
        forward_s += now() - began
    for outputs in made:
        time.sleep(PAUSE_S)
        began = now()
        torch.autograd.backward(*_start(outputs))
        backwards.append(now() - began)
    return InARun(forward_s / IN_FLIGHT, sum(backwards) / IN_FLIGHT, backwards[-1] - backwards[0])


def measure(subject: Subject, budget_s: float, now: Callable[[], float] = time.perf_counter) -> Measured:
    """Runs the graph as a run does, and with marks, in turn for about ``budget_s`` seconds by the clock on the wall;
    ``now`` times it (see `timer_of`)."""
    clock = clock_of(subject.device, now)
    graph, until = subject.graph, time.perf_counter() + budget_s
    whole(subject, now)  # memory is allocated, kernels are chosen
    forward_mark_s, backward_mark_s = mark_costs(subject.device, clock)
    in_backward, division = _look(subject, now)
    watched = marked(subject.module, subject.owner, clock)
    forwards: list[list[float]] = []
    backwards: list[list[float]] = []
    plain: list[InARun] = []
    while len(forwards) < LEAST_REPETITIONS or (time.perf_counter() < until and len(forwards) < MOST_REPETITIONS):
        plain.append(as_in_a_run(subject, now))
        leaves = subject.leaves()
        with torch.set_grad_enabled(graph.trains):
            clock.start()
            outputs = tuple(pytree.tree_leaves(watched(*leaves)))
            forwards.append(attribute(*clock.stop(), len(graph), forward_mark_s))
        if graph.trains:
            run = marked_backward(*_start(outputs), in_backward, clock)
            backwards.append(attribute(*run, 2 * len(graph), backward_mark_s))
        del outputs
    rows = [f + (backwards[i] if backwards else []) for i, f in enumerate(forwards)]
    seconds, spread = settle(rows)
    forward_s, backward_s = calm([one.forward_s for one in plain]), calm([one.backward_s for one in plain])
    result = Measured([0.0] * len(graph), [0.0] * len(graph), forward_s, backward_s, len(plain))
    result.added_s = median(one.added_s for one in plain)
    _spread_over(graph, seconds, spread, division, result)
    return result


@dataclass(frozen=True)
class _Division:
    """Seconds of each forward operator's backward for its inputs and its parameters alone, and both at once."""

    alone: Mapping[int, tuple[float, float]]
    both: Mapping[int, float]


def _spread_over(
    graph: OpGraph, seconds: Sequence[float], spread: Sequence[float], division: _Division, result: Measured
) -> None:
    """From seconds by slot (forward; backward and adding up, by forward operator) to the graph's operators."""
    count = len(graph)
    parts: dict[int, dict[Phase, int]] = {}
    for position, operator in enumerate(graph.operators):
        if operator.phase is Phase.FORWARD:
            result.seconds[position], result.spread[position] = seconds[position], spread[position]
        elif operator.phase is not Phase.UPDATE and operator.forward_of is not None:
            parts.setdefault(operator.forward_of, {})[operator.phase] = position
    if not graph.trains:
        return
    separate_s = together_s = 0.0
    for forward in range(count):
        computed, added = seconds[count + 2 * forward], seconds[count + 2 * forward + 1]
        spreads = spread[count + 2 * forward], spread[count + 2 * forward + 1]
        of_forward = parts.get(forward, {})
        to_input, to_weight = of_forward.get(Phase.BACKWARD_INPUT), of_forward.get(Phase.BACKWARD_WEIGHT)
        if to_input is not None and to_weight is not None:
            alone = division.alone.get(forward, (0.0, 0.0))
            weights = [graph.operators[p].flops.at(graph.samples) for p in (to_input, to_weight)]
            first, second = divide(computed, alone, weights)
            result.seconds[to_input], result.seconds[to_weight] = first, second + added
            result.spread[to_input], result.spread[to_weight] = spreads[0], max(spreads)
            if sum(alone) > 0 and division.both.get(forward, 0.0) >= SIGNIFICANT_S:
                share = computed / division.both[forward]
                separate_s, together_s = separate_s + sum(alone) * share, together_s + computed
        elif to_input is not None or to_weight is not None:
            only = to_input if to_input is not None else to_weight
            assert only is not None
            result.seconds[only], result.spread[only] = computed + added, max(spreads)
        else:
            result.unclaimed_s += computed + added
    result.split_ratio = separate_s / together_s if together_s > 0 else 1.0


# -- how the backward belongs to operators --------------------------------------------------------


def _look(subject: Subject, now: Callable[[], float]) -> tuple[list[int], _Division]:
    """(the slot of every autograd node in the order of `walk`, how backwards are divided)."""
    if not subject.graph.trains:
        return [], _Division({}, {})
    looker = Ownership(subject.module, subject.owner)
    with torch.enable_grad():
        outputs = tuple(pytree.tree_leaves(looker.run(*subject.leaves())))
    roots, _ = _start(outputs)
    made_by = looker.made_by
    slots = [2 * made_by[node] + (ACCUMULATE in node.name()) if node in made_by else OUTSIDE for node in walk(roots)]
    return slots, _divisions(subject, looker.env, now)


def _divisions(subject: Subject, values: Mapping[fx.Node, Any], now: Callable[[], float]) -> _Division:
    graph = subject.graph
    both_kinds = [
        {o.forward_of for o in graph.operators if o.phase is phase}
        for phase in (Phase.BACKWARD_INPUT, Phase.BACKWARD_WEIGHT)
    ]
    wanted = both_kinds[0] & both_kinds[1]
    timer = _GradTimer(subject.device, now)
    known: dict[object, tuple[tuple[float, float], float]] = {}
    alone: dict[int, tuple[float, float]] = {}
    both: dict[int, float] = {}
    for operator, (reads, parameters, gives) in _ends(subject, values).items():
        if operator not in wanted or not (reads and parameters and gives):
            continue
        key = (graph.operators[operator].op_type, *(_like(t) for t in (*reads, *parameters, *gives)))
        if key not in known:
            try:
                separate = timer(gives, reads), timer(gives, parameters)
                known[key] = separate, timer(gives, [*reads, *parameters])
            except RuntimeError:  # an input that was overwritten in place: divided by FLOPs instead
                known[key] = (0.0, 0.0), 0.0
        alone[operator], both[operator] = known[key]
    return _Division(alone, both)


Ends = tuple[list[Tensor], list[Tensor], list[Tensor]]
"""Differentiable tensors that an operator reads, its parameters, and what it gives to others."""


def _ends(subject: Subject, values: Mapping[fx.Node, Any]) -> dict[int, Ends]:
    by_operator: dict[int, tuple[dict[int, Tensor], dict[int, Tensor], dict[int, Tensor]]] = {}
    for node in subject.module.graph.nodes:
        operator = subject.owner.get(node.name)
        if operator is None:
            continue
        reads, parameters, gives = by_operator.setdefault(operator, ({}, {}, {}))
        todo = list(node.all_input_nodes)
        while todo:
            source = todo.pop()
            other = subject.owner.get(source.name)
            if other == operator:
                continue
            if other is None and source.op == "call_function":  # a view of a parameter, say
                todo += source.all_input_nodes
                continue
            into = parameters if source.op == "get_attr" else reads
            into.update((id(t), t) for t in _differentiable(values.get(source)))
        if any(subject.owner.get(user.name) != operator for user in node.users):
            gives.update((id(t), t) for t in _differentiable(values.get(node)))
    return {
        operator: (list(reads.values()), list(parameters.values()), list(gives.values()))
        for operator, (reads, parameters, gives) in by_operator.items()
    }


class _GradTimer:
    """Seconds of a part of the backward by itself, without what asking for any gradient takes."""

    def __init__(self, device: torch.device, now: Callable[[], float]) -> None:
        self.wait, self.now = _waiter(device), now
        self.asking_s = 0.0
        start = torch.zeros(1, device=device, requires_grad=True)
        self.asking_s = self([start.view(1)], [start])

    def __call__(self, of: Sequence[Tensor], by: Sequence[Tensor]) -> float:
        gradients = [torch.ones_like(t) for t in of]
        best = float("inf")
        for _ in range(ALONE_REPEATS):
            self.wait()
            before = self.now()
            torch.autograd.grad(of, by, gradients, retain_graph=True, allow_unused=True)
            self.wait()
            best = min(best, self.now() - before)
        return max(0.05 * best, best - self.asking_s)


def _start(outputs: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Where the backward of the whole model begins, with the gradients there: means, as in a run."""
    roots = [t for t in outputs if isinstance(t, Tensor) and t.requires_grad]
    return roots, [torch.full_like(t, 1.0 / max(1, t.numel())) for t in roots]


def _differentiable(value: Any) -> list[Tensor]:
    return [t for t in pytree.tree_leaves(value) if isinstance(t, Tensor) and t.requires_grad]


def _like(tensor: Tensor) -> tuple[object, ...]:
    return (*tensor.shape, tensor.dtype)


def _waiter(device: torch.device) -> Callable[[], None]:
    if device.type == "cuda":
        return lambda: torch.cuda.synchronize(device)
    return lambda: None


# -- what is not in the graph ---------------------------------------------------------------------


def step_overhead(device: torch.device, now: Callable[[], float] = time.perf_counter) -> float:
    """Seconds that calling a segment forward and backward takes beside its operators: that of one which
    does next to nothing, less that little itself."""
    graph = fx.Graph()
    value = graph.placeholder("value")
    graph.output((graph.call_function(torch.ops.aten.neg.default, (value,)),))
    module = fx.GraphModule(nn.Module(), graph)
    given, clock, wait = torch.ones(1, device=device), clock_of(device, now), _waiter(device)
    one, best = torch.ones(1, device=device), float("inf")
    for _ in range(20):
        wait()
        before = now()
        (out,) = module(given.detach().requires_grad_())
        torch.autograd.backward([out], [one])
        wait()
        best = min(best, now() - before)
    watched, inside = marked(module, {"neg_default": 0, "neg": 0}, clock), float("inf")
    for _ in range(20):
        start = given.detach().requires_grad_()
        clock.start()
        (out,) = watched(start)
        forward = attribute(*clock.stop(), 1)[0]
        marks, end = marked_backward([out], [one], [0] * len(walk([out])), clock)
        inside = min(inside, forward + end - marks[1][1])
    return max(0.0, best - inside)


def update_times(
    parameters: Mapping[str, Sequence[nn.Parameter]],
    optimizer: Callable[[Sequence[nn.Parameter]], torch.optim.Optimizer],
    device: torch.device,
    repeats: int = 5,
    now: Callable[[], float] = time.perf_counter,
    between: Callable[[], object] = lambda: None,
) -> dict[str, float]:
    """Seconds of one optimizer step by the operator whose parameters it is for: a step for all of them, in
    parts that are to one another as steps for each alone (once for all that have the same shapes).

    between: run before every step for all: a step comes after a forward and a backward, which leave other
    things in the caches than the optimizer's states.
    """
    wait = _waiter(device)

    def timed(held: Sequence[nn.Parameter], before_each: Callable[[], object] = lambda: None) -> float:
        for parameter in held:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        stepper, taken = optimizer(list(held)), []
        for _ in range(repeats + 1):  # the first one makes the states
            before_each()
            wait()
            before = now()
            step(stepper)
            wait()
            taken.append(now() - before)
        return calm(taken[1:])

    every = list({id(p): p for held in parameters.values() for p in held}.values())
    if not every:
        return dict.fromkeys(parameters, 0.0)
    least = timed([nn.Parameter(torch.zeros(1, device=device))])
    known: dict[object, float] = {}
    alone = []
    for held in parameters.values():
        key = tuple(sorted(map(str, map(_like, held))))
        if key not in known:
            taken = timed(held) if held else 0.0
            known[key] = max(0.05 * taken, taken - least)
        alone.append(known[key])
    return dict(zip(parameters, divide(timed(every, between), alone, [1.0] * len(alone)), strict=True))
