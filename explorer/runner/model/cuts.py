"""Which tensors can be cut into samples, where segments have micro-batches of different sizes, and which models keep a
state that depends on how they are cut."""

from __future__ import annotations

import math

from explorer.runner.model.program import Program, buffers_changed
from explorer.runner.scripts.script import Script
from explorer.tracing.captured import Captured, Node, Value
from explorer.tracing.views import SAME_WHEN_POSSIBLE, VIEWS
from solvers.errors import RunError

COUNTING = frozenset(
    f"aten.{name}"
    for name in ("arange", "range", "linspace", "logspace", "eye", "cumsum", "tril_indices", "triu_indices")
)
"""Calls whose result, where nothing of it was computed from samples, differs from one row to the next."""


def check_cuts(program: Program, script: Script) -> None:
    """Raises RunError for the first tensor of a channel that cannot be cut as the script wants it."""
    checked: set[int] = set()
    cuts = Cuts(program)
    for channel in script.channels:
        shares = {script.segments[s].share for s in (channel.source, *channel.readers)}
        if shares == {piece.samples for piece in channel.pieces}:
            continue
        for tensor in channel.tensors:
            if tensor not in checked:
                checked.add(tensor)
                cuts.check(tensor)


class Cuts:
    """Where samples lie in the tensors of a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._computed = from_samples(program.widest)
        self._counted = counted(program.widest)
        self._outermost = _outermost(program)

    def check(self, tensor: int) -> None:
        """Raises RunError if a forward tensor cannot be cut into samples and put together again.

        A tensor without samples can be (it is the same for all), unless it was computed from samples."""
        captured, edge = self.program.widest, self.program.edges[tensor]
        made = captured.nodes[self.program.folded.groups[edge.producer][0]]
        where = f"the output {list(captured.values[edge.value].shape)} of {made.name}"
        advice = "and cannot be cut into samples; give the segments that make and read it equal micro-batches"
        dim = self.program.sample_dim(edge.value)
        if dim is None:
            if edge.value in self._computed:
                raise RunError(f"{where} is one for all samples of a micro-batch {advice}")
        elif edge.value in self._counted - self._computed:
            raise RunError(f"{where} counts the samples of a micro-batch from its first one {advice}")
        elif edge.value not in self._outermost:
            raise RunError(f"{where} has the samples inside of dimension {dim}, not outermost, {advice}")


def from_samples(captured: Captured) -> frozenset[str]:
    """Values that are computed from an input that has the batch as its first dimension."""
    names = {name for name in captured.inputs if captured.values[name].shape[:1] == (captured.samples,)}
    for node in captured.nodes:
        if any(name in names for _, name in node.tensors):
            names.update(node.outputs)
            names.update(node.mutates)
            names.update(captured.root(name) for name in node.mutates)
    return frozenset(names)


def counted(captured: Captured) -> frozenset[str]:
    """Values that depend on a row's number, such as an ``arange``."""
    names: set[str] = set()
    for node in captured.nodes:
        if node.target in COUNTING or any(name in names for _, name in node.tensors):
            names.update(node.outputs)
    return frozenset(names)


def _outermost(program: Program) -> frozenset[str]:
    """Values of which the dimension with the samples has all of a sample's rows next to one another."""
    captured = program.widest
    outermost = {name for name in captured.inputs if captured.values[name].shape[:1] == (captured.samples,)}
    for node in captured.nodes:
        for name in node.outputs:
            dim = _dim(program, name)
            if dim is not None and (_rows(captured, name, dim) == 1 or _is_whole(program, node, name, dim, outermost)):
                outermost.add(name)
    return frozenset(outermost)


def _is_whole(program: Program, node: Node, name: str, dim: int, outermost: set[str]) -> bool:
    """Whether a call that has several rows a sample keeps each sample's together."""
    captured = program.widest
    value = captured.values[name]
    read = [(source, _dim(program, source)) for _, source in node.tensors]
    read = [(source, at) for source, at in read if at is not None]
    if not read or any(source not in outermost for source, _ in read):
        return False
    if len(read) == 1 and node.target in VIEWS | SAME_WHEN_POSSIBLE:
        source, at = read[0]
        if captured.values[source].numel == value.numel and captured.values[source].shape != value.shape:
            return at == _first_merged(captured.values[source], math.prod(value.shape[:dim]))
    return all(captured.values[source].shape[at] == value.shape[dim] for source, at in read if at is not None)


def _first_merged(source: Value, before: int) -> int:
    """The first dimension of more than 1 after so many elements' worth of dimensions; -1: none begins there."""
    product = 1
    for dim, size in enumerate(source.shape):
        if product == before and size != 1:
            return dim
        product *= size
    return -1


def _rows(captured: Captured, name: str, dim: int) -> int:
    return captured.values[name].shape[dim] // captured.samples


def _dim(program: Program, name: str) -> int | None:
    try:
        return program.sample_dim(name)
    except RunError:
        return None


def check_states(program: Program, script: Script) -> None:
    """Raises RunError where a plan would change the order in which such a buffer is written and read: with
    several micro-batches, replicas or recomputation, which writes it twice. And where each of several devices would
    change or count in one of its own, as they would where a norm without parameters is called on both."""
    changed = [program.changed_by(segment.operators) for segment in script.segments]
    for name in sorted(frozenset().union(*changed)):
        homes = {at.devices for at, names in zip(script.segments, changed, strict=True) if name in names}
        if len(homes) > 1:
            where = " and ".join("-".join(map(str, each)) for each in sorted(homes))
            raise RunError(
                f"{program.reference}: operators on devices {where} change the buffer {name}, so that none would have"
                " all of it; pin them to one device"
            )
    counters = [program.captured.nodes[p] for positions in program.counters.values() for p in positions]
    counted = frozenset().union(*(buffers_changed(program.captured, node) for node in counters))
    for name in sorted(computed_with(program.captured)):
        readers = {
            group
            for group, members in enumerate(program.folded.groups)
            for position in members
            if name in {program.captured.root(given) for _, given in program.captured.nodes[position].tensors}
        }
        for segment, names in zip(script.segments, changed, strict=True):
            if not readers.intersection(segment.operators):
                continue
            if segment.share != script.mini_batch or segment.recompute:
                raise RunError(
                    f"{program.reference}: its forward writes the buffer {name} and computes with it, so it depends on"
                    " the order of the samples; plan with one micro-batch, without replicas and recomputation"
                )
            if name in counted - names:
                raise RunError(
                    f"{program.reference}: its forward counts in the buffer {name}, and operators of several stages"
                    " compute with it, of which one would see the count; plan them into one stage"
                )


def computed_with(captured: Captured) -> frozenset[str]:
    """Buffers that a call writes and another one reads. Statistics that are only kept, as a batch norm keeps its
    running ones, are none."""
    written = {captured.root(value) for node in captured.nodes for value in node.mutates} & set(captured.buffers)
    return frozenset(
        buffer
        for node in captured.nodes
        for buffer in written.intersection(captured.root(given) for _, given in node.tensors)
        if buffer not in {captured.root(value) for value in node.mutates}
        and any(captured.values[output].base is None for output in node.outputs)
    )
