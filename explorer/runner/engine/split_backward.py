"""The backward of a segment in two halves: the gradients of its inputs, and later those of its parameters.

Right for any graph. Torch's own halves (`torch.distributed.pipelining._backward`) are meant for chains: what reaches a
parameter from an output that no input's path joins is lost, and a parameter that ties two others together is
counted twice.

The rule. A node of the autograd graph is on the way if an input that wants a gradient can be reached from it. All
that arrives at such a node comes from nodes on the way, so the first half runs these alone, and what arrives at them
is final. The other nodes lead to parameters only. Gradients come to them from *crossings*, nodes on the way with an
edge off it, and from outputs that are off the way themselves. The first half notes what arrives at the crossings;
the second begins there and at those outputs.

It does so part by part. A part is what hangs together off the way, with its crossings: all that any parameter of it
receives, so that one run of a part gives each of its parameters its whole gradient, once. Where a part has several
crossings (a parameter that is read twice), torch runs what lies between them on the way too; each crossing is then
given what arrived in the first half, and nothing that such a run brings is taken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

Gradients = tuple[Tensor | None, ...]
"""What arrives at a node: one for each of its outputs in the forward."""


@dataclass(frozen=True, slots=True)
class Part:
    """What is left to do for some parameters that nothing ties to the others.

    crossings: what arrived at each. ends: outputs off the way, with their gradients. leaves: the parameters.
    """

    crossings: Mapping[Node, Gradients]
    ends: tuple[tuple[GradientEdge, Tensor], ...]
    leaves: tuple[GradientEdge, ...]


def backward_whole(ends: Sequence[GradientEdge], starts: Sequence[Tensor], inputs: Sequence[Tensor]) -> Gradients:
    """The gradients of the inputs (None where none arrives); those of parameters are added to their ``.grad``."""
    torch.autograd.backward(ends, starts)
    gradients = tuple(value.grad for value in inputs)
    for value in inputs:
        value.grad = None
    return gradients


def backward_inputs(
    ends: Sequence[GradientEdge], starts: Sequence[Tensor], inputs: Sequence[Tensor]
) -> tuple[Gradients, tuple[Part, ...]]:
    """The gradients of the inputs (None where none arrives), and what is left for `backward_parameters`.

    ends: of outputs that require a gradient, starts: theirs. inputs: leaves; only those that require a gradient get
    one. No ``.grad`` is touched. The parts hold the crossings and what torch keeps behind them until they are dropped;
    what lies between the outputs and the first crossings is free once the caller drops the outputs.
    """
    wanted = [value for value in inputs if value.requires_grad]
    hanging, on_way = _off_way(ends, [get_gradient_edge(value).node for value in wanted])
    crossings = [node for node in hanging if node in on_way]
    arrived: dict[Node, Gradients] = {}
    handles = [node.register_prehook(_note(arrived, node)) for node in crossings]
    try:
        made = iter(torch.autograd.grad(ends, wanted, starts, retain_graph=True, allow_unused=True) if wanted else ())
    finally:
        for handle in handles:
            handle.remove()
    gradients = tuple(next(made) if value.requires_grad else None for value in inputs)
    late = [(root, start) for root, start in zip(ends, starts, strict=True) if root.node not in on_way]
    parts = []
    left = dict(hanging)
    while left:
        members = _reached([next(iter(left))], hanging.__getitem__)
        for node in members:
            del left[node]
        parts.append(
            Part(
                {node: arrived[node] for node in members if node in on_way},
                tuple((root, start) for root, start in late if root.node in members),
                tuple(GradientEdge(node, 0) for node in members if not any(_next(node))),
            )
        )
    return gradients, tuple(parts)


def backward_parameters(parts: Iterable[Part]) -> None:
    """Adds to the parameters' ``.grad`` what the whole backward would have added. Parts can be run once."""
    # A run of several crossings passes nodes of other parts on the way, which therefore must not be freed yet.
    for part in sorted(parts, key=lambda part: -len(part.crossings)):
        begins = [*part.ends]
        for node, arrived in part.crossings.items():
            begins += [(GradientEdge(node, k), value) for k, value in enumerate(arrived) if value is not None]
        if not begins:
            continue
        handles = [node.register_prehook(_give(arrived)) for node, arrived in part.crossings.items()]
        try:
            torch.autograd.backward(
                [edge for edge, _ in begins], [value for _, value in begins],
                inputs=part.leaves, retain_graph=len(part.crossings) > 1,
            )  # fmt: skip
        finally:
            for handle in handles:
                handle.remove()


def _off_way(
    roots: Sequence[GradientEdge], inputs: Sequence[Node]
) -> tuple[dict[Node, list[Node]], Mapping[Node, None]]:
    """(the nodes off the way and the crossings, each with those of them that it has an edge to or from; the nodes on
    the way)."""
    nodes = _reached([root.node for root in roots], _next)
    before: dict[Node, list[Node]] = defaultdict(list)
    for node in nodes:
        for following in _next(node):
            before[following].append(node)
    on_way = _reached([node for node in inputs if node in nodes], before.__getitem__)
    hanging: dict[Node, list[Node]] = {node: [] for node in nodes if node not in on_way}
    for node in list(hanging):
        for earlier in before[node]:
            hanging[node].append(earlier)
            hanging.setdefault(earlier, []).append(node)
    return hanging, on_way


def _next(node: Node) -> list[Node]:
    return [following for following, _ in node.next_functions if following is not None]


def _reached(starts: Iterable[Node], following: Callable[[Node], Iterable[Node]]) -> dict[Node, None]:
    """The nodes that can be reached, the starts too; in an order that depends on the graph's shape alone."""
    reached: dict[Node, None] = {}
    todo = list(starts)
    while todo:
        node = todo.pop()
        if node not in reached:
            reached[node] = None
            todo += following(node)
    return reached


def _note(arrived: dict[Node, Gradients], node: Node) -> Callable[[Gradients], None]:
    def note(gradients: Gradients) -> None:
        arrived[node] = gradients

    return note


def _give(arrived: Gradients) -> Callable[[Gradients], Gradients]:
    def give(_: Gradients) -> Gradients:
        return arrived

    return give
