"""Marks between the operators of a graph as it runs, forward and backward, in place.

Forward: a copy of the graph's module in which a mark is set before every call. Backward: a mark when
autograd begins each of its nodes; a node belongs to the operator during whose call it was made. What lies
between two marks is thus all that happens there: the kernel, allocating, adding up gradients, and handing on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, fx
from torch.autograd.graph import Node
from torch.utils import _pytree as pytree

from explorer.runner.measuring.attribution import OUTSIDE
from explorer.runner.measuring.events import Events, Gpu

Run = tuple[list[tuple[int, float]], float]
"""Marks and the end, in seconds."""


class Clock(Protocol):
    """Sets marks while the device works, and returns them when it is done."""

    def start(self) -> None: ...
    def mark(self, operator: int) -> None: ...
    def stop(self) -> Run:
        """Waits for the device; the marks since `start`, and now."""
        ...


class CpuClock:
    """Calls return when their work is done: a mark is the time."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._marks: list[tuple[int, float]] = []

    def start(self) -> None:
        self._marks = []

    def mark(self, operator: int) -> None:
        self._marks.append((operator, self._now()))

    def stop(self) -> Run:
        return self._marks, self._now()


class CudaClock:
    """Calls only queue their work: a mark is an event in the queue, which records when the device came to it."""

    def __init__(self, device: torch.device, gpu: Gpu | None = None) -> None:
        self._events = Events(device, gpu)
        self._operators: list[int] = []

    def start(self) -> None:
        self._operators = []
        self._events.start()
        self._events.synchronize()

    def mark(self, operator: int) -> None:
        self._operators.append(operator)
        self._events.mark()

    def stop(self) -> Run:
        last = self._events.mark()
        self._events.synchronize()
        marks = [(operator, self._events.seconds(mark)) for mark, operator in enumerate(self._operators)]
        return marks, self._events.seconds(last)


def clock_of(device: torch.device, now: Callable[[], float]) -> Clock:
    """now: of a CPU; a GPU has its own."""
    return CudaClock(device) if device.type == "cuda" else CpuClock(now)


def marked(module: fx.GraphModule, owner: Mapping[str, int], clock: Clock) -> fx.GraphModule:
    """A module that computes the same and marks the start of every operator's calls; parameters are shared.

    owner: name of a node -> its operator; calls that are not in it belong to the operator before them.
    """
    graph = fx.Graph()
    values: dict[fx.Node, fx.Node] = {}
    graph.graph_copy(module.graph, values)
    marks: dict[int, Callable[[], None]] = {}
    current: int | None = None
    for node in module.graph.nodes:
        operator = owner.get(node.name)
        if operator is None or operator == current:
            continue
        current = operator
        if operator not in marks:
            marks[operator] = _mark(clock, operator)
        with graph.inserting_before(values[node]):
            graph.call_function(marks[operator])
    outputs = next(node for node in module.graph.nodes if node.op == "output")
    graph.output(fx.map_arg(outputs.args[0], lambda node: values[node]))
    return fx.GraphModule(module, graph)


def _mark(clock: Clock, operator: int) -> Callable[[], None]:
    def mark() -> None:
        clock.mark(operator)

    mark.__name__ = f"mark_{operator}"
    return mark


class Ownership(fx.Interpreter):
    """Runs a graph once and sees which operator each autograd node was made by.

    values: of every node that an operator read or made, by node name; kept so that single operators can be
    run backward again.
    """

    def __init__(self, module: fx.GraphModule, owner: Mapping[str, int]) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.owner = owner
        self.made_by: dict[Node, int] = {}

    def run_node(self, n: fx.Node) -> object:
        result = super().run_node(n)
        operator = self.owner.get(n.name)
        if operator is not None:
            for tensor in pytree.tree_leaves(result):
                if isinstance(tensor, Tensor) and tensor.grad_fn is not None:
                    self._take(tensor.grad_fn, operator)
        return result

    def _take(self, root: Node, operator: int) -> None:
        todo = [root]
        while todo:
            node = todo.pop()
            if node in self.made_by:
                continue
            self.made_by[node] = operator
            todo += [following for following, _ in node.next_functions if following is not None]


def walk(roots: Sequence[Tensor]) -> list[Node]:
    """Every autograd node behind ``roots``, in an order that depends on the graph's shape alone."""
    nodes: dict[Node, None] = {}
    todo = [tensor.grad_fn for tensor in reversed(roots) if tensor.grad_fn is not None]
    while todo:
        node = todo.pop()
        if node in nodes:
            continue
        nodes[node] = None
        todo += [following for following, _ in reversed(node.next_functions) if following is not None]
    return list(nodes)


def marked_backward(
    roots: Sequence[Tensor], gradients: Sequence[Tensor], operators: Sequence[int], clock: Clock
) -> Run:
    """Runs the backward with a mark at every node; operators: of each node of `walk`.

    The first mark, before any node, belongs to nobody.
    """
    nodes = walk(roots)
    if len(nodes) != len(operators):
        raise ValueError(f"the backward has {len(nodes)} nodes, and {len(operators)} were looked at")
    handles = [node.register_prehook(_hook(clock, k)) for node, k in zip(nodes, operators, strict=True)]
    clock.start()
    clock.mark(OUTSIDE)
    torch.autograd.backward(list(roots), list(gradients))
    run = clock.stop()
    for handle in handles:
        handle.remove()
    return run


def _hook(clock: Clock, operator: int) -> Callable[[Any], None]:
    def mark(_: Any) -> None:
        clock.mark(operator)

    return mark


def mark_costs(device: torch.device, clock: Clock, repeats: int = 20, length: int = 100) -> tuple[float, float]:
    """(seconds of a mark in the forward, of one in the backward): what the instrument itself takes.

    The backward one is the difference between a chain of small operators with and without marks, over
    their number; either is the least of some repeats.
    """
    forward = float("inf")
    for _ in range(repeats):
        clock.start()
        for _ in range(length):
            clock.mark(0)
        marks, end = clock.stop()
        forward = min(forward, max(0.0, end - marks[0][1]) / length)
    start = torch.zeros(1, device=device, requires_grad=True)
    one = torch.ones(1, device=device)

    def chain() -> Tensor:
        value = start
        for _ in range(length):
            value = -value
        return value

    with_marks = without = float("inf")
    for _ in range(repeats):
        end_of_chain = chain()
        marks, end = marked_backward([end_of_chain], [one], [0] * len(walk([end_of_chain])), clock)
        with_marks = min(with_marks, end - marks[0][1])
        end_of_chain = chain()
        clock.start()
        clock.mark(OUTSIDE)
        torch.autograd.backward([end_of_chain], [one])
        marks, end = clock.stop()
        without = min(without, end - marks[0][1])
    return forward, max(0.0, with_marks - without) / length
