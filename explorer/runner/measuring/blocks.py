"""A model measured in blocks of operators, one after another, where all of it at once has no room.

A block is a run of operators in the graph's order; its parameters alone are there while it is measured. What it reads
of earlier blocks are the tensors that these gave for the same samples, kept on the CPU in between; its backward begins
at what it gives to later ones, as at an output of the model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from explorer.runner.model.program import Program
from explorer.runner.model.segment_module import Kind, SegmentProgram
from solvers.errors import RunError
from solvers.problem.graph import OpGraph

PER_PARAMETER = 4
"""In training: a gradient and two states of Adam, whose step is measured, beside the parameter."""
AT_ONCE = 3
"""Micro-batches whose saved activations are there at the same time."""


def bytes_of(program: Program, graph: OpGraph, samples: int) -> list[float]:
    """What each forward operator takes of memory where it is measured at so many samples: its parameters, what training
    keeps of them, and what its forward saves. Of a parameter that several operators read, the first one has it."""
    captured = program.captured
    size = {names.split(" = ")[0]: captured.values[value].nbytes for value, names in captured.parameters.items()}
    factor = PER_PARAMETER if graph.trains else 1
    found = [AT_ONCE * o.saved_bytes.at(samples) if graph.trains else 0.0 for o in graph.operators]
    found = found[: len(program.folded.groups)]
    for name, readers in program.readers.items():
        found[readers[0]] += factor * size[name]
    return found


def blocks_of(program: Program, sizes: Sequence[float], room_bytes: float) -> tuple[range, ...]:
    """As few runs of operators as hold at most ``room_bytes`` each (`bytes_of`); one that takes more is alone with what
    cannot be parted from it. Raises RunError if the operators do not stand in the order of the graph."""
    count = len(sizes)
    if sum(sizes) <= room_bytes:
        return (range(count),)
    if any(reader <= edge.producer for edge in program.edges for reader in edge.consumers):
        raise RunError(f"{program.reference}: its operators cannot be measured in blocks, which they must be here")
    together = [(min(pair), max(pair)) for pair in ((reader, writer) for reader, writer, _ in program.early_reads)]
    blocks, first, held = [], 0, 0.0
    cut = 0  # the last place where the block could end
    for operator, size in enumerate(sizes):
        if operator > first and not any(low < operator <= high for low, high in together):
            cut = operator
        if held + size > room_bytes and cut > first:
            blocks.append(range(first, cut))
            first, held = cut, sum(sizes[cut:operator])
        held += size
    return (*blocks, range(first, count))


def room_for(sizes: Sequence[float], asked: int | None, free_bytes: float) -> float:
    """Bytes of a block: an equal share of all where a number of blocks is asked for, else what is free."""
    return free_bytes if asked is None else math.ceil(sum(sizes) / asked)


class Boundaries:
    """What blocks gave for later ones, by number of samples and forward tensor."""

    def __init__(self, program: Program, device: torch.device) -> None:
        self.program, self.device = program, device
        self._kept: dict[tuple[int, int], Tensor] = {}

    def inputs(self, segment: SegmentProgram, samples: int, given: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Of a block's module, on the device. given: the model's inputs."""
        return tuple(
            self._kept[samples, one.position].to(self.device).requires_grad_(one.gradient)
            if one.kind is Kind.TENSOR
            else given[one.position]
            for one in segment.inputs
        )

    def keep(self, segment: SegmentProgram, samples: int, outputs: Sequence[Tensor]) -> None:
        """What a block gave."""
        for one, value in zip(segment.outputs, outputs, strict=True):
            if one.kind is Kind.TENSOR:
                self._kept[samples, one.position] = value.detach().to("cpu", copy=True)

    def forget(self, operator: int) -> None:
        """What only operators before this one read."""
        last = {tensor: max(self.program.edges[tensor].consumers) for _, tensor in self._kept}
        self._kept = {(n, tensor): value for (n, tensor), value in self._kept.items() if last[tensor] >= operator}
