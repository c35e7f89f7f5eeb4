"""From captured graphs to a workload: fold, measure, mirror."""

from __future__ import annotations

from explorer.tracing import backward, uncosted
from explorer.tracing.captured import Captured
from explorer.tracing.fold import Folded, fold
from explorer.tracing.forward import Forward, forward
from explorer.tracing.sizes import measure
from solvers.errors import TraceError
from solvers.formats.workload import Workload
from solvers.problem.graph import OpGraph


def build(small: Captured, large: Captured, *, reference: str, training: bool) -> Workload:
    """``small`` and ``large`` are one model captured at two batches, with the same nodes (`same_nodes`).

    The graph's samples are those of ``small``. Raises TraceError if there is nothing to run, or
    nothing to train.
    """
    folded, made = operators(small, large)
    if training and not any(made.weights[group] for group in made.differentiated):
        raise TraceError(
            f"{small.name}: no output depends on a trainable parameter, so there is no backward;"
            " return the loss (or an output that requires a gradient), or trace for inference"
        )
    step = backward.training(made) if training else backward.inference(made)
    return Workload(
        graph=OpGraph(step.operators, step.tensors, samples=small.samples, name=small.name),
        reference=reference,
        training=training,
        parameters=sum(small.values[name].numel for name in small.parameters),
        notes=(*small.notes, *made.notes, *uncosted.notes(small, folded)),
    )


def operators(small: Captured, large: Captured) -> tuple[Folded, Forward]:
    """The calls of every forward operator, and the forward operators and tensors as `build` gives them: the
    tensors of a graph begin with ``edges``, in order. Raises TraceError if there is nothing to run."""
    folded = fold(small)
    if not folded.groups:
        raise TraceError(f"{small.name}: the forward calls no operator")
    sizes = list(zip(measure(small, folded), measure(large, folded), strict=True))
    return folded, forward(small, large, folded, sizes)


def same_nodes(small: Captured, large: Captured) -> bool:
    """Whether two captures are of one graph: equal calls on equally named values, seen as equal views."""
    if len(small.nodes) != len(large.nodes) or small.values.keys() != large.values.keys():
        return False
    calls = all(
        a.target == b.target and a.tensors == b.tensors and a.outputs == b.outputs
        for a, b in zip(small.nodes, large.nodes, strict=True)
    )
    return calls and all(value.base == large.values[name].base for name, value in small.values.items())
