"""Super-operators: operators that share a device, with their costs, for planners to place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from solvers.coarsening.traffic import Rows, Traffic
from solvers.kernels.arrays import Bools, Floats, Ints, inverse
from solvers.plan.segments import Place


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """Which operators are one super-operator, their order, and which of them share a hyperedge.

    Super-operators are numbered in a topological order of the forward graph (as far as it has one,
    where contiguity is not required). members: positions in the operator graph. nets: the
    super-operators on each hyperedge (two or more, ascending). traffic: the same, directed.
    """

    members: tuple[tuple[int, ...], ...]
    edges: tuple[tuple[int, int], ...]
    nets: tuple[tuple[int, ...], ...]
    traffic: Traffic
    predecessors: Rows = field(init=False)
    successors: Rows = field(init=False)
    nets_of: Rows = field(init=False)
    net_pins: Rows = field(init=False)
    net_sizes: Ints = field(init=False)

    def __post_init__(self) -> None:
        before: list[list[int]] = [[] for _ in self.members]
        after: list[list[int]] = [[] for _ in self.members]
        for u, v in self.edges:
            after[u].append(v)
            before[v].append(u)
        set_field = object.__setattr__
        set_field(self, "predecessors", Rows.of(before))
        set_field(self, "successors", Rows.of(after))
        set_field(self, "nets_of", Rows.of(inverse(self.nets, len(self))))
        set_field(self, "net_pins", Rows.of(self.nets))
        set_field(self, "net_sizes", np.array([len(pins) for pins in self.nets], np.int64))

    def __len__(self) -> int:
        return len(self.members)

    def placement(self, places: Iterable[Place]) -> list[Place]:
        """The devices of every operator of the graph, where every super-operator is on these devices."""
        placement: list[Place] = [()] * sum(map(len, self.members))
        for members, place in zip(self.members, places, strict=True):
            for operator in members:
                placement[operator] = place
        return placement


@dataclass(frozen=True, slots=True, eq=False)
class Contracted:
    """Super-operators with their costs at one micro-batch size.

    acc_s, cpu_s: seconds per sample on an accelerator (0 where not ``supported``) and on a CPU (inf
    where it cannot run), forward, backward and update together; [super-operators]. acc_pass_s,
    cpu_pass_s: the same by pass, forward and backward (with updates); [2, super-operators]. net_s:
    seconds per sample a device pays for a hyperedge that its set splits; [nets]. message_s: for a
    directed message of ``traffic`` that it sends or receives; [messages]. message_bytes,
    message_tensors: the size of one micro-batch's (one replica's share) and how many tensors of at least
    a byte it is made of; [messages]. static_bytes are held all
    the time; saved_bytes once per micro-batch in flight; workspace_bytes while one of its members
    runs. core_bytes: static_bytes without the trivial operators that were merged in: what this
    super-operator needs wherever they go. param_bytes: trained parameters, whose gradients replicas add up.
    merged: how many trivial super-operators were merged in.
    """

    shape: Shape
    samples: int
    acc_s: Floats
    cpu_s: Floats
    supported: Bools
    static_bytes: Floats
    core_bytes: Floats
    saved_bytes: Floats
    workspace_bytes: Floats
    net_s: Floats
    message_s: Floats
    message_bytes: Floats
    message_tensors: Ints
    acc_pass_s: Floats
    cpu_pass_s: Floats
    param_bytes: Floats
    merged: int

    def __len__(self) -> int:
        return len(self.shape)

    @property
    def traffic(self) -> Traffic:
        return self.shape.traffic

    @property
    def has_merged(self) -> bool:
        """Whether a trivial operator was merged into its neighbour."""
        return self.merged > 0
