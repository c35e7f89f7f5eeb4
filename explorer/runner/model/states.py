"""Models that keep a state in a buffer and compute with it: they depend on the order of all their samples."""

from __future__ import annotations

from explorer.runner.model.program import Program
from explorer.runner.scripts.script import Script
from explorer.tracing.captured import Captured
from solvers.errors import RunError


def check_states(program: Program, script: Script) -> None:
    """Raises RunError where a plan would change the order in which such a buffer is written and read: with
    several micro-batches, replicas or recomputation, which writes it twice."""
    for name in sorted(computed_with(program.captured)):
        readers = {
            group
            for group, members in enumerate(program.folded.groups)
            for position in members
            if name in {program.captured.root(given) for _, given in program.captured.nodes[position].tensors}
        }
        for segment in script.segments:
            whole = segment.share == script.mini_batch and not segment.recompute
            if not whole and readers.intersection(segment.operators):
                raise RunError(
                    f"{program.reference}: its forward writes the buffer {name} and computes with it, so it depends on"
                    " the order of the samples; plan with one micro-batch, without replicas and recomputation"
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
