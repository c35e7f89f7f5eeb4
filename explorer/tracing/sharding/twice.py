"""Models that groups divide along two axes: tokens or experts over inner groups, whose members divide tensors.

What one inner group runs of the model is divided again as if it were a whole one. What changes how a tensor is divided
among inner groups is a call like any other then: each member makes it of its share, with its counterparts in the other
groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from explorer.tracing.captured import NO_EXCHANGE, Captured, Exchange, Node, Value
from explorer.tracing.sharding.dimensions import Leaves
from explorer.tracing.sharding.loops import Known, Loop
from solvers.problem.collectives import COLLECTIVE, Axis, along, by_expert, divided_along, is_outer


def to_divide_again(member: Captured, degree: int) -> Captured:
    """What each of ``degree`` inner groups runs, as a whole model."""
    nodes = tuple(
        replace(
            node,
            target=along(member.axis, node.target) if node.target.startswith(COLLECTIVE) else node.target,
            exchange=NO_EXCHANGE,
            outer=node.exchange,
        )
        for node in member.nodes
    )
    outer = replace(member, nodes=nodes)
    return replace(outer, whole={}, saved_whole=(), load=1.0, redundant=0, axis=Axis.TENSOR, outer=(outer, degree))


def loops_across(known: Known, node: Node) -> tuple[Loop, ...]:
    """A change of how a tensor is divided among inner groups: along dimensions that stay as long, and along the part of
    the others that stays together when it is scattered or gathered."""
    (_, read), made = node.tensors[0], node.outputs[0]
    assert known.captured.outer is not None  # there are no such calls else
    stated, degree = known.captured.outer[0].whole, known.captured.outer[1]
    result: list[Leaves] = []
    loops: list[Loop] = []
    for dim, (before, after) in enumerate(zip(known.value(read).shape, known.value(made).shape, strict=True)):
        own = known.of[read][dim]
        mapped = own
        if by_expert(dim) in (stated[read].placement, stated[made].placement):  # rows come in an order of their own
            own = mapped = ()
        elif before == after * degree:
            pieces = _pieces(stated[made].placement)
            outside, _, inside = known.dimensions.reshape([own], [pieces, degree, after // pieces])
            own = mapped = (*outside, *inside)
        elif after == before * degree:
            pieces = _pieces(stated[read].placement)
            outside, inside = known.dimensions.reshape([own], [pieces, before // pieces])
            own, mapped = (*outside, *known.dimensions.new(degree), *inside), (*outside, *inside)
        elif before != after:
            own = mapped = ()
        result.append(own)
        if mapped:
            loops.append(Loop(mapped, (dim,), (dim,)))
    known.set(made, result)
    return tuple(loops)


def _pieces(placement: str) -> int:
    """Into how many pieces a dimension is divided first."""
    return (divided_along(placement) or (0, 1))[1]


def shared_out(node: Node, of: Captured, values: Mapping[str, Value], names: Mapping[str, str]) -> Exchange:
    """What a member exchanges along the outer axis for a call of its inner group: as much less as it has of what is
    exchanged. That is the tensor that changes; of attention the keys; of a loss, the rows; of gradients, parameters.

    of: the inner group's graph. values: those of the member. names: by which it has the call's inputs."""
    if node.outer == NO_EXCHANGE:
        return NO_EXCHANGE
    name = node.tensors[0 if is_outer(node.target) or len(node.tensors) < 2 else 1][1]
    share = values[names[name]].numel / max(of.values[name].numel, 1)
    whole, held = (sum(some[name].nbytes for name in node.update_of) for some in (of.values, values))
    return replace(
        node.outer,
        forward_bytes=node.outer.forward_bytes * share,
        backward_bytes=node.outer.backward_bytes * share,
        update_bytes=node.outer.update_bytes * held / max(whole, 1),
    )
