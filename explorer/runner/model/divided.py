"""What one member of a group runs of a traced model: its calls at their shares, with the exchanges between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor, fx, nn
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from explorer.runner.model import rings
from explorer.runner.model.exchanges import group, ring, routed
from explorer.runner.model.flat import Flat, inside, nodes_in
from explorer.runner.model.weights import Held
from explorer.tracing.captured import Captured, Node
from explorer.tracing.sharding.choices import PARTIAL, WHOLE, Choices, Option, partial_gradients
from explorer.tracing.sharding.local import Part, member_of
from explorer.tracing.sharding.loops import Route
from explorer.tracing.sharding.twice import to_divide_again
from solvers.errors import RunError
from solvers.problem import collectives
from solvers.problem.collectives import COLLECTIVE, is_outer

SHAPES = ("size", "shape")
"""Arguments that state the shape of what comes out."""
HELPERS = (group.on_one, routed.counted)
"""Calls that are beside those of the model."""
Called = Callable[..., Any]
Args = tuple[Any, ...]


@dataclass(frozen=True)
class Divided:
    """How a model's calls are divided over groups. parts: along each axis, the outer first; along an inner one what is
    divided is what each inner group runs, a member along the outer."""

    parts: tuple[Part, ...]

    @property
    def degrees(self) -> tuple[int, ...]:
        """Members along each axis."""
        return tuple(part.choices.degree for part in self.parts)

    def along_each(self, captured: Captured) -> Iterator[tuple[Captured, Captured]]:
        """Along each axis what is divided, of the whole model at some batch, and what one member of it runs."""
        member = captured
        for number, part in enumerate(self.parts):
            whole = to_divide_again(member, self.degrees[number - 1]) if number else captured
            member = member_of(part.choices, part.labels, whole)
            yield whole, member

    def member_of(self, captured: Captured) -> Captured:
        """What one member runs of the whole model at some batch."""
        *_, (_, member) = self.along_each(captured)
        return member

    @cached_property
    def partial(self) -> Mapping[str, tuple[int, ...]]:
        """The parameters, as they are called in the capture, of which each member has a part of the gradient, and along
        which axes. Raises RunError for one that another call reads with all of its gradient."""
        axes: dict[str, tuple[int, ...]] = {}
        for axis, part in enumerate(self.parts):
            for name in _partial(part):
                axes[name] = (*axes.get(name, ()), axis)
        return axes

    @cached_property
    def mirrored(self) -> frozenset[int]:
        """Of dimensions, along the outer axis, those whose shares are in two chunks; none where members of an inner
        group have a share each of what the outer axis gathers or scatters, which they know in the order of members."""
        leaves = rings.mirrored_leaves(self.parts[0])
        return leaves if not any(map(_across, self.parts[1:])) else frozenset()

    def placement(self, axis: int, name: str, member: Captured) -> str:
        """How a value lies over the members along an axis. member: what one of them runs at some batch."""
        return rings.as_dealt(self.parts[axis], frozenset() if axis else self.mirrored, name, member)

    def placements(self, value: str, member: Captured) -> tuple[str, ...]:
        """How what comes from outside, or what a call makes, lies along each axis. member: what one runs in the end."""
        each = (member.outer[0], member) if member.outer is not None else (member,)
        return tuple(self.placement(axis, value, captured) for axis, captured in enumerate(each))

    def placed(self, member: Captured, flat: Flat) -> Placed:
        """How what comes from outside lies over the members. flat: the calls of one."""
        sources = ((source.target, flat.value_of[node]) for node, source in flat.sources.items())
        placements = {target: self.placements(value, member) for target, value in sources if target}
        for value, names in member.parameters.items():
            placements |= dict.fromkeys(names.split(" = "), self.placements(value, member))
        return Placed(placements, self.degrees)

    def flat(self, captured: Captured, flat: Flat) -> tuple[Captured, Flat]:
        """What a member runs, and its calls. captured, flat: of the whole model at a batch."""
        member = captured
        for axis, (whole, one) in enumerate(self.along_each(captured)):
            flat, member = _Dividing(self, axis, whole, one, flat).divided(), one
        return member, flat


def _partial(part: Part) -> frozenset[str]:
    """The parameters of which each member along an axis has a part of the gradient."""
    choices, labels = part.choices, part.labels
    parts_of, whole = set(), set()
    for at, option in labels.items():
        node = choices.captured.nodes[at]
        parts = {choices.source(name) for name in partial_gradients(choices, node, option)}
        parts_of |= parts
        whole |= {choices.source(name) for _, name in node.tensors} - parts
    if both := sorted(parts_of & whole):
        raise RunError(
            f"{choices.captured.parameters[both[0]]} is read by a call that is divided and by one that is not, so"
            " its gradients cannot be added up; plan with another degree"
        )
    return frozenset(parts_of)


def _across(inner: Part) -> bool:
    """Whether members of an inner group have shares along a dimension that an exchange along the outer axis divides."""
    captured = inner.choices.captured
    assert captured.outer is not None  # of an inner axis
    stated = captured.outer[0].whole
    return any(
        (along := collectives.divided_along(stated[name].placement)) is not None
        and option.leaf in inner.choices.leaves(name, along[0])
        for at, option in inner.labels.items()
        if is_outer((node := captured.nodes[at]).target)
        for name in (*(name for _, name in node.tensors), *node.outputs)
    )


@dataclass(frozen=True)
class Placed:
    """How parameters, buffers and constants lie over the members of a group, by all their names in the module.
    placements: along each axis, the outer first; degrees: members along each."""

    placements: Mapping[str, tuple[str, ...]]
    degrees: tuple[int, ...] = (1,)

    @property
    def members(self) -> int:
        """Of the group."""
        return math.prod(self.degrees)

    def _along(self, name: str) -> list[tuple[int, group.Along]]:
        """Along which axes it is divided, the outer first, and where."""
        each = enumerate(map(group.divided_along, self.placements.get(name, ())))
        return [(axis, along) for axis, along in each if along is not None]

    def is_share(self, name: str) -> bool:
        """Whether members have parts of it."""
        return bool(self._along(name))

    def is_first(self, name: str, member: int) -> bool:
        """Whether a member is the first of those that have the same of it."""
        divided = {axis for axis, _ in self._along(name)}
        return all(axis in divided or not place for axis, place in enumerate(group.places(member, self.degrees)))

    def share(self, name: str, tensor: Tensor, member: int) -> Tensor:
        """A member's share of a whole tensor; itself where it is not divided."""
        places, along = group.places(member, self.degrees), self._along(name)
        for axis, where in along:
            tensor = group.share_of(tensor, where, self.degrees[axis], places[axis])
        return tensor.clone() if along else tensor

    def together(self, name: str, share: Tensor) -> Tensor:
        """The whole of what the members of this process's group have shares of; all of them call it."""
        for axis, where in reversed(self._along(name)):
            share = group.here(axis).gather(share, where)
        return share

    def whole_shape(self, name: str, shape: Sequence[int]) -> tuple[int, ...]:
        """That of the whole of a share."""
        whole = list(shape)
        for axis, where in self._along(name):
            whole[where.dim] *= self.degrees[axis]
        return tuple(whole)

    def held(self, held: Held, member: int) -> Held:
        """What a member holds of what is held whole."""
        if self.members == 1:
            return held
        parameters = {
            name: nn.Parameter(self.share(name, parameter.detach(), member), parameter.requires_grad)
            for name, parameter in held.parameters.items()
        }
        shared: dict[tuple[int, tuple[str, ...]], Tensor] = {}
        buffers = {}
        for name, buffer in held.buffers.items():  # one of several names stays one
            key = (id(buffer), self.placements.get(name, ()))
            if key not in shared:
                shared[key] = self.share(name, buffer, member)
            buffers[name] = shared[key]
        return Held(parameters, buffers, held.device, held.notes)


class _Dividing:
    """Divides calls along one axis. whole, flat: what is divided; member: what one member along the axis runs of it."""

    def __init__(self, divided: Divided, axis: int, whole: Captured, member: Captured, flat: Flat) -> None:
        self.divided_by, self.axis, self.whole, self.member, self.old = divided, axis, whole, member, flat
        self.choices = divided.parts[axis].choices
        nodes = self.choices.captured.nodes
        self.option_of = {nodes[at].name: option for at, option in divided.parts[axis].labels.items()}
        self.new = Flat(fx.Graph(), constants=flat.constants)
        self.call_of = {output: node for node in whole.nodes for output in node.outputs}
        self.named = {node.name: node for node in whole.nodes}
        self.copies: dict[tuple[fx.Node, tuple[Any, ...]], fx.Node] = {}
        self.routed = _Routed(self.choices, axis, whole, member, self.new)

    def divided(self) -> Flat:
        self._check_rows()
        for old, source in self.old.sources.items():
            node = self.new.graph.placeholder(old.name)
            self.new.sources[node] = source
            self._gives(self.old.value_of[old], node)
        for call in self.member.nodes:
            if call.target.startswith(COLLECTIVE) and not is_outer(call.target):
                self._exchange(call)
            else:
                self._call(call)
        return self.new

    def _check_rows(self) -> None:
        """How many rows experts have is known only as it runs, so that they are not divided once more."""
        outer = {} if self.whole.outer is None else self.whole.outer[0].whole
        for name in self.member.values:
            by, along = outer.get(self._value(name)), group.divided_along(self.member.whole[name].placement)
            if by is not None and along is not None and by.placement == collectives.by_expert(along.dim):
                raise RunError(
                    f"{name}: rows of experts are divided along both axes, which is not run; plan with one of them, or"
                    " with other degrees"
                )

    def _gives(self, value: str, node: fx.Node) -> None:
        self.new.values.setdefault(value, node)
        self.new.value_of[node] = value

    def _exchange(self, call: Node) -> None:
        (_, read), (made,) = call.tensors[0], call.outputs
        placements = [self._placement(name) for name in (read, made)]
        target, more = self.routed.exchange(self._value(made), placements) or (
            group.exchange, (*placements, self.axis),
        )  # fmt: skip
        node = self.new.graph.call_function(target, (self.new.values[read], *more))
        self._called(call.name, node)
        self._gives(made, node)

    def _placement(self, name: str) -> str:
        return self.divided_by.placement(self.axis, name, self.member)

    def _value(self, name: str) -> str:
        """What a value of the member's is of what is divided, in perhaps another placement."""
        return name.partition("@~" if self.axis else "@")[0].removesuffix("@")

    def _called(self, name: str, node: fx.Node) -> None:
        self.new.calls[name], self.new.name_of[node] = node, name

    def _call(self, call: Node) -> None:
        origin = self.call_of[self._value(call.outputs[0])] if call.outputs else self.named[call.name]
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
        elif target in AGAIN:
            target, args = AGAIN[target](self, call, origin, target, args)
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
        if node.target not in HELPERS:
            raise RunError(f"{node.name} is no tensor of the model, which is not divided")
        args: Any = fx.map_arg(node.args, lambda one: self._known(one, known))
        if (node, args) not in self.copies:
            self.copies[node, args] = self.new.graph.call_function(node.target, args)
        return self.copies[node, args]

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
        option = self.option_of.get(origin.name)
        if option is not None and option.leaf != WHOLE:
            if option.outputs[0] == PARTIAL and isinstance(given.get("bias"), fx.Node):
                given["bias"] = self.new.graph.call_function(group.on_one, (given["bias"], self.axis))
            if made := self.routed.call(call, origin, given):
                return *made, {}
            if option.ring:
                return ring.attention, self._round(call, origin, given), {}
            if special := self._special(origin.target, option):
                function, *axes = special
                return function, (*axes, *(given[name] for name in names if name in given)), {}
        positional = tuple(given[name] for name in names[: len(args)])
        return target, positional, {name: given[name] for name in kwargs}

    def _round(self, call: Node, origin: Node, given: Mapping[str, Any]) -> tuple[Any, ...]:
        """What attention takes whose keys and values go round."""
        dealt = rings.dealt(self.choices, call, origin, self._placement(call.tensor("query") or ""))
        rest = {"attn_mask": None, "dropout_p": 0.0, "is_causal": False, "scale": None}
        tensors = (given[name] for name in ("query", "key", "value"))
        return *tensors, *(given.get(n, o) for n, o in rest.items()), dealt, self.axis

    def _special(self, target: str, option: Option, axes: tuple[int, ...] = ()) -> tuple[Any, ...] | None:
        """What is called in place of a call, and what it takes before its tensors. axes: the outer ones along which it
        is divided already."""
        if target == "aten.cross_entropy_loss":
            return (group.loss_of_classes, self.axis, axes) if option.rows else (group.loss_of_rows, (*axes, self.axis))
        if target == "aten.embedding" and option.places[0] == 0:
            return group.rows, (*axes, self.axis)
        return None

    def _share_again(self, call: Node, origin: Node, target: Called, args: Args) -> tuple[Called, Args]:
        """Of a call by rows, of a loss or of a table, that are divided along outer axes."""
        option, (axes, *rest) = self.option_of[origin.name], args
        if option.leaf == WHOLE or (special := self._special(origin.target, option, axes)) is None:
            return target, args
        function, *more = special
        return function, (*more, *rest)

    def _round_again(self, call: Node, origin: Node, target: Called, args: Args) -> tuple[Called, Args]:
        """Of attention whose keys and values go round an outer axis: of samples and heads."""
        *tensors, dealt, axis = args
        copies = []
        for name, each in (("query", 1), ("key", dealt.keys), ("value", dealt.values)):
            value = call.tensor(name) or ""
            along, shape = group.divided_along(self.member.whole[value].placement), self.member.values[value].shape
            if along is not None and along.dim > len(shape) - 3:
                raise RunError(
                    f"{call.name}: tokens go round a ring and are divided within its members once more, which is not"
                    " run; plan with another degree (--tensor-parallel)"
                )
            of_heads = along is not None and along.dim == len(shape) - 3
            copies.append(math.gcd(each, shape[along.dim] // along.pieces) if along and of_heads else each)
        return target, (*tensors, dealt._replace(keys=copies[1], values=copies[2]), axis)

    def _exchange_again(self, call: Node, origin: Node, target: Called, args: Args) -> tuple[Called, Args]:
        """Of an exchange along an outer axis: of what a member has of it."""
        inner = group.divided_along(self.member.whole[call.tensors[0][1]].placement)
        before, after = (at for at, each in enumerate(args) if isinstance(each, str))
        along = [group.divided_along(args[at]) for at in (before, after)]
        there = [each for each in along if each is not None and inner is not None and each.dim == inner.dim]
        if inner is None or not there:
            return target, args
        if len(there) > 1:
            raise RunError(
                f"{call.name}: a dimension is divided otherwise along one axis while it is divided along another, which"
                " is not run; plan with other degrees"
            )
        new = list(args)
        for at, each in zip((before, after), along, strict=True):
            if each is not None and each.dim == inner.dim and inner.pieces * self.choices.degree <= each.pieces:
                new[at] = f"{args[at][0]}{collectives.shard(each.dim, each.pieces // self.choices.degree)[1:]}"
        return target, tuple(new)

    def _rows_again(self, call: Node, origin: Node, target: Called, args: Args) -> tuple[Called, Args]:
        """Of rows of experts that are divided along an outer axis: those that a member has there are all rows."""
        names = (*(name for _, name in call.tensors), *call.outputs)
        if not any(self.member.whole[name].placement.startswith(("S(0", "E(")) for name in names):
            return self._exchange_again(call, origin, target, args) if target is routed.exchange else (target, args)
        made = None
        if target is routed.product and args[3] == routed.BY_TOKEN:
            made = self.routed.call(call, origin, dict(zip(("rows", "matrices"), args, strict=False)))
        if made is None:
            raise RunError(
                f"{call.name}: rows of experts are divided along both axes, which is not run; plan with one of them, or"
                " with other degrees"
            )
        return made

    def _sizes(self, call: Node, origin: Node, given: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments that state sizes, as a member has them."""
        name = origin.target.removeprefix("aten.").removesuffix("_")
        made = list(self.member.values[call.outputs[0]].shape) if call.outputs else []
        sizes: dict[str, Any] = {
            key: made for key in SHAPES if isinstance(given.get(key), (list, tuple)) and name != "cat"
        }
        for by in self._stated(call, origin):
            if not by.startswith("E("):
                continue
            if sizes and not call.tensors:
                raise RunError(f"{call.name} states how many rows experts have, which no run knows before")
            made[int(by[2:-1])] = -1  # as many as were chosen
        if not call.tensors:
            return sizes
        local, shape = (
            captured.values[node.tensors[0][1]].shape
            for captured, node in ((self.member, call), (self.whole, origin))
        )  # fmt: skip
        if name == "unflatten":
            dim = int(given["dim"]) % len(shape)
            sizes["sizes"] = made[dim : dim + len(given["sizes"])]
        if name.startswith("conv") and int(given.get("groups", 1)) > 1:
            sizes["groups"] = local[1] // self.member.values[call.tensors[1][1]].shape[1]
        if name in ("split", "split_with_sizes", "slice", "narrow") and shape:
            dim = int(given.get("dim", 0)) % len(shape)
            if local[dim] != shape[dim]:
                cut = ("split_size", "split_sizes", "start", "end", "length")
                sizes |= {key: _scaled(given[key], local[dim], shape[dim]) for key in cut if given.get(key) is not None}
        return sizes

    def _stated(self, call: Node, origin: Node) -> Iterator[str]:
        """How the first output of a call lies along this axis, and along the outer."""
        if call.outputs:
            yield self.member.whole[call.outputs[0]].placement
            if self.whole.outer is not None:
                yield self.whole.outer[0].whole[origin.outputs[0]].placement


AGAIN: Mapping[Any, Callable[[_Dividing, Node, Node, Called, Args], tuple[Called, Args]]] = {
    group.exchange: _Dividing._exchange_again,
    group.loss_of_rows: _Dividing._share_again,
    group.rows: _Dividing._share_again,
    ring.attention: _Dividing._round_again,
    **dict.fromkeys(
        (routed.exchange, routed.product, routed.picked, routed.of_experts, routed.put_back), _Dividing._rows_again
    ),
}
"""By what a call is that was divided along an outer axis: what it is where it is divided along another."""


def _scaled(value: Any, share: int, whole: int) -> Any:
    """A length, or several, of what is divided."""
    return pytree.tree_map(lambda length: length if abs(length) > whole else length * share // whole, value)


class _Routed:
    """What is called for rows of tokens that were sorted by the experts that these chose (`routed`)."""

    def __init__(self, choices: Choices, axis: int, whole: Captured, member: Captured, new: Flat) -> None:
        self.choices, self.axis, self.whole, self.member, self.new = choices, axis, whole, member, new
        self.counted: dict[int, fx.Node] = {}

    def exchange(self, value: str, placements: Sequence[str]) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
        """The exchange of a value of the whole model, and what it takes beside the value; None for one of another kind.
        placements: before and after."""
        route = self.choices.known.routes.get(value)
        before, after = (self._placement(value, placement) for placement in placements)
        sorted_rows = {before, after} & {routed.BY_TOKEN, routed.BY_EXPERT}
        if not sorted_rows and route is not Route.BACK:
            return None
        rows = self._rows_of(value)
        return routed.exchange, (self.counts(rows), before, after, self._numbers(value, rows), self.axis)

    def _placement(self, value: str, placement: str) -> str:
        """With rows of tokens apart from other shares."""
        if placement.startswith("E("):
            if placement != collectives.by_expert(0):
                raise RunError(f"{value} has rows of experts in another dimension than its first, which is not run")
            return routed.BY_EXPERT
        along = group.divided_along(placement)
        if along is None or along[0] or not self.choices.is_sorted(value, 0):
            return placement
        self._check_tokens(value, placement)
        return routed.BY_TOKEN

    def _check_tokens(self, value: str, placement: str) -> None:
        """Members have the rows of tokens, all their choices, and sort them; no others."""
        name = self._sorted(self._rows_of(value))
        rows, stated = self.whole.values[name].shape[0], self.member.whole[name].placement
        pieces = (group.divided_along(placement) or (0, 1))[1]
        tokens = (token for token, route in self.choices.known.routes.items() if route is Route.TOKEN)
        each = max((self._each(token) for token in tokens), default=1)
        if placement != stated or rows // pieces // self.choices.degree % each:
            raise RunError(
                f"{value}: members have rows by something else than the tokens that they sorted, which is not run; plan"
                " with another degree, or with --expert-parallel"
            )

    def _rows_of(self, value: str) -> int:
        """The leaf of the sorted rows that a value has, or says something of."""
        known = self.choices.known
        if known.routes.get(value) is Route.BACK:
            maker = self.whole.nodes[self.choices.made_by[value]]
            value = next(name for _, name in maker.tensors if known.routes.get(name) is Route.ORDER)
        return self.choices.leaves(value, 0)[-1]

    def _sorted(self, rows: int) -> str:
        """The value that says of which expert each of the sorted rows is."""
        routes = self.choices.known.routes.items()
        of = (name for name, route in routes if route is Route.EXPERT and self.choices.leaves(name, 0)[-1:] == (rows,))
        if (name := next(of, None)) is None:
            raise RunError("rows are sorted by expert and nothing says of which each is, which is not run")
        return name

    def counts(self, rows: int) -> fx.Node:
        """The call that counts, for sorted rows, those of each expert at each member."""
        if rows not in self.counted:
            name = self._sorted(rows)
            experts = self.choices.known.dimensions.length(self.choices.leaves(name, 0)[:-1])
            everywhere = self._placement(name, self.member.whole[name].placement) != routed.BY_TOKEN
            self.counted[rows] = self.new.graph.call_function(
                routed.counted, (self.new.values[name], experts, everywhere, self.axis)
            )
        return self.counted[rows]

    def _numbers(self, value: str, rows: int) -> routed.Numbers | None:
        route = self.choices.known.routes.get(value)
        if route in (None, Route.EXPERT):
            return None
        along = group.divided_along(self.member.whole[self._sorted(rows)].placement)
        each = self._each(value) if route is Route.TOKEN else 1
        return routed.Numbers(route is Route.BACK, each, 1 if along is None else along[1])

    def _each(self, tokens: str) -> int:
        """How many choices each token has."""
        each: Any = self.whole.nodes[self.choices.made_by[tokens]].constants.get("other", 1)
        return int(each)

    def call(
        self, call: Node, origin: Node, given: Mapping[str, Any]
    ) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
        """What is called in place of a call on such rows; None where it works as it is. call: of the member, origin:
        the same of the whole."""
        routes = self.choices.known.routes
        if origin.target in ("aten._grouped_mm", "transformers.grouped_mm_fallback"):
            if given.get("bias") is not None or given.get("out_dtype") is not None:
                raise RunError(f"{call.name}: a product by expert with a bias or a type of its own is not run divided")
            made = origin.outputs[0]
            by = self._placement(made, self.member.whole[call.outputs[0]].placement)
            operands = list(given.values())[:2]
            return routed.product, (*operands, self.counts(self._rows_of(made)), by, self.axis)
        if origin.target in ("aten.index_put", "aten.index_put_"):
            return self._put(call, origin, given)
        if origin.target != "aten.index" or len(origin.tensors) != 2:
            return None
        (_, table), (_, numbers) = origin.tensors
        route = routes.get(numbers)
        at = [self.member.whole[name].placement for _, name in call.tensors]
        args = given["self"], given["indices"][0]
        if route is Route.BACK and self._placement(table, at[0]) == routed.BY_EXPERT:
            return routed.put_back, (*args, self.counts(self._rows_of(numbers)), self.axis)
        if route is Route.EXPERT and self._placement(numbers, at[1]) == routed.BY_EXPERT and at[0].startswith("S("):
            return routed.of_experts, (*args, self.axis)
        whole = at[0] in (collectives.WHOLE, collectives.UNSUMMED)
        if route in (Route.TOKEN, Route.ORDER) and whole and self._placement(numbers, at[1]) == routed.BY_TOKEN:
            rows = self._rows_of(numbers)
            return routed.picked, (*args, self.counts(rows), self._numbers(numbers, rows), self.axis)
        return None

    def _put(
        self, call: Node, origin: Node, given: Mapping[str, Any]
    ) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
        """Which row each choice of a member has become: its own rows, not those of all that the call would put."""
        order = next((name for _, name in origin.tensors if self.choices.known.routes.get(name) is Route.ORDER), None)
        if order is None:
            return None
        values = self.choices.made_by.get(self.choices.source(origin.tensors[-1][1]))
        if values is None or self.whole.nodes[values].target != "aten.arange":
            raise RunError(f"{call.name} puts other numbers than those of rows where an order says, which is not run")
        return routed.row_of_choice, (given["self"], given["indices"][0])
