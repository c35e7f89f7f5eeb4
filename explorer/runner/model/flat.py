"""An exported program as one flat list of calls: blocks opened, and every call named as it was captured."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from solvers.errors import RunError

SHARES = frozenset({"p", "dropout_p", "dropout"})
"""What the schemas of operators that drop activations call the share they drop."""

DROPPING = ("dropout", "scaled_dot_product", "lstm", "gru", "rnn_tanh", "rnn_relu")
"""Parts of the names of those operators."""


class From(StrEnum):
    """Where a tensor from outside of the graph is found."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"
    SAMPLE = "sample"


@dataclass(frozen=True, slots=True)
class Source:
    """A tensor from outside. target: its dotted name in the module, or the place among the tensor inputs."""

    kind: From
    target: str = ""
    position: int = -1


@dataclass(frozen=True)
class Flat:
    """graph: all calls in order; a call in a block is a call of a wrapper that sets the block's context.

    calls: name of a captured call -> its node. values: name of a captured value -> the node that gives it.
    value_of: the reverse. sources: placeholder -> what it stands for. constants: real values of tensor
    literals, by name (a plain tensor attribute of the module is not among them).
    """

    graph: fx.Graph
    calls: dict[str, fx.Node] = field(default_factory=dict)
    values: dict[str, fx.Node] = field(default_factory=dict)
    value_of: dict[fx.Node, str] = field(default_factory=dict)
    name_of: dict[fx.Node, str] = field(default_factory=dict)
    sources: dict[fx.Node, Source] = field(default_factory=dict)
    constants: dict[str, Tensor] = field(default_factory=dict)


def flatten(program: ExportedProgram, labels: dict[str, str], *, without_dropout: bool) -> Flat:
    """labels: name of a placeholder -> the value it was captured as (a tied parameter has one value).

    Raises RunError for control flow inside the graph."""
    flat = Flat(fx.Graph())
    _Flattener(flat, without_dropout).outermost(program, labels)
    return flat


Context = tuple[str, bool] | tuple[str, torch.device, torch.dtype | None, bool]
"""A block: (GRAD_MODE, enabled) or (AUTOCAST, device, dtype, enabled)."""

T = TypeVar("T")
GRAD_MODE, AUTOCAST = "grad mode", "autocast"


def inside(contexts: tuple[Context, ...], target: Callable[..., T], *args: object, **kwargs: object) -> T:
    """A call inside blocks, the outermost first. Casts of weights are not kept from call to call."""
    with ExitStack() as stack:
        for context in contexts:
            if len(context) == 2:
                stack.enter_context(torch.set_grad_enabled(context[1] and torch.is_grad_enabled()))
            else:
                _, device, dtype, enabled = context
                stack.enter_context(torch.autocast(device.type, dtype, enabled, cache_enabled=False))
        return target(*args, **kwargs)


class _Flattener:
    def __init__(self, flat: Flat, without_dropout: bool) -> None:
        self.flat = flat
        self.without_dropout = without_dropout

    def outermost(self, program: ExportedProgram, labels: dict[str, str]) -> None:
        flat, env = self.flat, {}
        placeholders = [node for node in program.graph_module.graph.nodes if node.op == "placeholder"]
        tensors = 0
        for spec, node in zip(program.graph_signature.input_specs, placeholders, strict=True):
            if node.name not in labels:  # a number or None among the inputs: fixed by the export
                env[node] = node.meta.get("val")
                continue
            new = flat.graph.placeholder(node.name)
            target = str(spec.target)
            if spec.kind is InputKind.USER_INPUT:
                flat.sources[new] = Source(From.SAMPLE, position=tensors)
                tensors += 1
            elif spec.kind is InputKind.PARAMETER:
                flat.sources[new] = Source(From.PARAMETER, target)
            elif spec.kind is InputKind.BUFFER:
                flat.sources[new] = Source(From.BUFFER, target)
            else:
                flat.sources[new] = Source(From.CONSTANT, target)
                value = program.constants.get(target)
                if isinstance(value, Tensor) and not isinstance(value, torch._subclasses.FakeTensor):
                    flat.constants[target] = value
            env[node] = new
            flat.value_of[new] = labels[node.name]
            flat.values.setdefault(labels[node.name], new)
        self.walk(program.graph_module, env, "", ())

    def walk(self, module: fx.GraphModule, env: dict[fx.Node, Any], prefix: str, context: tuple[Context, ...]) -> Any:
        """The outputs of the graph, as nodes of the flat one."""
        for node in module.graph.nodes:
            if node.op == "get_attr":
                env[node] = getattr(module, str(node.target))
            elif node.op == "call_function":
                env[node] = self.call(node, env, prefix, context)
            elif node.op == "output":
                return fx.map_arg(node.args[0], lambda n: env[n])
            elif node.op != "placeholder":
                raise RunError(f"the exported graph has a {node.op} ({node.name}), which cannot be run in parts")
        return None

    def call(self, node: fx.Node, env: dict[fx.Node, Any], prefix: str, context: tuple[Context, ...]) -> Any:
        args = tuple(_mapped(argument, env) for argument in node.args)
        kwargs = {name: _mapped(argument, env) for name, argument in node.kwargs.items()}
        if node.target is operator.getitem:
            return self.item(node, args)
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            return self.block(node, args, prefix, context)
        if self.without_dropout:
            args, kwargs = undropped(node.target, args, kwargs)
        target: Any = node.target
        if context:
            args, target = (context, target, *args), inside
        new = self.flat.graph.call_function(target, args, kwargs)
        name = f"{prefix}{node.name}"
        self.flat.calls[name] = new
        self.flat.name_of[new] = name
        new.meta["val"] = node.meta.get("val")
        if isinstance(new.meta["val"], Tensor):
            self._gives(new, name)
        return new

    def item(self, node: fx.Node, args: tuple[Any, ...]) -> Any:
        """One of several outputs; of a block, what was made inside."""
        of, index = args
        if not isinstance(of, fx.Node):
            return of[index]
        new = self.flat.graph.call_function(operator.getitem, (of, index))
        value = of.meta["val"]
        new.meta["val"] = value[index]
        if of in self.flat.name_of and isinstance(value[index], Tensor):
            name = self.flat.name_of[of]
            before = sum(isinstance(leaf, Tensor) for leaf in pytree.tree_leaves(list(value)[:index]))
            several = sum(isinstance(leaf, Tensor) for leaf in pytree.tree_leaves(value)) > 1
            self._gives(new, f"{name}.{before}" if several else name)
        return new

    def _gives(self, node: fx.Node, value: str) -> None:
        self.flat.values.setdefault(value, node)
        self.flat.value_of[node] = value

    def block(self, node: fx.Node, args: tuple[Any, ...], prefix: str, context: tuple[Context, ...]) -> Any:
        kind = node.target.name()  # type: ignore[union-attr]
        inner: Context
        if kind == "wrap_with_set_grad_enabled":
            enabled, body, *rest = args
            inner = (GRAD_MODE, enabled)
        elif kind == "wrap_with_autocast":
            device, dtype, enabled, _, body, *rest = args
            inner = (AUTOCAST, torch.device(device), dtype, enabled)
        else:
            raise RunError(f"{kind} (control flow inside the graph) cannot be run in parts")
        given = [n for n in body.graph.nodes if n.op == "placeholder"]
        return self.walk(body, dict(zip(given, rest, strict=True)), f"{prefix}{node.name}.", (*context, inner))


def undropped(
    target: object, args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """The arguments with the share that is dropped set to 0."""
    schema = getattr(target, "_schema", None)
    if schema is None or not any(part in schema.name for part in DROPPING):
        return args, kwargs
    names = [argument.name for argument in schema.arguments]
    new = tuple(
        0.0 if name in SHARES and isinstance(value, int | float) else value
        for name, value in zip(names, args, strict=False)
    )
    return new, {name: 0.0 if name in SHARES else value for name, value in kwargs.items()}


def on_device(value: T, device: torch.device) -> T:
    """Arguments with the device that the export wrote down replaced by the one of the run."""
    moved: T = pytree.tree_map_only(torch.device, lambda _: device, value)
    return moved


def nodes_in(value: object) -> Iterator[fx.Node]:
    yield from (leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, fx.Node))


def _mapped(argument: Any, env: dict[fx.Node, Any]) -> Any:
    return fx.map_arg(argument, lambda node: env[node])
