"""Blocks that a model repeats: the layers of a transformer, the stages of a convolutional network.

A module list names its members by number (``model.layers.17``). What makes two of them one block many times over is
not the name: they are compared operator by operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from solvers.problem.graph import OpGraph, Phase
from solvers.problem.groups import group_of, together
from solvers.problem.problem import Problem


class Blocks(NamedTuple):
    """Equal blocks. container: the module whose numbered members they are. members: of each block its co-location
    groups (numbers in `together`), in the order in which their forward operators run; of two blocks, those at one
    position are equal."""

    container: str
    members: tuple[tuple[int, ...], ...]


@lru_cache(maxsize=1)
def repeated_blocks(problem: Problem) -> list[Blocks]:
    """Every family of two or more equal blocks, the outermost modules first; no operator is in two of them.

    Blocks are equal if they have the same operators in the same order, with the same types, sizes, times on every
    kind of device and places in the module, and the same tensors among them and across their border; what makes or
    reads those outside, and how many read them there, may differ, as it does at both ends of a model. A block whose
    operators must share a device with others outside it, and one that is pinned, belong to none.
    """
    graph = problem.graph
    signatures = _Signatures(problem)
    taken = np.zeros(len(signatures.groups), bool)
    taken[group_of(graph)[list(problem.pins)]] = True
    repeated: list[Blocks] = []
    for container, numbered in _containers(graph).items():
        alike: dict[tuple[object, ...], list[tuple[int, ...]]] = {}
        for path, inside in numbered.items():
            if not taken[inside].any() and signatures.is_inside(path, inside):
                alike.setdefault(signatures.of(path, inside), []).append(tuple(inside))
        for blocks in alike.values():
            if len(blocks) > 1:
                repeated.append(Blocks(container, tuple(blocks)))
                taken[[group for block in blocks for group in block]] = True
    return repeated


def _containers(graph: OpGraph) -> dict[str, dict[str, list[int]]]:
    """Of every module with several numbered members their paths, and the groups of each in the order of their first
    forward operators; the shortest paths first."""
    operators, number_of = graph.operators, group_of(graph).tolist()
    members_of: dict[str, dict[str, dict[int, None]]] = {}
    for o in graph.topological_order:
        if operators[o].phase is Phase.FORWARD:
            for container, path in numbered_members(operators[o].module_path):
                members_of.setdefault(container, {}).setdefault(path, {})[number_of[o]] = None
    several = {container: members for container, members in members_of.items() if len(members) > 1}
    ordered = sorted(several, key=lambda container: (container.count("."), container))
    return {container: {path: list(inside) for path, inside in several[container].items()} for container in ordered}


@lru_cache(maxsize=10_000)
def numbered_members(path: str) -> tuple[tuple[str, str], ...]:
    """("a.b", "a.b.3") for "a.b.3.c": the modules on the way whose members are numbered, and these members."""
    parts = path.split(".")
    numbers = [at for at, part in enumerate(parts) if part.isdecimal()]
    return tuple((".".join(parts[:at]), ".".join(parts[: at + 1])) for at in numbers)


class _Signatures:
    """All that is compared of blocks, as tuples: equal ones are equal blocks."""

    def __init__(self, problem: Problem) -> None:
        self.graph = problem.graph
        self.groups = together(problem.graph)
        tables = [table for _, table in sorted(problem.compute.seconds.items())]
        self.seconds = np.ascontiguousarray(np.hstack(tables))
        self.stated, self.transfer_s = problem.stated_bytes, problem.transfer_s
        self.message_of = {t: number for number, group in enumerate(self.graph.messages) for t in group}

    def is_inside(self, path: str, inside: Sequence[int]) -> bool:
        """Whether all forward operators of some groups are in a module."""
        operators = self.graph.operators
        own = [operators[o] for group in inside for o in self.groups[group] if operators[o].phase is Phase.FORWARD]
        return all(o.module_path == path or o.module_path.startswith(path + ".") for o in own)

    def of(self, path: str, inside: Sequence[int]) -> tuple[object, ...]:
        """All of a block: path, of its module; inside, its groups."""
        operators = sorted(o for group in inside for o in self.groups[group])
        local = {o: position for position, o in enumerate(operators)}
        ends = np.cumsum([len(self.groups[group]) for group in inside]).tolist()
        each = tuple(self._operator(o, len(path), local) for o in operators)
        return (tuple(ends), tuple(local[o] for group in inside for o in self.groups[group]), each)

    def _operator(self, position: int, depth: int, local: dict[int, int]) -> tuple[object, ...]:
        graph, o = self.graph, self.graph.operators[position]
        made = tuple(self._tensor(t, local) for t in graph.outputs[position])
        read = {self.message_of[t]: t for t in graph.inputs[position] if graph.tensors[t].producer not in local}
        return (
            o.op_type, o.phase, o.module_path[depth:], o.flops, o.moved_bytes, o.param_bytes, o.frozen_bytes,
            o.factorable_bytes, o.buffer_bytes, o.gradient_sum_bytes, o.saved_bytes, o.workspace_bytes, o.replicable,
            None if o.forward_of is None else local[o.forward_of],
            self.seconds[position].tobytes(), None if self.stated is None else self.stated[position],
            made, tuple(sorted(self._size(t) for t in read.values())),
        )  # fmt: skip

    def _tensor(self, t: int, local: dict[int, int]) -> tuple[object, ...]:
        tensor = self.graph.tensors[t]
        inside = tuple(sorted(local[reader] for reader in tensor.consumers if reader in local))
        return self._size(t), tensor.shape, tensor.dtype, inside, len(inside) < len(tensor.consumers)

    def _size(self, t: int) -> tuple[float, float, float]:
        nbytes = self.graph.tensors[t].nbytes
        return nbytes.fixed, nbytes.per_sample, 0.0 if self.transfer_s is None else self.transfer_s[t]
