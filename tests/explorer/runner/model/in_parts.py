"""Runs a model segment by segment in one process, with detached hand-overs, and compares it with the whole."""

from __future__ import annotations

import random
from collections.abc import Sequence

import networkx as nx
import torch
from torch import Tensor

from explorer.runner.model.program import Kind, Program, SegmentProgram
from explorer.runner.model.weights import Held


def random_groups(program: Program, seed: int, count: int) -> list[list[int]]:
    """Operators in groups with an acyclic quotient: intervals of a random topological order."""
    rng = random.Random(seed)
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(program.folded.groups)))
    graph.add_edges_from((edge.producer, c) for edge in program.edges for c in edge.consumers)
    key = {node: rng.random() for node in graph}
    order = list(nx.lexicographical_topological_sort(graph, key=key.__getitem__))
    cuts = sorted(rng.sample(range(1, len(order)), min(count, len(order)) - 1))
    return [order[a:b] for a, b in zip([0, *cuts], [*cuts, len(order)], strict=True)]


def segments_of(program: Program, groups: Sequence[Sequence[int]], samples: int, held: Held) -> list[SegmentProgram]:
    return [program.segment(group, samples, held) for group in groups]


def run(segments: Sequence[SegmentProgram], samples: Sequence[Tensor], *, weight: float = 1.0) -> list[Tensor]:
    """The model's outputs; gradients of ``weight`` x the sum of all outputs are added to the parameters.

    What every segment says of shapes, dtypes and gradients is checked against what happens."""
    sent: dict[int, Tensor] = {}
    results: dict[int, Tensor] = {}
    ran = []
    for segment in segments:
        given = []
        for entry in segment.inputs:
            x = samples[entry.position] if entry.kind is Kind.SAMPLE else sent[entry.position].clone()
            assert (tuple(x.shape), x.dtype) == (entry.shape, entry.dtype)
            given.append(x.requires_grad_() if entry.gradient else x)
        made = segment.module(*given)
        for entry, x in zip(segment.outputs, made, strict=True):
            assert (tuple(x.shape), x.dtype) == (entry.shape, entry.dtype)
            assert x.requires_grad or not entry.gradient
            if entry.kind is Kind.TENSOR:
                sent[entry.position] = x.detach().contiguous()
            else:
                results[entry.position] = x.detach()
        ran.append((segment, given, made))
    gradients: dict[int, Tensor] = {}
    for segment, given, made in reversed(ran):
        starts = [
            (x, weight * torch.ones_like(x) if entry.kind is Kind.MODEL else gradients[entry.position])
            for entry, x in zip(segment.outputs, made, strict=True)
            if entry.gradient
        ]
        if starts:
            torch.autograd.backward([x for x, _ in starts], [g for _, g in starts])
        for entry, x in zip(segment.inputs, given, strict=True):
            assert (x.grad is not None) == entry.gradient, entry
            if x.grad is not None:
                before = gradients.get(entry.position)
                gradients[entry.position] = x.grad if before is None else before + x.grad
    return [results[position] for position in sorted(results)]


def difference(tensor: Tensor, expected: Tensor) -> float:
    """max|difference| / max|expected|."""
    return float((tensor - expected).abs().max()) / (float(expected.abs().max()) or 1.0)


def largest_difference(tensors: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """The largest over tensors of max|difference| / max|gradient|. A gradient that is 0 but for rounding (of a
    key's bias, which a softmax does not feel) is measured against a thousandth of the largest of all."""
    assert tensors.keys() == expected.keys()
    floor = 1e-3 * max(float(gradient.abs().max()) for gradient in expected.values())
    return max(
        float((tensors[name] - expected[name]).abs().max()) / max(floor, float(expected[name].abs().max()))
        for name in expected
    )


def gradients_of(parameters: dict[str, torch.nn.Parameter]) -> dict[str, Tensor]:
    """Gradients by name, taken away."""
    gradients = {name: p.grad.to_dense() for name, p in parameters.items() if p.grad is not None}
    for parameter in parameters.values():
        parameter.grad = None
    return gradients
