"""One module for the operators of a segment: what comes from other segments is an input, what others read
an output."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor, fx, nn

from explorer.runner.model.flat import Flat, From, Source, nodes_in, on_device
from explorer.tracing.captured import Captured, Node
from explorer.tracing.fold import Folded, is_view
from explorer.tracing.forward import Edge
from explorer.tracing.views import is_contiguous
from solvers.errors import RunError


class Kind(StrEnum):
    """TENSOR: a forward tensor of the graph; SAMPLE: an input of the model; MODEL: an output of the model."""

    TENSOR = "tensor"
    SAMPLE = "sample"
    MODEL = "model"


@dataclass(frozen=True, slots=True)
class Input:
    """position: of the forward tensor in the graph, or among the model's tensor inputs (``make_samples``).

    shape and dtype at the samples of the segment. gradient: whether this segment sends one back."""

    kind: Kind
    position: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    gradient: bool = False


@dataclass(frozen=True, slots=True)
class Output:
    """position: of the forward tensor in the graph, or among the model's outputs. gradient: whether one comes
    back for it (of an output of the model: whether the backward can start there)."""

    kind: Kind
    position: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    gradient: bool = False


@dataclass(frozen=True)
class SegmentProgram:
    """``module(*inputs)`` gives a tuple in the order of ``outputs``; its parameters are those of `Held`."""

    module: fx.GraphModule
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]


@dataclass(frozen=True)
class Parts:
    """A traced model as segments need it. captured, folded and edges are those of the graph; flat and sized are
    of the export at the samples of the segment (equal calls). calls_of: operator -> positions of its calls."""

    captured: Captured
    folded: Folded
    calls_of: Callable[[int], Collection[int]]
    edges: tuple[Edge, ...]
    flat: Flat
    sized: Captured


def build_segment(
    parts: Parts,
    operators: Collection[int],
    reads: Sequence[int],
    sends: Sequence[int],
    tensor_of: Mapping[Source, Tensor],
    device: torch.device,
) -> SegmentProgram:
    """operators: positions of forward operators. reads: forward tensors that come from outside; sends: those
    that are given. tensor_of: the parameters, buffers and constants by where they are found."""
    return _Builder(parts, frozenset(operators), tensor_of, device).build(reads, sends)


class _Builder:
    def __init__(
        self, parts: Parts, operators: frozenset[int], tensor_of: Mapping[Source, Tensor], device: torch.device
    ) -> None:
        self.parts, self.captured, self.flat = parts, parts.captured, parts.flat
        self.operators, self.tensor_of, self.device = operators, tensor_of, device
        self.graph = fx.Graph()
        self.env: dict[fx.Node, fx.Node] = {}
        self.received: dict[str, fx.Node] = {}
        self.samples: dict[int, fx.Node] = {}
        self.attributes: dict[str, Tensor] = {}
        self.attribute_of: dict[int, fx.Node] = {}
        self.call = {node.name: node for node in self.captured.nodes}
        self.made_by = {output: node for node in self.captured.nodes for output in node.outputs}
        positions = {position for group in operators for position in parts.calls_of(group)}
        self.nodes = [node for position, node in enumerate(self.captured.nodes) if position in positions]
        self.names = {node.name for node in self.nodes}
        self.written = {self.captured.root(value) for node in self.captured.nodes for value in node.mutates}

    def build(self, reads: Sequence[int], sends: Sequence[int]) -> SegmentProgram:
        edges, sized = self.parts.edges, self.parts.sized
        for position in reads:
            self.received[edges[position].value] = self.graph.placeholder(f"tensor_{position}")
        for position in range(len(self.captured.inputs)):
            self.samples[position] = self.graph.placeholder(f"sample_{position}")
        for node in self.nodes:
            self.take(self.flat.calls[node.name])
        sent = [self.value(edges[position].value) for position in sends]
        results = [
            (position, name)
            for position, name in enumerate(self.captured.outputs)
            if self.parts.folded.producer.get(self.captured.root(name)) in self.operators
        ]
        self.graph.output(tuple(sent + [self.value(name) for _, name in results]))
        self.drop_idle_views()
        used = [position for position, node in self.samples.items() if node.users]
        for sample in self.samples.values():
            if not sample.users:
                self.graph.erase_node(sample)
        module = fx.GraphModule(_root(self.attributes), self.graph, "Segment")
        inputs = [
            Input(Kind.TENSOR, p, *_size(sized, edges[p].value), bool(edges[p].with_gradient & self.operators))
            for p in reads
        ]
        inputs += [Input(Kind.SAMPLE, p, *_size(sized, self.captured.inputs[p])) for p in used]
        outputs = [Output(Kind.TENSOR, p, *_size(sized, edges[p].value), bool(edges[p].with_gradient)) for p in sends]
        outputs += [
            Output(Kind.MODEL, p, *_size(sized, name), self.captured.values[name].requires_grad) for p, name in results
        ]
        return SegmentProgram(module, tuple(inputs), tuple(outputs))

    def value(self, name: str) -> fx.Node:
        return self.take(self.flat.values[name])

    def take(self, node: fx.Node) -> fx.Node:
        """The node of the segment for a node of the whole graph; copied with what it needs."""
        if node not in self.env:
            self.env[node] = self._take(node)
        return self.env[node]

    def _take(self, node: fx.Node) -> fx.Node:
        name = self.flat.value_of.get(node)
        if node in self.flat.sources and name not in self.received:
            return self.outside(node)
        if self.owner(node) not in self.names and name is not None:
            if name in self.received:
                return self.received[name]
            made = self.made_by[name]
            if made.mutates:  # the tensor that was changed: what is received is as it was afterwards
                base = self.captured.values[name].base
                return self.value(str(base))
            if not is_view(self.captured, made):
                raise RunError(f"segment of operator {min(self.operators)}: {name} is computed elsewhere and not sent")
            self.check_copied(made)
            if len(made.tensors) > 1:
                return self.stand_in(made, name)
        args = fx.map_arg(node.args, self.take)
        kwargs = fx.map_arg(node.kwargs, self.take)
        assert not isinstance(node.target, str)  # it is a call of a function
        new = self.graph.call_function(node.target, on_device(args, self.device), on_device(kwargs, self.device))
        new.meta["call"] = self.owner(node)  # so that its time can be measured
        return new

    def owner(self, node: fx.Node) -> str:
        """The captured call that a node is, or takes an output of."""
        while node not in self.flat.name_of and node not in self.flat.sources:
            (node,) = nodes_in(node.args)
        return self.flat.name_of.get(node, "")

    def outside(self, node: fx.Node) -> fx.Node:
        source = self.flat.sources[node]
        if source.kind is From.SAMPLE:
            given = self.samples[source.position]
            if self.flat.value_of[node] in self.written:  # the mini-batch must stay as it is
                return self.graph.call_function(torch.ops.aten.clone.default, (given,))
            return given
        tensor = self.tensor_of[source]
        if id(tensor) not in self.attribute_of:
            attribute = f"{source.kind.value}_{len(self.attributes)}"
            self.attributes[attribute] = tensor
            self.attribute_of[id(tensor)] = self.graph.get_attr(attribute)
        return self.attribute_of[id(tensor)]

    def check_copied(self, made: Node) -> None:
        """A view by strides looks into the storage as it lay where it was made."""
        source = self.captured.values[made.tensors[0][1]]
        if made.target == "aten.as_strided" and not is_contiguous(source.shape, source.strides):
            raise RunError(
                f"{made.name} (as_strided) looks into the memory of a tensor of another segment, which is laid out"
                " otherwise when it is sent; keep both in one segment, or use a slice"
            )

    def stand_in(self, made: Node, name: str) -> fx.Node:
        """A view that takes its shape from another tensor, which is not here: the shape is known."""
        value, base = self.parts.sized.values[name], str(self.captured.values[name].base)
        of, shape = self.value(base), list(value.shape)
        source = self.parts.sized.values[base]
        if value.shape == source.shape:
            return of
        if value.numel == source.numel:
            return self.graph.call_function(torch.ops.aten.reshape.default, (of, shape))
        if made.target == "aten.meshgrid":
            position = made.outputs.index(name)
            ones = [size if i == position else 1 for i, size in enumerate(shape)]
            of = self.graph.call_function(torch.ops.aten.reshape.default, (of, ones))
        return self.graph.call_function(torch.ops.aten.expand.default, (of, shape))

    def drop_idle_views(self) -> None:
        """Views of this segment's outputs that only others would use."""
        idle = {
            new
            for old, new in self.env.items()
            if old not in self.flat.name_of or is_view(self.captured, self.call[self.flat.name_of[old]])
        }
        for node in reversed(self.graph.nodes):
            if node in idle and node.op == "call_function" and not node.users:
                self.graph.erase_node(node)


def _root(attributes: Mapping[str, Tensor]) -> nn.Module:
    root = nn.Module()
    for name, tensor in attributes.items():
        if isinstance(tensor, nn.Parameter):
            root.register_parameter(name, tensor)
        else:
            root.register_buffer(name, tensor, persistent=False)
    return root


def _size(captured: Captured, name: str) -> tuple[tuple[int, ...], torch.dtype]:
    value: Any = captured.values[name]
    return value.shape, getattr(torch, value.dtype)
