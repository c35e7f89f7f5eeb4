"""A second batch for a graph that was captured at one only, such as a file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from explorer.tracing.captured import Captured, Value
from explorer.tracing.flops import BAGS

if TYPE_CHECKING:
    from torch import nn

NOTE = "captured at one batch: what depends on the inputs is taken as proportional to the samples"


FIRST_IS_SEQUENCE = (
    "{layer} ({kind}) takes the sequence first (batch_first is False), and dimension 0 of the first input ({samples:,})"
    " was taken as the batch; if it is the sequence, give --batch-dim 1 (batch_dim=1)"
)


def sequence_first(module: nn.Module, samples: int) -> tuple[str, ...]:
    """A note if a layer of ``module`` wants the sequence before the batch, so that dimension 0 of the inputs may be
    either. samples: how long that is."""
    for path, part in module.named_modules():
        if getattr(part, "batch_first", None) is False:
            return (FIRST_IS_SEQUENCE.format(layer=path or "the module", kind=type(part).__name__, samples=samples),)
    return ()


def doubled(captured: Captured, dim: int = 0) -> tuple[Captured, Captured]:
    """The graph with a note, and the same at twice the samples.

    A value grows if it depends on an input with the batch as dimension ``dim``, has a dimension,
    and its elements divide evenly among the samples; so does a new tensor (zero states) of two
    dimensions or more of which the first is the batch, and so do the offsets of bags that grow. Exact
    unless a reduction over the batch leaves a tensor (not a scalar) whose size the samples happen to divide.
    """
    batch = captured.samples
    growing: set[str] = set()
    for name in captured.inputs:
        shape = captured.values[name].shape
        if len(shape) > dim and shape[dim] == batch:
            growing.add(name)
    for node in captured.nodes:
        if any(captured.root(name) in growing or name in growing for _, name in node.tensors):
            growing |= {o for o in node.outputs if _divides(captured.values[o], batch)}
        elif not node.tensors:
            made = {o: captured.values[o].shape for o in node.outputs}
            growing |= {o for o, shape in made.items() if len(shape) >= 2 and shape[min(dim, len(shape) - 1)] == batch}
    for node in captured.nodes:
        offsets = node.tensor("offsets") if node.target in BAGS else None
        if offsets is not None and node.outputs[0] in growing:
            growing.add(captured.root(offsets))
    values = {name: _grown(value, batch) if name in growing else value for name, value in captured.values.items()}
    saved = []
    for entry in captured.saved:
        # What an operator makes inside (statistics, masks) is taken to grow if what it reads does.
        reads = tuple(value for _, value in captured.nodes[entry.node].tensors)
        of = reads if entry.value is None else (entry.value,)
        grows = any(name in growing for name in of)
        saved.append(replace(entry, nbytes=entry.nbytes * 2) if grows else entry)
    noted = replace(captured, notes=(*captured.notes, NOTE))
    return noted, replace(noted, samples=2 * batch, values=values, saved=tuple(saved))


def _divides(value: Value, batch: int) -> bool:
    return bool(value.shape) and value.numel % batch == 0


def _grown(value: Value, batch: int) -> Value:
    """Doubles the batch dimension: of those that the samples divide, the one of the largest stride."""
    able = [dim for dim, size in enumerate(value.shape) if size % batch == 0] or [0]
    batch_dim = max(able, key=lambda dim: (value.strides[dim] if dim < len(value.strides) else 0, -dim))
    shape = tuple(2 * size if dim == batch_dim else size for dim, size in enumerate(value.shape))
    return replace(value, shape=shape)
