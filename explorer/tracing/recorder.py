"""Runs an exported graph on fake tensors and writes down what the export does not say: which outputs
share storage, which carry gradients, and what autograd saves for the backward.

Saved is what PyTorch saves on a CPU, except that attention with dropout is taken to be fused, as it is
on a GPU. A GPU differs in small things: it keeps one byte for an element of a dropout mask, where a CPU
keeps one element of the input's dtype, and the bag of each index of an embedding bag.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from explorer.tracing.captured import Node, Saved, Value
from solvers.errors import TraceError

REGION = "placement-explorer region"
"""Under which a call's annotations have the name of the checkpointed region that it is in."""

DROPOUT = 4
"""Position of dropout_p among attention's arguments."""


class Tape:
    """Values, nodes and saved tensors, in the order they appear. Keeps every tensor alive, so that no
    id and no storage address is used twice."""

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []
        self.saved: list[Saved] = []
        self._tensors: dict[str, Tensor] = {}
        self._names: dict[int, str] = {}
        self._owner: dict[int, str] = {}
        self._sharing: dict[int, list[str]] = defaultdict(list)
        self._settled: set[int] = set()
        self._from_outside: set[int] = set()
        self._saved: list[Tensor] = []
        self._unnamed: list[tuple[int, int]] = []

    def name_of(self, tensor: Tensor) -> str:
        return self._names[id(tensor)]

    def enter_from_outside(self, name: str, tensor: Tensor) -> str:
        """A parameter, buffer or input: never counted as saved. A tied one keeps its first name."""
        if id(tensor) not in self._names:
            self._enter(name, tensor, None)
            self._settled.add(_storage(tensor))
            self._from_outside.add(_storage(tensor))
        return self._names[id(tensor)]

    def _enter(self, name: str, tensor: Tensor, base: str | None) -> None:
        self.values[name] = Value(
            name=name,
            shape=tuple(int(n) for n in tensor.shape),
            strides=tuple(int(n) for n in tensor.stride()),
            dtype=str(tensor.dtype).removeprefix("torch."),
            requires_grad=tensor.requires_grad,
            base=base,
        )
        self._tensors[name] = tensor
        # An in-place operator returns its input: from then on the tensor goes by the new name.
        self._names[id(tensor)] = name
        self._owner.setdefault(_storage(tensor), name)
        self._sharing[_storage(tensor)].append(name)

    def _refresh(self, storage: int) -> None:
        """Written into, a tensor and its views may carry a gradient that they did not carry before."""
        for name in self._sharing[storage]:
            carries = self._tensors[name].requires_grad
            if self.values[name].requires_grad != carries:
                self.values[name] = replace(self.values[name], requires_grad=carries)

    def pack(self, tensor: Tensor) -> Tensor:
        """The saved-tensor hook: the first operator to save a storage is charged with all of it, others with none."""
        storage = _storage(tensor)
        if storage in self._settled and storage not in self._from_outside:
            self.saved.append(Saved(len(self.nodes), self._owner.get(storage), 0))
        if storage not in self._settled:
            self._settled.add(storage)
            self._saved.append(tensor)
            owner = self._owner.get(storage)
            if owner is None:  # an output of the running operator, named in record(), or made inside it
                self._unnamed.append((len(self.saved), storage))
            self.saved.append(Saved(len(self.nodes), owner, int(tensor.untyped_storage().nbytes())))
        return tensor

    @staticmethod
    def unpack(tensor: Tensor) -> Tensor:
        return tensor

    def record(
        self, name: str, node: fx.Node, args: tuple[object, ...], kwargs: dict[str, object], result: object
    ) -> None:
        """Writes down one call that has just run."""
        tensors: list[tuple[str, str]] = []
        constants: dict[str, object] = {}
        written: list[str] = []
        for argument, value, writes in _arguments(node.target, args, kwargs):
            inside = [self.name_of(x) for x in pytree.tree_leaves(value) if isinstance(x, Tensor)]
            if not inside:
                constants[argument] = value
            tensors += [(argument, x) for x in inside]
            written += inside if writes else []
        read = {_storage(self._tensors[value]): value for _, value in reversed(tensors)}
        leaves = [x for x in pytree.tree_leaves(result) if isinstance(x, Tensor)]
        outputs = [name if len(leaves) == 1 else f"{name}.{position}" for position in range(len(leaves))]
        for output, tensor in zip(outputs, leaves, strict=True):
            self._enter(output, tensor, read.get(_storage(tensor)))
        for value in written:
            self._refresh(_storage(self._tensors[value]))
        for position, storage in self._unnamed:
            saved = self.saved[position]
            self.saved[position] = Saved(saved.node, self._owner.get(storage), saved.nbytes)
        self._unnamed.clear()
        self.nodes.append(
            Node(
                name, target_of(node), module_path(node), tuple(tensors), constants, tuple(outputs), tuple(written),
                (node.meta.get("custom") or {}).get(REGION, ""),
            )
        )  # fmt: skip


class Recorder(fx.Interpreter):
    """Runs a graph and records its calls on a Tape. Blocks under no_grad or autocast are run as part of the graph."""

    def __init__(self, graph: fx.GraphModule, tape: Tape, prefix: str = "") -> None:
        super().__init__(graph, garbage_collect_values=False)
        self.tape = tape
        self.prefix = prefix

    def run_node(self, n: fx.Node) -> object:
        if n.op != "call_function" or getattr(n.target, "__name__", "") == "getitem":
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if isinstance(n.target, torch._ops.HigherOrderOperator):
            return self._block(n, args)
        try:
            result = _run_as_on_a_gpu(n.target, args, kwargs)
        except Exception as error:
            error.module_path = module_path(n)  # type: ignore[attr-defined]
            error.stack_trace = n.meta.get("stack_trace") or ""  # type: ignore[attr-defined]
            raise
        self.tape.record(f"{self.prefix}{n.name}", n, args, kwargs, result)
        return result

    def _block(self, n: fx.Node, args: tuple[Any, ...]) -> object:
        kind = n.target.name()  # type: ignore[union-attr]  # of a higher-order operator
        context: Any
        if kind == "wrap_with_set_grad_enabled":
            enabled, block, *rest = args
            context = torch.set_grad_enabled(enabled and torch.is_grad_enabled())
        elif kind == "wrap_with_autocast":
            _, dtype, enabled, cache, block, *rest = args
            context = torch.autocast("cpu", dtype, enabled, cache)
        else:
            where = module_path(n) or "the top module"
            raise TraceError(f"in {where}: {kind} (control flow inside the graph) is not supported")
        with context:
            return Recorder(block, self.tape, f"{self.prefix}{n.name}.").run(*rest, enable_io_processing=False)


def _run_as_on_a_gpu(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    """Fused attention keeps a seed for its dropout; a CPU has no such kernel and would keep all scores."""
    if target is torch.ops.aten.scaled_dot_product_attention.default:
        args = (*args[:DROPOUT], *((0.0,) if len(args) > DROPOUT else ()), *args[DROPOUT + 1 :])
        kwargs = {name: value for name, value in kwargs.items() if name != "dropout_p"}
    return target(*args, **kwargs)


def _arguments(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[str, Any, bool]]:
    """(name, value, whether the operator writes into it) of every argument given."""
    schema = getattr(target, "_schema", None)
    if schema is None:
        yield from ((f"arg{i}", value, False) for i, value in enumerate(args))
        yield from ((name, value, False) for name, value in kwargs.items())
        return
    by_name = {argument.name: argument for argument in schema.arguments}
    given = {argument.name: value for argument, value in zip(schema.arguments, args, strict=False)}
    for name, value in {**given, **kwargs}.items():
        alias = by_name[name].alias_info
        yield name, value, alias is not None and alias.is_write


def target_of(node: fx.Node) -> str:
    """ "aten.linear" for torch.ops.aten.linear.default."""
    schema = getattr(node.target, "_schema", None)
    if schema is not None:
        return str(schema.name).replace("::", ".")
    return getattr(node.target, "__name__", str(node.target))


def module_path(node: fx.Node) -> str:
    """The innermost module the call was made in; "" is the top module."""
    stack = node.meta.get("nn_module_stack") or {}
    return str(list(stack.values())[-1][0]) if stack else ""


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
