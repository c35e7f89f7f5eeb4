"""Regions of a segment whose forward runs again before its backward, through `torch.utils.checkpoint`.

A region is what `solvers.problem.regions` counts: of it only what comes in is kept, and what its cached operators
make. Where other operators run in between, each part of it runs again by itself; so does the part that a plan puts on
this device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, fx, nn
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

Region = tuple[str, bool]
"""The name of a region, and whether what the call makes is cached."""

T = TypeVar("T")
_CACHING: ContextVar[bool] = ContextVar("caching", default=False)
"""Whether a call is under way whose results are kept."""


def in_regions(module: fx.GraphModule, region_of: Mapping[str, Region]) -> fx.GraphModule:
    """``module`` with every region a part of its own that runs again. region_of: of calls, by ``meta["call"]`` of the
    module's nodes. Parameters and buffers are the module's own."""
    runs = _runs(module.graph, region_of)
    if not any(name for name, _ in runs):
        return module
    root, graph = nn.Module(), fx.Graph()
    env: dict[fx.Node, fx.Node] = {}
    for name, nodes in runs:
        if not name:
            for node in nodes:
                env[node] = graph.node_copy(node, env.__getitem__)
                if node.op == "get_attr":
                    _share(root, module, str(node.target))
            continue
        inside = set(nodes)
        inputs = list(dict.fromkeys(i for n in nodes for i in n.all_input_nodes if i not in inside))
        outputs = [n for n in nodes if any(user not in inside for user in n.users)]
        again = Again(_part(module, nodes, inputs, outputs, region_of), any(region_of[_call(n)][1] for n in nodes))
        attribute = f"region_{len(root._modules)}"
        root.add_module(attribute, again)
        made = graph.call_module(attribute, tuple(env[i] for i in inputs if i.op != "get_attr"))
        for place, output in enumerate(outputs):
            env[output] = graph.call_function(_nth, (made, place))
    return fx.GraphModule(root, graph, "Segment")


def once(call: Callable[..., tuple[Tensor, ...]], module: nn.Module) -> Callable[..., tuple[Tensor, ...]]:
    """The call, which changes the module's buffers the first time only: statistics of a batch count it once."""
    buffers = [buffer.data for buffer in module.buffers()]
    calls = 0

    def counted(*inputs: Tensor) -> tuple[Tensor, ...]:
        nonlocal calls
        calls += 1
        with _disable_current_modes():  # what keeps results of some calls is not to see these
            before = [buffer.clone() for buffer in buffers] if calls > 1 else []
        try:
            return call(*inputs)
        finally:  # torch ends a recomputation, by an exception, as soon as it has all it needs
            with _disable_current_modes():
                for buffer, value in zip(buffers, before, strict=False):
                    buffer.copy_(value)

    return counted


class Again(nn.Module):
    """A part of a region: called within a training forward, it keeps what comes in and runs again for the backward,
    in the context in which it was called first. caches: whether results of some of its calls are kept."""

    def __init__(self, body: fx.GraphModule, caches: bool) -> None:
        super().__init__()
        self.body, self.caches = body, caches

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        if not torch.is_grad_enabled():
            return self.body(*inputs)  # type: ignore[no-any-return]
        call = once(partial(copy_context().run, self.body), self.body)
        if not self.caches:
            return checkpoint(call, *inputs, use_reentrant=False)  # type: ignore[no-any-return]
        contexts = partial(create_selective_checkpoint_contexts, _policy)
        return checkpoint(call, *inputs, use_reentrant=False, context_fn=contexts)  # type: ignore[no-any-return]


def cached(target: Callable[..., T], *args: object, **kwargs: object) -> T:
    """A call whose results are kept, and not made again."""
    token = _CACHING.set(True)
    try:
        return target(*args, **kwargs)
    finally:
        _CACHING.reset(token)


def _policy(_context: Any, operator: Any, *_: Any, **__: Any) -> CheckpointPolicy:
    """A view within a call that is kept would keep what it looks at, which is what the call reads."""
    views = any(given.alias_info is not None for given in operator._schema.returns)
    return CheckpointPolicy.MUST_SAVE if _CACHING.get() and not views else CheckpointPolicy.PREFER_RECOMPUTE


def _nth(values: Sequence[Tensor], place: int) -> Tensor:
    return values[place]


def _call(node: fx.Node) -> str:
    return str(node.meta.get("call", ""))


def _runs(graph: fx.Graph, region_of: Mapping[str, Region]) -> list[tuple[str, list[fx.Node]]]:
    """The nodes in an order in which they can run, as stretches of one region each ("": of none). What does not read
    what a region makes goes before it, so that the region stays in one part: inputs, parameters, other calls that
    change nothing."""
    runs: list[tuple[str, list[fx.Node]]] = []
    for node in graph.nodes:
        name = region_of.get(_call(node), ("", False))[0] if node.op == "call_function" else ""
        if runs and runs[-1][0] == name:
            runs[-1][1].append(node)
        elif not name and runs and _movable(node) and not set(node.all_input_nodes) & set(runs[-1][1]):
            if len(runs) == 1 or runs[-2][0]:
                runs.insert(-1, ("", []))
            runs[-2][1].append(node)
        else:
            runs.append((name, [node]))
    return runs


def _movable(node: fx.Node) -> bool:
    """Whether it may run earlier than calls that it does not read from."""
    schema = getattr(node.target, "_schema", None)
    return node.op in ("placeholder", "get_attr") or (schema is not None and not schema.is_mutable)


def _part(
    module: fx.GraphModule, nodes: Sequence[fx.Node], inputs: Iterable[fx.Node], outputs: Iterable[fx.Node],
    region_of: Mapping[str, Region],
) -> fx.GraphModule:  # fmt: skip
    """A module of these nodes; parameters and buffers among the inputs are attributes of it."""
    root, graph = nn.Module(), fx.Graph()
    env: dict[fx.Node, fx.Node] = {}
    for node in inputs:
        if node.op == "get_attr":
            _share(root, module, str(node.target))
            env[node] = graph.get_attr(str(node.target))
    for node in inputs:
        if node.op != "get_attr":
            env[node] = graph.placeholder(node.name)
    for node in nodes:
        env[node] = graph.node_copy(node, env.__getitem__)
        if region_of[_call(node)][1] and isinstance(node.target, torch._ops.OpOverload):  # not one of its outputs
            env[node].args, env[node].target = (node.target, *env[node].args), cached
    graph.output(tuple(env[node] for node in outputs))
    return fx.GraphModule(root, graph, "Region")


def _share(root: nn.Module, module: fx.GraphModule, name: str) -> None:
    tensor = getattr(module, name)
    if isinstance(tensor, nn.Parameter):
        root.register_parameter(name, tensor)
    elif name not in root._buffers:
        root.register_buffer(name, tensor, persistent=False)
