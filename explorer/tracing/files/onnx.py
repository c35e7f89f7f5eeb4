"""Read an ONNX file as a graph to plan: nothing in it is run, weights are sizes, other files are never opened.

The graph says what inference computes. For training its backward is mirrored as that of any forward, from what
comes out of it: ONNX holds no loss, and does not say which weights are frozen.
"""

from __future__ import annotations

import math
import mmap
import os
from dataclasses import replace

from explorer.tracing.batching import doubled
from explorer.tracing.build import build
from explorer.tracing.captured import Captured, Node, Value
from explorer.tracing.files.onnx_calls import STATES, call_of, row_major, strides_of
from explorer.tracing.files.onnx_model import OnnxGraph, OnnxNode, Tensor, checked, read_onnx
from explorer.tracing.files.onnx_shapes import with_shapes
from explorer.tracing.files.saved_rules import with_saved
from explorer.tracing.views import is_view_of
from solvers.errors import InvalidProblem, TraceError
from solvers.formats.workload import Workload

BATCH, LENGTH = 2, 128
"""Of dimension 0, and of any other, that a file leaves open."""
HOST_NUMEL = 4096
"""Integers up to so many that follow from shapes alone are arguments, and no operators."""

INFERENCE = "an ONNX graph: planned for inference; --training (training=True) adds an estimated backward"
TRAINING = (
    "an ONNX graph, planned for training: its backward is estimated from what comes out (there is no loss in it), every"
    " floating weight is taken to be trained, and dropout and batch norms are as in inference"
)
ELSEWHERE = "the bytes of {count:,} weights are in other files, which are not opened: only their shapes count"


def load_onnx(path: str | os.PathLike[str], *, training: bool | None = None) -> Workload:
    """The workload of an ONNX file: its forward, with an estimated backward and update if ``training``.

    Raises InvalidProblem, in one line, for anything but a well-formed model within the limits.
    """
    name = os.path.basename(os.fspath(path))
    try:
        with open(path, "rb") as file:
            if not os.fstat(file.fileno()).st_size:
                raise InvalidProblem("an empty file")
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # weights are skipped, not read
        graph, notes = _complete(memoryview(mapped), name)
        return _workload(graph, name, notes, training is True)
    except InvalidProblem as error:
        message = str(error)
        raise InvalidProblem(message if message.startswith(name) else f"{name}: {message}") from None
    except TraceError as error:
        raise InvalidProblem(str(error)) from error
    except OSError as error:
        raise InvalidProblem(f"{name}: cannot be opened: {error.strerror}") from error
    except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        # The file is a stranger's: whatever does not fit ends here.
        what = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise InvalidProblem(f"{name}: the graph is not as expected ({what})") from error


def _complete(data: memoryview, name: str) -> tuple[OnnxGraph, list[str]]:
    """The graph with all shapes, and notes on what was assumed."""
    graph = read_onnx(data)
    notes: list[str] = []
    open_sizes: list[str] = []
    sizes: dict[str, tuple[int, ...]] = {}
    for label in graph.inputs:
        stated = graph.tensors.get(label)
        if stated is None:
            raise InvalidProblem(f"input {label!r} has no shape")
        chosen = tuple(
            size if size is not None else BATCH if dim == 0 else LENGTH for dim, size in enumerate(stated.shape)
        )
        if not stated.is_known:
            open_sizes.append(f"{label} {list(chosen)}")
        sizes[label] = checked(chosen, label)
    if open_sizes:
        notes.append(f"the file leaves sizes of inputs open; assumed: {', '.join(open_sizes[:4])}")
    made = {output for node in graph.nodes for output in node.outputs if output}
    constants = [node.constant for node in graph.nodes if node.constant is not None]
    elsewhere = sum(tensor.elsewhere for tensor in (*graph.initializers.values(), *constants))
    if elsewhere:
        notes.append(ELSEWHERE.format(count=elsewhere))
    known = {label for label, tensor in graph.tensors.items() if tensor.is_known}
    if open_sizes or graph.functions or not made <= known:
        graph = read_onnx(with_shapes(data, sizes, name))
    return graph, notes


class _Reader:
    """Nodes in order, as calls."""

    def __init__(self, graph: OnnxGraph, training: bool) -> None:
        self.graph, self.training = graph, training
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []
        self.parameters: dict[str, str] = {}
        self.buffers: list[str] = []
        self.seen: set[str] = set()
        """Vectors that a node reads."""
        self.host: set[str] = set()
        """What is known before anything runs: shapes, and small constants."""

    def captured(self, name: str, notes: list[str]) -> Captured:
        graph = self.graph
        states = {node.inputs[i] for node in graph.nodes for i in STATES.get(node.op_type, ()) if i < len(node.inputs)}
        for tensor in graph.initializers.values():
            self._constant(tensor, tensor.name in states)
        for label in graph.inputs:
            self._enter(graph.tensors[label], False)
        for number, node in enumerate(graph.nodes):
            self._read(number, node)
        given = [label for label in graph.inputs if label in self.values]
        batches = [self.values[label].shape[0] for label in given if self.values[label].shape]
        if not batches or batches[0] < 1:
            raise InvalidProblem("no input of the graph has a batch dimension")
        read = {label for node in self.nodes for _, label in node.tensors}
        return Captured(
            name=name.removesuffix(".onnx"),
            samples=batches[0],
            values=self.values,
            nodes=tuple(self.nodes),
            parameters={label: label for label in self.parameters if label in read},
            buffers=tuple(self.buffers),
            inputs=tuple(given),
            outputs=tuple(dict.fromkeys(label for label in graph.outputs if label in self.values)),
            notes=tuple(notes),
        )

    def _constant(self, tensor: Tensor, state: bool) -> None:
        shape = checked((size or 0 for size in tensor.shape), tensor.name)
        floating = tensor.dtype.startswith(("float", "bfloat"))
        if not floating and math.prod(shape) <= HOST_NUMEL:
            self.host.add(tensor.name)
            return
        weight = not state and math.prod(shape) > 1
        self._enter(replace(tensor, shape=shape), self.training and weight and floating)
        if weight:
            self.parameters[tensor.name] = tensor.name
        else:
            self.buffers.append(tensor.name)

    def _enter(self, tensor: Tensor, requires_grad: bool) -> None:
        if tensor.name in self.values:
            raise InvalidProblem(f"two tensors are named {tensor.name!r}")
        shape = checked((size or 0 for size in tensor.shape), tensor.name)
        self.values[tensor.name] = Value(tensor.name, shape, row_major(shape), tensor.dtype, requires_grad)

    def _read(self, number: int, node: OnnxNode) -> None:
        outputs = [label for label in node.outputs if label]
        if node.op_type == "Constant":
            if node.constant is None:
                self.host.update(outputs)
            else:
                self._constant(replace(node.constant, name=outputs[0]), False)
            return
        stated = [self._stated(label, node) for label in outputs]
        unknown = [label for label in node.inputs if label and label not in self.values and label not in self.host]
        if unknown:
            raise InvalidProblem(f"node {node.name or node.op_type!r} reads {unknown[0]!r}, which is not there")
        small = all(math.prod(size or 0 for size in one.shape) <= HOST_NUMEL for one in stated)
        if node.op_type in ("Shape", "Size") or (small and all(x in self.host for x in node.inputs if x)):
            self.host.update(outputs)
            return
        node = self._own_vectors(node)
        target, tensors, constants = call_of(node, self.values, self.parameters)
        call = Node(_label(number, node), target, _module_path(node, tensors, self.parameters), tuple(tensors),
                    constants, tuple(outputs))  # fmt: skip
        source = self.values[tensors[0][1]] if tensors else None
        carries = self.training and any(self.values[label].requires_grad for _, label in tensors)
        for one in stated:
            self._enter(one, False)
            value = self.values[one.name]
            value = replace(value, strides=strides_of(call, source, value.shape, node.attributes))
            looks = source is not None and is_view_of(call, source, value) and len(value.strides) == len(value.shape)
            base = source.name if source is not None and looks else None
            if base is None:
                value = replace(value, strides=row_major(value.shape))
            self.values[one.name] = replace(value, base=base, requires_grad=carries and value.is_float)
        self.nodes.append(call)

    def _own_vectors(self, node: OnnxNode) -> OnnxNode:
        """Exports keep equal vectors (biases of zeros) once: every later reader gets a copy, so that it need not share
        the device of the first."""
        inputs = []
        for label in node.inputs:
            if label in self.parameters and len(self.values[label].shape) <= 1:
                if label in self.seen:
                    copy = f"{label}#{len(self.parameters)}"
                    self.values[copy] = replace(self.values[label], name=copy)
                    self.parameters[copy] = label = copy
                self.seen.add(label)
            inputs.append(label)
        return replace(node, inputs=tuple(inputs))

    def _stated(self, label: str, node: OnnxNode) -> Tensor:
        stated = self.graph.tensors.get(label)
        if stated is None or not stated.is_known:
            what = f"node {node.name or label!r} ({node.domain + '.' if node.domain else ''}{node.op_type})"
            raise InvalidProblem(f"{what}: the shape of what it gives depends on values, or is not known")
        return stated


def _label(number: int, node: OnnxNode) -> str:
    return f"{node.name or node.op_type}_{number}"


def _module_path(node: OnnxNode, tensors: list[tuple[str, str]], parameters: dict[str, str]) -> str:
    """From names as PyTorch exports them: "/layers.0/mlp/MatMul", or a weight "layers.0.mlp.weight"."""
    if "/" in node.name:
        return ".".join(part for part in node.name.split("/")[:-1] if part)[:500]
    weight = next((label for _, label in tensors if label in parameters), "")
    return weight.rpartition(".")[0][:500]


def _workload(graph: OnnxGraph, name: str, notes: list[str], training: bool) -> Workload:
    captured = _Reader(graph, training).captured(name, [*notes, TRAINING if training else INFERENCE])
    small, large = doubled(captured)
    if training:
        small, large = with_saved(small), with_saved(large)
    return build(small, large, reference=name, training=training)
