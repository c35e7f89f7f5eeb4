"""Models that keep a state in a buffer. Those that compute with it depend on the order of all their samples."""

from __future__ import annotations

from explorer.runner.model.program import Program, buffers_changed
from explorer.runner.scripts.script import Script
from explorer.tracing.captured import Captured
from solvers.errors import RunError


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
