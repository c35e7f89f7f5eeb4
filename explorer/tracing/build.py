"""From captured graphs to a workload: fold, measure, mirror."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from explorer.tracing import backward
from explorer.tracing.captured import ITEM_BYTES, Captured
from explorer.tracing.flops import GROUPED, has_formula
from explorer.tracing.fold import Folded, fold, is_view
from explorer.tracing.forward import Forward, forward
from explorer.tracing.sizes import measure
from solvers.errors import TraceError
from solvers.formats.workload import Workload
from solvers.problem.collectives import DividedCall, DividedTensor, Division, SavedForBackward
from solvers.problem.graph import OpGraph

ALONG = frozenset(
    ["dim", "dim0", "dim1", "dims", "groups", "normalized_shape", "keepdim", "pad", "repeats", "start", "step"]
)
"""Arguments that say along which dimensions a call works, and where."""
SHOWN = 3
"""Operators that a note names."""


def build(small: Captured, large: Captured, *, reference: str, training: bool, tensor_parallel: int = 1) -> Workload:
    """``small`` and ``large`` are one model captured at two batches, with the same nodes (`same_nodes`).

    The graph's samples are those of ``small``.
    tensor_parallel: of how many members of a group they are what one runs. Raises TraceError if there is nothing to
    run, or nothing to train.
    """
    folded, made = operators(small, large)
    if training and not any(made.weights[group] for group in made.differentiated):
        raise TraceError(
            f"{small.name}: no output depends on a trainable parameter, so there is no backward;"
            " return the loss (or an output that requires a gradient), or trace for inference"
        )
    step = backward.training(made) if training else backward.inference(made)
    return Workload(
        graph=OpGraph(
            step.operators,
            step.tensors,
            samples=small.samples,
            name=small.name,
            tensor_parallel=tensor_parallel,
            division=division_of(small, large, folded) if small.whole else None,
            outer_degree=1 if small.outer is None else small.outer[1],
        ),
        reference=reference,
        training=training,
        parameters=sum(small.values[name].numel for name in small.parameters),
        notes=(*small.notes, *made.notes, *_uncosted(small, folded)),
    )


def operators(small: Captured, large: Captured) -> tuple[Folded, Forward]:
    """The calls of every forward operator, and the forward operators and tensors as `build` gives them: the
    tensors of a graph begin with ``edges``, in order. Raises TraceError if there is nothing to run."""
    folded = fold(small)
    if not folded.groups:
        raise TraceError(f"{small.name}: the forward calls no operator")
    sizes = list(zip(measure(small, folded), measure(large, folded), strict=True))
    return folded, forward(small, large, folded, sizes)


def division_of(small: Captured, large: Captured, folded: Folded) -> Division:
    """How the values of what one member runs lie over its group, and the calls that it makes; of a model that is
    divided along two axes, over each."""
    operator = {position: group for group, members in enumerate(folded.groups) for position in members}
    division = _division(small, large, operator)
    if small.outer is None or large.outer is None:
        return division
    within = {output: operator.get(at) for at, node in enumerate(small.nodes) for output in node.outputs}
    calls = enumerate(small.outer[0].nodes)
    of_group = {at: within[node.outputs[0]] for at, node in calls if node.outputs and node.outputs[0] in within}
    return replace(division, outer=_division(small.outer[0], large.outer[0], of_group))


def _division(small: Captured, large: Captured, operator: Mapping[int, int | None]) -> Division:
    """operator: by position of a call, the operator that it is a part of."""
    number = {name: at for at, name in enumerate(small.values)}
    tensors = []
    for name, value in small.values.items():
        whole, more = small.whole[name], math.prod(large.whole[name].shape)
        tensors.append(
            DividedTensor(
                name,
                whole.shape,
                whole.placement,
                ITEM_BYTES.get(value.dtype, 4),
                (more - math.prod(whole.shape)) / (large.samples - small.samples),
                value.requires_grad,
                name in small.parameters,
                number.get(value.base or ""),
                whole.members,
            )
        )
    calls = [
        DividedCall(
            node.target.removesuffix("_") if node.mutates else node.target,
            tuple(argument for argument, _ in node.tensors),
            tuple(number[name] for _, name in node.tensors),
            tuple(number[name] for name in node.outputs),
            operator.get(at),
            {key: sizes for key, value in node.constants.items() if key in ALONG and (sizes := _integers(value))},
            node.members,
        )
        for at, node in enumerate(small.nodes)
        if node.outputs
    ]
    place = {at: call for call, at in enumerate(at for at, node in enumerate(small.nodes) if node.outputs)}
    inside = {one.node: one.nbytes for one in large.saved_whole}
    saved = [
        SavedForBackward(
            place[one.node],
            tuple(number[name] for name in one.values),
            one.nbytes,
            (inside.get(one.node, one.nbytes) - one.nbytes) / (large.samples - small.samples),
        )
        for one in small.saved_whole
    ]
    outputs = tuple(number[name] for name in small.outputs)
    return Division(
        tuple(tensors), tuple(calls), outputs, tuple(saved), small.load, small.axis, redundant=small.redundant
    )


def _integers(value: object) -> tuple[int, ...]:
    values = value if isinstance(value, (list, tuple)) else (value,)
    return tuple(map(int, values)) if all(isinstance(each, int) for each in values) else ()


def build_all(small: Captured, large: Captured, *, training: bool) -> tuple[OpGraph, Folded]:
    """The graph alone, and the calls of its forward operators, which come first."""
    folded, made = operators(small, large)
    step = backward.training(made) if training else backward.inference(made)
    return OpGraph(step.operators, step.tensors, samples=small.samples, name=small.name), folded


def same_nodes(small: Captured, large: Captured) -> bool:
    """Whether two captures are of one graph: equal calls on equally named values, seen as equal views."""
    if len(small.nodes) != len(large.nodes) or small.values.keys() != large.values.keys():
        return False
    calls = all(
        a.target == b.target and a.tensors == b.tensors and a.outputs == b.outputs
        for a, b in zip(small.nodes, large.nodes, strict=True)
    )
    return calls and all(value.base == large.values[name].base for name, value in small.values.items())


def _uncosted(captured: Captured, folded: Folded) -> tuple[str, ...]:
    """What the FLOPs of a graph leave open, as notes: operators that read weights and have no formula, and how many
    rows each expert is taken to get."""
    return (*_without_formula(captured, folded), *_loads(captured, folded))


def _without_formula(captured: Captured, folded: Folded) -> Iterator[str]:
    calls: dict[str, int] = defaultdict(int)
    weights: dict[str, int] = {}
    for members in folded.groups:
        for position in members:
            node = captured.nodes[position]
            if has_formula(node.target) or is_view(captured, node):
                continue
            read = {captured.root(name) for _, name in node.tensors} & captured.parameters.keys()
            if read:
                calls[node.target] += 1
                weights.update({name: captured.values[name].numel for name in read})
    if not calls:
        return
    most = sorted(calls, key=lambda target: (-calls[target], target))
    shown = ", ".join(f"{target} x {calls[target]}" for target in most[:SHOWN]) + (", ..." if len(most) > SHOWN else "")
    total = sum(captured.values[name].numel for name in captured.parameters)
    several = sum(calls.values()) > 1
    yield (
        f"{sum(calls.values())} {'operators read' if several else 'operator reads'} {sum(weights.values()):,} of"
        f" {total:,} parameters and {'have' if several else 'has'} no formula for FLOPs ({shown}): counted as one an"
        " element of what goes in and comes out, which is far too few for a product; calibrate measures them"
    )


MIXTURE = "mixture of experts: "
"""How the note on a mixture's load begins."""


def _loads(captured: Captured, folded: Folded) -> Iterator[str]:
    products = [captured.nodes[p] for members in folded.groups for p in members if captured.nodes[p].target in GROUPED]
    sizes = set()
    if captured.whole:
        divided = [node for node in products if captured.whole[node.outputs[0]].placement.startswith("E")]
        for each in sorted({captured.whole[node.tensors[1][1]].shape[0] for node in divided}):
            more = f" and {captured.redundant} redundant ones" if captured.redundant else ""
            yield (
                f"{MIXTURE}{each} experts{more} are divided over the devices of a group, the busiest of which is taken"
                f" to have {captured.load:g} times the mean of rows (--expert-load); which rows go where is in the"
                " values"
            )
        return
    for node in products:
        rows, matrices = (captured.values[name].shape for _, name in node.tensors[:2])
        if len(rows) == 2 and len(matrices) == 3:
            sizes.add((matrices[0], math.ceil(rows[0] / matrices[0])))
    for experts, each in sorted(sizes):
        yield (
            f"{MIXTURE}{experts} experts are taken to be loaded evenly, {each:,} rows an expert for"
            f" {captured.samples:,} samples; which rows go where is in the values"
        )
