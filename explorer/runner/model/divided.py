"""What one member of a group runs of a traced model: its calls at their shares, with the exchanges between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor, fx, nn
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from explorer.runner.model import group
from explorer.runner.model.flat import Flat, inside, nodes_in
from explorer.runner.model.weights import Held
from explorer.tracing.captured import Captured, Node
from explorer.tracing.sharding.choices import PARTIAL, WHOLE, Option, partial_gradients
from explorer.tracing.sharding.local import Part, member_of
from solvers.errors import RunError
from solvers.problem.collectives import COLLECTIVE

SHAPES = ("size", "shape")
"""Arguments that state the shape of what comes out."""


@dataclass(frozen=True)
class Divided:
    """How a model's calls are divided over groups of ``part.choices.degree`` members."""

    part: Part

    @property
    def members(self) -> int:
        return self.part.choices.degree

    def member_of(self, captured: Captured) -> Captured:
        """What one member runs of the whole model at some batch."""
        return member_of(self.part.choices, self.part.labels, captured)

    @cached_property
    def partial(self) -> frozenset[str]:
        """The parameters, as they are called in the capture, of which each member has a part of the gradient. Raises
        RunError for one that another call reads with all of its gradient."""
        choices, labels = self.part.choices, self.part.labels
        found, whole = set(), set()
        for at, option in labels.items():
            node = choices.captured.nodes[at]
            parts = {choices.source(name) for name in partial_gradients(choices, node, option)}
            found |= parts
            whole |= {choices.source(name) for _, name in node.tensors} - parts
        if both := sorted(found & whole):
            raise RunError(
                f"{choices.captured.parameters[both[0]]} is read by a call that is divided and by one that is not, so"
                " its gradients cannot be added up; plan with another degree"
            )
        return frozenset(found)

    @cached_property
    def option_of(self) -> Mapping[str, Option]:
        """Name of a call that computes -> how it is divided."""
        nodes = self.part.choices.captured.nodes
        return {nodes[at].name: option for at, option in self.part.labels.items()}

    def flat(self, whole: Captured, member: Captured, flat: Flat) -> Flat:
        """The calls of a member. whole, flat: of the whole model at a batch; member: `member_of` that."""
        return _Dividing(self, whole, member, flat).divided()


@dataclass(frozen=True)
class Placed:
    """How parameters, buffers and constants lie over the members of a group, by all their names in the module."""

    placements: Mapping[str, str]
    members: int = 1

    def is_share(self, name: str) -> bool:
        """Whether each member has another part of it."""
        return group.divided_along(self.placements.get(name, "")) is not None

    def share(self, name: str, tensor: Tensor, member: int) -> Tensor:
        """A member's share of a whole tensor; itself where it is not divided."""
        along = group.divided_along(self.placements.get(name, ""))
        return tensor if along is None else group.share_of(tensor, *along, self.members, member).clone()

    def together(self, name: str, share: Tensor) -> Tensor:
        """The whole of what the members of this process's group have shares of; all of them call it."""
        along = group.divided_along(self.placements.get(name, ""))
        return share if along is None else group.here().gather(share, *along)

    def whole_shape(self, name: str, shape: Sequence[int]) -> tuple[int, ...]:
        """That of the whole of a share."""
        along = group.divided_along(self.placements.get(name, ""))
        return tuple(size * self.members if along and dim == along[0] else size for dim, size in enumerate(shape))

    def held(self, held: Held, member: int) -> Held:
        """What a member holds of what is held whole."""
        if self.members == 1:
            return held
        parameters = {
            name: nn.Parameter(self.share(name, parameter.detach(), member), parameter.requires_grad)
            for name, parameter in held.parameters.items()
        }
        shared: dict[tuple[int, str], Tensor] = {}
        buffers = {}
        for name, buffer in held.buffers.items():  # one of several names stays one
            key = (id(buffer), self.placements.get(name, ""))
            if key not in shared:
                shared[key] = self.share(name, buffer, member)
            buffers[name] = shared[key]
        return Held(parameters, buffers, held.device, held.notes)


def placed(captured: Captured, flat: Flat, members: int) -> Placed:
    """captured: of a member; flat: its calls."""
    found = {s.target: captured.whole[flat.value_of[node]].placement for node, s in flat.sources.items() if s.target}
    for value, names in captured.parameters.items():
        found |= dict.fromkeys(names.split(" = "), captured.whole[value].placement)
    return Placed(found, members)


class _Dividing:
    def __init__(self, divided: Divided, whole: Captured, member: Captured, flat: Flat) -> None:
        self.divided_by, self.whole, self.member, self.old = divided, whole, member, flat
        self.new = Flat(fx.Graph(), constants=flat.constants)
        self.call_of = {output: node for node in whole.nodes for output in node.outputs}
        self.named = {node.name: node for node in whole.nodes}

    def divided(self) -> Flat:
        for old, source in self.old.sources.items():
            node = self.new.graph.placeholder(old.name)
            self.new.sources[node] = source
            self._gives(self.old.value_of[old], node)
        for call in self.member.nodes:
            if call.target.startswith(COLLECTIVE):
                self._exchange(call)
            else:
                self._call(call)
        return self.new

    def _gives(self, value: str, node: fx.Node) -> None:
        self.new.values.setdefault(value, node)
        self.new.value_of[node] = value

    def _exchange(self, call: Node) -> None:
        (_, read), (made,) = call.tensors[0], call.outputs
        placements = [self.member.whole[name].placement for name in (read, made)]
        node = self.new.graph.call_function(group.exchange, (self.new.values[read], *placements))
        self._called(call.name, node)
        self._gives(made, node)

    def _called(self, name: str, node: fx.Node) -> None:
        self.new.calls[name], self.new.name_of[node] = node, name

    def _call(self, call: Node) -> None:
        origin = self.call_of[call.outputs[0].partition("@")[0]] if call.outputs else self.named[call.name]
        old = self.old.calls[origin.name]
        names: dict[str, str] = {}
        for (_, before), (_, after) in zip(origin.tensors, call.tensors, strict=True):
            if names.setdefault(before, after) != after:
                raise RunError(
                    f"{call.name} reads {before} twice, divided in two ways, which is not run; plan with another degree"
                )
        known = {self.old.values[before]: self.new.values[after] for before, after in names.items()}
        args: Any = fx.map_arg(old.args, lambda node: self._known(node, known))
        kwargs: Any = fx.map_arg(old.kwargs, lambda node: self._known(node, known))
        target: Any = old.target
        contexts: tuple[Any, ...] = ()
        if target is inside:
            contexts, target, *rest = args
            args = tuple(rest)
        if isinstance(target, OpOverload):
            target, args, kwargs = self._at_shares(call, origin, target, args, kwargs)
        if contexts:
            if not isinstance(target, OpOverload):
                raise RunError(f"{call.name}, in a block such as autocast, cannot be divided; plan with another degree")
            args, target = (contexts, target, *args), inside
        node = self.new.graph.call_function(target, args, kwargs)
        node.meta["val"] = old.meta.get("val")
        self._called(call.name, node)
        for before, after in zip(origin.outputs, call.outputs, strict=True):
            self._gives(after, self._output(self.old.values[before], old, node))

    def _known(self, node: fx.Node, known: Mapping[fx.Node, fx.Node]) -> fx.Node:
        if node in known:
            return known[node]
        if node in self.old.value_of:
            return self.new.values[self.old.value_of[node]]
        raise RunError(f"{node.name} is no tensor of the model, which is not divided")

    def _output(self, old: fx.Node, call: fx.Node, new: fx.Node) -> fx.Node:
        """The node for an output of a call: itself, or one of its items."""
        if old is call:
            return new
        (of,) = nodes_in(old.args)
        return self.new.graph.call_function(old.target, (self._output(of, call, new), *old.args[1:]))  # type: ignore[arg-type]

    def _at_shares(
        self, call: Node, origin: Node, target: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """What is called in place of a call of the whole model. call: of the member, origin: the same of the whole."""
        names = [argument.name for argument in target._schema.arguments]
        given = dict(zip(names, args, strict=False)) | dict(kwargs)
        given |= self._sizes(call, origin, given)
        option = self.divided_by.option_of.get(origin.name)
        if option is not None and option.leaf != WHOLE:
            if option.outputs[0] == PARTIAL and isinstance(given.get("bias"), fx.Node):
                given["bias"] = self.new.graph.call_function(group.on_one, (given["bias"],))
            if special := self._special(origin.target, option):
                return special, tuple(given[name] for name in names if name in given), {}
        positional = tuple(given[name] for name in names[: len(args)])
        return target, positional, {name: given[name] for name in kwargs}

    def _special(self, target: str, option: Option) -> Callable[..., Any] | None:
        if target == "aten.cross_entropy_loss":
            return group.loss_of_classes if option.rows else group.loss_of_rows
        return group.rows if target == "aten.embedding" and option.places[0] == 0 else None

    def _sizes(self, call: Node, origin: Node, given: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments that state sizes, as a member has them."""
        name = origin.target.removeprefix("aten.").removesuffix("_")
        made = list(self.member.values[call.outputs[0]].shape) if call.outputs else []
        found: dict[str, Any] = {
            key: made for key in SHAPES if isinstance(given.get(key), (list, tuple)) and name != "cat"
        }
        if not call.tensors:
            return found
        local, shape = (
            captured.values[node.tensors[0][1]].shape
            for captured, node in ((self.member, call), (self.whole, origin))
        )  # fmt: skip
        if name == "unflatten":
            dim = int(given["dim"]) % len(shape)
            found["sizes"] = made[dim : dim + len(given["sizes"])]
        if name.startswith("conv") and int(given.get("groups", 1)) > 1:
            found["groups"] = local[1] // self.member.values[call.tensors[1][1]].shape[1]
        if name in ("split", "split_with_sizes", "slice", "narrow") and shape:
            dim = int(given.get("dim", 0)) % len(shape)
            if local[dim] != shape[dim]:
                cut = ("split_size", "split_sizes", "start", "end", "length")
                found |= {key: _scaled(given[key], local[dim], shape[dim]) for key in cut if given.get(key) is not None}
        return found


def _scaled(value: Any, share: int, whole: int) -> Any:
    """A length, or several, of what is divided."""
    return pytree.tree_map(lambda length: length if abs(length) > whole else length * share // whole, value)
