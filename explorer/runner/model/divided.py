"""What one member of a group runs of a traced model: its calls at their shares, with the exchanges between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from solvers.errors import RunError
from solvers.problem import collectives
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

    @cached_property
    def mirrored(self) -> frozenset[int]:
        """Of dimensions, those whose shares are in two chunks."""
        return rings.mirrored_leaves(self.part)

    def placement(self, name: str, member: Captured) -> str:
        """How a value lies over the members. member: what one of them runs at some batch."""
        return rings.as_dealt(self.part, self.mirrored, name, member)

    def placed(self, member: Captured, flat: Flat) -> Placed:
        """How what comes from outside lies over the members. flat: the calls of one."""
        sources = ((source.target, flat.value_of[node]) for node, source in flat.sources.items())
        found = {target: self.placement(value, member) for target, value in sources if target}
        for value, names in member.parameters.items():
            found |= dict.fromkeys(names.split(" = "), self.placement(value, member))
        return Placed(found, self.members)

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
        return tensor if along is None else group.share_of(tensor, along, self.members, member).clone()

    def together(self, name: str, share: Tensor) -> Tensor:
        """The whole of what the members of this process's group have shares of; all of them call it."""
        along = group.divided_along(self.placements.get(name, ""))
        return share if along is None else group.here().gather(share, along)

    def whole_shape(self, name: str, shape: Sequence[int]) -> tuple[int, ...]:
        """That of the whole of a share."""
        along = group.divided_along(self.placements.get(name, ""))
        return tuple(size * self.members if along and dim == along.dim else size for dim, size in enumerate(shape))

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


class _Dividing:
    def __init__(self, divided: Divided, whole: Captured, member: Captured, flat: Flat) -> None:
        self.divided_by, self.whole, self.member, self.old = divided, whole, member, flat
        self.new = Flat(fx.Graph(), constants=flat.constants)
        self.call_of = {output: node for node in whole.nodes for output in node.outputs}
        self.named = {node.name: node for node in whole.nodes}
        self.routed = _Routed(divided.part.choices, whole, member, self.new)

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
        placements = [self.divided_by.placement(name, self.member) for name in (read, made)]
        target, more = self.routed.exchange(made.partition("@")[0], placements) or (group.exchange, tuple(placements))
        node = self.new.graph.call_function(target, (self.new.values[read], *more))
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
            if made := self.routed.call(call, origin, given):
                return *made, {}
            if option.ring:
                return ring.attention, self._round(call, origin, given), {}
            if special := self._special(origin.target, option):
                return special, tuple(given[name] for name in names if name in given), {}
        positional = tuple(given[name] for name in names[: len(args)])
        return target, positional, {name: given[name] for name in kwargs}

    def _round(self, call: Node, origin: Node, given: Mapping[str, Any]) -> tuple[Any, ...]:
        """What attention takes whose keys and values go round."""
        placement = self.divided_by.placement(call.tensor("query") or "", self.member)
        dealt = rings.dealt(self.divided_by.part.choices, call, origin, placement)
        rest = {"attn_mask": None, "dropout_p": 0.0, "is_causal": False, "scale": None}
        return *(given[name] for name in ("query", "key", "value")), *(given.get(n, o) for n, o in rest.items()), dealt

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
        if call.outputs and (by := self.member.whole[call.outputs[0]].placement).startswith("E("):
            if found and not call.tensors:
                raise RunError(f"{call.name} states how many rows experts have, which no run knows before")
            made[int(by[2:-1])] = -1  # as many as were chosen
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


class _Routed:
    """What is called for rows of tokens that were sorted by the experts that these chose (`routed`)."""

    def __init__(self, choices: Choices, whole: Captured, member: Captured, new: Flat) -> None:
        self.choices, self.whole, self.member, self.new = choices, whole, member, new
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
        return routed.exchange, (self.counts(rows), before, after, self._numbers(value, rows))

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
        if (found := next(of, None)) is None:
            raise RunError("rows are sorted by expert and nothing says of which each is, which is not run")
        return found

    def counts(self, rows: int) -> fx.Node:
        """The call that counts, for sorted rows, those of each expert at each member."""
        if rows not in self.counted:
            name = self._sorted(rows)
            experts = self.choices.known.dimensions.length(self.choices.leaves(name, 0)[:-1])
            everywhere = self._placement(name, self.member.whole[name].placement) != routed.BY_TOKEN
            self.counted[rows] = self.new.graph.call_function(
                routed.counted, (self.new.values[name], experts, everywhere)
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
            return routed.product, (*operands, self.counts(self._rows_of(made)), by)
        if origin.target in ("aten.index_put", "aten.index_put_"):
            return self._put(call, origin, given)
        if origin.target != "aten.index" or len(origin.tensors) != 2:
            return None
        (_, table), (_, numbers) = origin.tensors
        route = routes.get(numbers)
        at = [self.member.whole[name].placement for _, name in call.tensors]
        args = given["self"], given["indices"][0]
        if route is Route.BACK and self._placement(table, at[0]) == routed.BY_EXPERT:
            return routed.put_back, (*args, self.counts(self._rows_of(numbers)))
        if route is Route.EXPERT and self._placement(numbers, at[1]) == routed.BY_EXPERT and at[0].startswith("S("):
            return routed.of_experts, args
        whole = at[0] in (collectives.WHOLE, collectives.UNSUMMED)
        if route in (Route.TOKEN, Route.ORDER) and whole and self._placement(numbers, at[1]) == routed.BY_TOKEN:
            rows = self._rows_of(numbers)
            return routed.picked, (*args, self.counts(rows), self._numbers(numbers, rows))
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
