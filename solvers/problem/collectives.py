"""What members of a tensor-parallel group exchange for an operator, and how a divided graph states its placements."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from solvers.problem.graph import Operator, OpGraph, Phase

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "ring", "point_to_point")
RING = "ring"
"""Keys and values that go from member to member while attention is computed with them (ring attention)."""
ATTENTION = "aten.scaled_dot_product_attention"
COLLECTIVE = "collective."
"""How the type of an operator begins that only changes how a tensor is divided over a group."""
REGROUP = "regroup"
"""Such an operator hands a tensor from a group to one of another size."""
FORWARD_KIND = {**{kind: kind for kind in KINDS[:4]}, REGROUP: "all_gather"}
BACKWARD_KIND = {
    "all_reduce": "all_reduce",
    "copy": "all_reduce",
    "all_gather": "reduce_scatter",
    "slice": "all_gather",
    "reduce_scatter": "all_gather",
    "all_to_all": "all_to_all",
    REGROUP: "all_gather",
}
"""By what such an operator is called: what its forward exchanges, and its backward, which is its mirror image."""


class Axis(StrEnum):
    """What the members of a group divide. TENSOR: matrices of parameters, and what is computed with them (tensor
    parallelism). CONTEXT: the tokens of a sample, with all parameters at every member (context parallelism). EXPERT:
    samples, and the experts of mixtures; all other parameters are at every member (expert parallelism)."""

    TENSOR = "tensor"
    CONTEXT = "context"
    EXPERT = "expert"

    @property
    def flag(self) -> str:
        return f"--{self.value}-parallel"

    @property
    def shares_samples(self) -> bool:
        """Whether members have samples of their own."""
        return self is Axis.EXPERT

    @property
    def divides(self) -> str:
        """In words: what groups divide."""
        return {"tensor": "tensors", "context": "tokens", "expert": "samples and experts"}[self.value]


BESIDE = ", "
"""Between what a tensor is among inner groups and what it is to the members of each, for people."""
_SHARD = re.compile(r"S\((\d+)(?:,(\d+))?\)")
WHOLE, UNSUMMED, PARTIAL = "R", "R+", "P"
"""Placements of a tensor over a group: every member has all of it, and all of its gradient; all of it, and a part of
its gradient's sum; a part of its sum (DTensor's Replicate and Partial)."""


def shard(dim: int, outer: int = 1) -> str:
    """Divided along a dimension (DTensor's Shard); outer: into so many pieces first, each of which is divided over all
    members (its _StridedShard)."""
    return f"S({dim})" if outer == 1 else f"S({dim},{outer})"


def divided_along(placement: str) -> tuple[int, int] | None:
    """The dimension along which a tensor is divided, and into how many pieces first; None where it is not, and of rows
    by expert."""
    match = _SHARD.fullmatch(placement)
    return None if match is None else (int(match[1]), int(match[2] or 1))


def by_expert(dim: int, slots: int = 0) -> str:
    """Of rows that were sorted by expert along a dimension: a member has those of its experts, as many as these were
    chosen (`Division.load`). slots: of a tensor with an entry for every expert where some have replicas
    (`Division.redundant`), so many experts of each member."""
    return f"E({dim},{slots})" if slots else f"E({dim})"


@dataclass(frozen=True, slots=True)
class DividedTensor:
    """A tensor of a divided model. shape: of the whole, at the graph's samples; grows: entries more with every other
    sample. item_bytes: of an entry. placement: `WHOLE`, `UNSUMMED`, `PARTIAL` or a `shard`. differentiable: whether it
    has a gradient. parameter: whether it is one. base: the tensor in whose storage it is, None for one of its own.
    members: of the group that has it, 0 where all groups of the graph are alike."""

    name: str
    shape: tuple[int, ...]
    placement: str
    item_bytes: int
    grows: float = 0.0
    differentiable: bool = False
    parameter: bool = False
    base: int | None = None
    members: int = 0


@dataclass(frozen=True, slots=True)
class DividedCall:
    """A call that each member makes. operator: of which forward operator it is a part, by position; None for a look at
    what comes from outside. arguments, inputs: names, and which tensors they are. integers: of its other arguments
    those that say along which dimensions it works. members: of the group that makes it, 0 where all are alike."""

    target: str
    arguments: tuple[str, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operator: int | None = None
    integers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    members: int = 0


@dataclass(frozen=True, slots=True)
class SavedForBackward:
    """What a call saves for the backward, in terms of the whole model. call: its position. tensors: which of its inputs
    and outputs. inside: bytes that it makes for that alone (statistics, masks), of the whole, at the graph's samples;
    grows: bytes more with every other sample."""

    call: int
    tensors: tuple[int, ...] = ()
    inside: float = 0.0
    grows: float = 0.0


@dataclass(frozen=True, slots=True)
class Division:
    """How the tensors of a graph lie over its groups: what one member runs, in an order that runs. outputs: tensors
    that the model returns. saved: in the order of the calls; None where that is not stated, as in older files. load:
    of the member whose experts are chosen most, over the mean. axis: what the members of every group divide. outer:
    where they divide a model that is divided already, how that is: its tensors and calls are those of inner groups,
    with the names that they have here, where they are whole. redundant: replicas of experts in every mixture beyond
    the first of each."""

    tensors: tuple[DividedTensor, ...]
    calls: tuple[DividedCall, ...]
    outputs: tuple[int, ...]
    saved: tuple[SavedForBackward, ...] | None = None
    load: float = 1.0
    axis: Axis = Axis.TENSOR
    outer: Division | None = None
    redundant: int = 0


def along(axis: Axis, target: str) -> str:
    """How the type of an operator that changes how a tensor is divided is written where it is along the outer axis:
    "collective.context.all_gather"."""
    return f"{COLLECTIVE}{axis.value}.{target.removeprefix(COLLECTIVE)}"


def is_outer(target: str) -> bool:
    """Whether an operator of that type changes how a tensor is divided along the outer axis of its group."""
    return target.startswith(COLLECTIVE) and target.count(".") > 1


def axes_of(graph: OpGraph) -> dict[Axis, int]:
    """What the members of a graph's groups divide, over how many, the outer axis first; tensors where nothing else
    is stated, and nothing for a model whose tensors are whole."""
    inner = graph.tensor_parallel // graph.outer_degree
    members = {Axis.TENSOR if graph.division is None else graph.division.axis: inner} if inner > 1 else {}
    if graph.division is not None and graph.division.outer is not None:
        members = {graph.division.outer.axis: graph.outer_degree, **members}
    return members


def axis_of(graph: OpGraph) -> Axis:
    """What the members of a graph's groups divide, the outer axis of two; tensors where nothing else is stated."""
    return next(iter(axes_of(graph)), Axis.TENSOR)


def redundant_experts(graph: OpGraph) -> int:
    """Replicas of experts in every mixture of a graph beyond the first of each."""
    division = graph.division
    return 0 if division is None else max(one.redundant for one in (division, division.outer or division))


def exchange_kind(operator: Operator) -> str:
    """What members of a tensor-parallel group do for an operator that exchanges something. Operators that compute add
    up statistics of rows, and updates gradients that each member has a part of; attention passes keys and values on."""
    if operator.op_type == ATTENTION and operator.phase is not Phase.UPDATE:
        return RING
    if not operator.op_type.startswith(COLLECTIVE) or operator.phase is Phase.UPDATE:
        return "all_reduce"
    kinds = FORWARD_KIND if operator.phase is Phase.FORWARD else BACKWARD_KIND
    return kinds[operator.op_type.rpartition(".")[2]]
