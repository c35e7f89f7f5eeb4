"""How each call can be divided over a group of so many members, and what a change of placement costs.

A value is whole at every member, divided along a leaf (`dimensions`), or a partial sum. A call needs an input whole or
divided; one that needs it whole and computes a share with it alone has only a part of its gradient.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from explorer.tracing.captured import Captured, Node
from explorer.tracing.fold import is_bookkeeping, is_view
from explorer.tracing.sharding.loops import Known, Loop, Where
from explorer.tracing.sharding.rules import VIEWS
from solvers.problem.collectives import ATTENTION, Axis

WHOLE = -1
"""Every member has all of it; what needs it so computes all of it."""
SHARED = -2
"""Needed whole by a call of which every member computes a share: each has a part of its gradient."""
PARTIAL = -3
"""Every member has a tensor of the whole shape; their sum is the value."""

ROW_BYTES = 4
"""Of a statistic of one row, fp32."""

State = int
"""WHOLE, SHARED, PARTIAL, or a leaf along which a value is divided."""


@dataclass(frozen=True, slots=True)
class Option:
    """One way to divide a call. leaf: along which, WHOLE for not at all. inputs and outputs: what it needs its tensors
    to be, and what it makes, in their order. places: the dimension in which each input has the leaf."""

    leaf: State
    inputs: tuple[State, ...]
    outputs: tuple[State, ...]
    places: tuple[Where, ...]
    rows: bool = False
    """Whether it exchanges two numbers a row inside (`Loop.statistics`)."""
    ring: bool = False
    """Whether keys and values go round all members inside (`Loop.ring`)."""


@dataclass(frozen=True, slots=True)
class Collective:
    """What members of a group exchange: all_reduce, all_gather, reduce_scatter or all_to_all of a tensor."""

    kind: str

    def sent_bytes(self, nbytes: float, degree: int) -> float:
        """What each member sends round a ring (Patarasuk and Yuan, 2009) of a tensor of ``nbytes`` when it is whole."""
        share = (degree - 1) / degree
        return {"all_reduce": 2 * share, "all_to_all": share / degree}.get(self.kind, share) * nbytes

    def steps(self, degree: int) -> int:
        """Messages that a member sends, one after the other."""
        return (2 if self.kind == "all_reduce" else 1) * (degree - 1)


ALL_REDUCE, ALL_GATHER = Collective("all_reduce"), Collective("all_gather")
REDUCE_SCATTER, ALL_TO_ALL = Collective("reduce_scatter"), Collective("all_to_all")
REPEATS = frozenset(f"aten.{name}" for name in ("expand", "broadcast_to"))
"""Views that repeat entries as often as a number says."""
COPIES = frozenset(f"aten.{name}" for name in (*VIEWS.split(), "clone", "contiguous", "repeat_interleave"))
"""Calls that make no entries of their own: what they return is there before, perhaps less often."""


def change(made: State, needed: State) -> tuple[tuple[Collective, ...], tuple[Collective, ...]]:
    """What a change of placement exchanges in the forward, and what its mirror image does to the gradient."""
    if made == needed:
        return (), ()
    if made == WHOLE:
        return (), (ALL_REDUCE,) if needed == SHARED else (ALL_GATHER,)
    if made == PARTIAL:
        if needed >= 0:
            return (REDUCE_SCATTER,), (ALL_GATHER,)
        return (ALL_REDUCE,), (ALL_REDUCE,) if needed == SHARED else ()
    if needed >= 0:
        return (ALL_TO_ALL,), (ALL_TO_ALL,)
    return (ALL_GATHER,), (REDUCE_SCATTER,) if needed == SHARED else ()


def partial_gradients(choices: Choices, node: Node, option: Option) -> list[str]:
    """The parameters that every member has whole, each with a part of their gradient: it uses them with a share."""
    captured = choices.captured
    return [
        name
        for (_, name), needed in zip(node.tensors, option.inputs, strict=True)
        if choices.of_source(name, needed) == SHARED
        and choices.source(name) in captured.parameters
        and captured.values[choices.source(name)].requires_grad
    ]


def replica_sums(choices: Choices, node: Node, option: Option) -> tuple[tuple[str, ...], float, int]:
    """The parameters of experts that a call reads of which some have replicas at other members; and the most bytes and
    messages that a member sends to add up their gradients, wherever replicas stand.

    A ring over the r holders of an expert takes 2(r-1)/r of its gradient from each, which is concave in r: of one
    member it is most where all replicas beyond the first are of its experts, evenly.
    """
    sums: dict[str, float] = {}
    slots = 0
    for (_, name), needed, place in zip(node.tensors, option.inputs, option.places, strict=True):
        source = choices.source(name)
        value = choices.captured.values[source]
        if place is None or source not in choices.captured.parameters or not value.requires_grad:
            continue
        if here := choices.slots(name, place, needed):
            slots, sums[source] = here, value.nbytes / choices.known.dimensions.lengths[needed]
    if not sums:
        return (), 0.0, 0
    most = min(choices.redundant, slots)
    rings = 2 * most * choices.redundant / (most + choices.redundant)
    return tuple(sums), rings * sum(sums.values()), 2 * choices.redundant * len(sums)


class Choices:
    """The calls of a captured graph that compute, with their options.

    known: its dimensions and loops, of `small`. large: the same model at another batch: what grows with it is never
    divided here, for that is what replicas do. sequence: whether the other dimensions of the model's inputs (its
    tokens) may be. whole_weights: whether a matrix of parameters may stay whole where it could be divided, and members
    divide rows instead (as context parallelism does). axis: what members divide; samples where they have
    experts of their own; None: any of these. load: rows of the member whose experts are chosen most, over the mean.
    again: over how many the heads of a member are divided once more, where it divides tokens with others.
    redundant: replicas of experts in every mixture beyond the first of each.
    """

    def __init__(
        self, known: Known, large: Captured, degree: int, *, sequence: bool = True, whole_weights: bool = False,
        axis: Axis | None = Axis.TENSOR, load: float = 1.0, again: int = 1, redundant: int = 0,
    ) -> None:  # fmt: skip
        self.known, self.degree, self.axis, self.load, self.again = known, degree, axis, load, again
        self.redundant = redundant
        self.whole_weights = whole_weights or axis is not Axis.TENSOR
        self.captured = known.captured
        self.made_by = {output: at for at, node in enumerate(self.captured.nodes) for output in node.outputs}
        self.outside = {*self.captured.parameters, *self.captured.buffers, *self.captured.inputs}
        self.samples, rows = self._samples(large)
        self.barred = rows | (self.samples if axis is not Axis.EXPERT else set())
        if not sequence:
            for name in self.captured.inputs:
                self.barred |= {leaf for own in known.of[name] for leaf in known.dimensions.leaves(own)}

    def _samples(self, large: Captured) -> tuple[set[int], set[int]]:
        """Leaves of dimensions that grow with the batch; and of the rows of an expert, whose tokens nobody knows."""
        growing: set[int] = set()
        rows: set[int] = set()
        fixed = frozenset() if self.axis is Axis.EXPERT else self._fixed(large)
        for name, value in self.captured.values.items():
            more = large.values[name].shape
            for axis, (length, longer) in enumerate(zip(value.shape, more, strict=True)):
                own = self.leaves(name, axis)
                if length != longer and not growing & set(self.ways(name, axis)):
                    growing |= set(own) - fixed
                elif self.is_sorted(name, axis):
                    rows.add(own[-1])
        return growing, rows

    def is_sorted(self, name: str, axis: int) -> bool:
        """Whether a dimension has rows that were sorted by expert."""
        own = self.known.of.get(name)
        return own is not None and bool(self.known.dimensions.sorted_from(own[axis]))

    def by_expert(self, name: str, axis: int, state: State) -> bool:
        """Whether a member of a group has the rows of its experts, as many as these were chosen."""
        return state >= 0 and state in self.leaves(name, axis) and self.is_sorted(name, axis)

    def slots(self, name: str, axis: int, state: State) -> int:
        """How many experts a member has where some have replicas, of a dimension with an entry for every expert; 0 for
        any other."""
        if not self.redundant or state not in self.experts or self.leaves(name, axis) != (state,):
            return 0
        return (self.known.dimensions.lengths[state] + self.redundant) // self.degree

    def chosen(self, name: str, *states: State) -> float:
        """By how much more than its share of a value a member has, or sends, where any of the states is by expert."""
        pairs = [(axis, state) for axis in range(len(self.captured.values[name].shape)) for state in states]
        if any(self.by_expert(name, axis, state) for axis, state in pairs):
            return self.load
        held = ((self.slots(name, axis, state), state) for axis, state in pairs)
        return max((slots * self.degree / self.known.dimensions.lengths[state] for slots, state in held if slots),
                   default=1.0)  # fmt: skip

    def ways(self, name: str, axis: int) -> tuple[int, ...]:
        """The leaves along which a dimension can be divided."""
        own = self.known.of.get(name)
        return self.known.dimensions.ways(own[axis]) if own is not None else ()

    def _fixed(self, large: Captured) -> frozenset[int]:
        """Leaves of dimensions that do not grow with the batch: of one sample, rows of all samples are its tokens."""
        return frozenset(
            leaf
            for name, value in self.captured.values.items()
            for axis, length in enumerate(value.shape)
            if length == large.values[name].shape[axis]
            for leaf in self.leaves(name, axis)
        )

    def leaves(self, name: str, axis: int) -> tuple[int, ...]:
        own = self.known.of.get(name)
        return self.known.dimensions.leaves(own[axis]) if own is not None else ()

    def has(self, name: str, leaf: int) -> int:
        """How often a value has a leaf among its dimensions."""
        return sum(self.ways(name, axis).count(leaf) for axis in range(len(self.captured.values[name].shape)))

    def views(self, name: str) -> Iterator[int]:
        """The calls through which a value looks at what was computed or came from outside, the last first."""
        while (at := self.made_by.get(name)) is not None and self.is_view(at):
            yield at
            name = self.captured.nodes[at].tensors[0][1]

    def source(self, name: str) -> str:
        """What a value looks at: the output of a call that computes, or a value from outside."""
        for at in self.views(name):
            name = self.captured.nodes[at].tensors[0][1]
        return name

    def repeats(self, view: int, leaf: int) -> bool:
        """Whether a view is the call that makes a dimension by repeating what it looks at: of a whole tensor every
        member then makes a share."""
        node = self.captured.nodes[view]
        return (
            node.target in REPEATS and self.has(node.outputs[0], leaf) == 1 and not self.has(node.tensors[0][1], leaf)
        )

    def of_source(self, name: str, state: State) -> State:
        """What a call that needs a value in a state needs of what the value looks at."""
        repeated = state >= 0 and any(self.repeats(view, state) for view in self.views(name))
        return SHARED if repeated else state

    def copied(self, name: str) -> Iterator[tuple[int, str]]:
        """The calls through which a value is a copy of others, the last first, each with the value that it copies."""
        while (at := self.made_by.get(name)) is not None and self.captured.nodes[at].target in COPIES:
            name = self.captured.nodes[at].tensors[0][1]
            yield at, name

    @cached_property
    def tokens(self) -> frozenset[int]:
        """Leaves that are tokens of a sample: of what attends and is attended to; of a model without attention, the
        dimensions of its indices."""
        attended = [self.leaves(n, len(self.known.of[n]) - 2) for at in self._attention for n in self._read(at)[:2]]
        if not attended:
            indices = [name for name in self.captured.inputs if not self.captured.values[name].is_float]
            attended = [self.leaves(name, axis) for name in indices for axis in range(len(self.known.of[name]))]
        return frozenset(leaf for leaves in attended for leaf in leaves) - self.barred

    @cached_property
    def _attention(self) -> tuple[int, ...]:
        return tuple(at for at, node in enumerate(self.captured.nodes) if node.target == ATTENTION)

    def _read(self, at: int) -> list[str]:
        return [name for _, name in self.captured.nodes[at].tensors]

    @cached_property
    def _by_heads(self) -> Mapping[int, frozenset[int]]:
        """The calls that may be divided by heads where tokens are: attention, and what copies its inputs."""
        by_copies: dict[int, frozenset[int]] = {}
        for at in self._attention:
            names = self._read(at)[:3]
            heads = frozenset(
                leaf
                for name in names
                for axis in range(len(self.known.of[name]) - 2)
                for leaf in self.leaves(name, axis)
                if self.known.dimensions.lengths[leaf] % (self.degree * self.again) == 0
            )
            for copies in (at, *(before for name in names for before, _ in self.copied(name))):
                by_copies[copies] = by_copies.get(copies, frozenset()) | heads
        return by_copies

    def _along_tokens(self, at: int, options: tuple[Option, ...]) -> tuple[Option, ...]:
        """Every call that can be divided along tokens is, or by heads where that is the other way; others are whole."""
        leaves = self.tokens | self._by_heads.get(at, frozenset())
        return tuple(option for option in options if option.leaf in leaves) or options[:1]

    def is_view(self, at: int) -> bool:
        return is_view(self.captured, self.captured.nodes[at])

    @cached_property
    def options(self) -> Mapping[int, tuple[Option, ...]]:
        """By position of every call that computes; the first leaves it whole."""
        options_of: dict[int, tuple[Option, ...]] = {}
        for at, node in enumerate(self.captured.nodes):
            if not node.outputs or self.is_view(at) or is_bookkeeping(self.captured, node):
                continue
            whole = Option(
                WHOLE, (WHOLE,) * len(node.tensors), (WHOLE,) * len(node.outputs), (None,) * len(node.tensors)
            )
            options = (whole, *self._divided(at, node))
            if self.axis is Axis.CONTEXT:
                options_of[at] = self._along_tokens(at, options)
            else:
                options_of[at] = self._of_axis(node, options)
        return options_of

    def _of_axis(self, node: Node, options: tuple[Option, ...]) -> tuple[Option, ...]:
        """Those of its options that the axis of the groups leaves a call: of tensors, with as many matrices divided as
        can be; of experts, with the matrices of experts divided, and all else by samples or experts where it can be."""
        if self.axis is not Axis.EXPERT and self.whole_weights:
            return options
        matrices = [self._matrices(node, option) for option in options]
        options = tuple(o for o, each in zip(options, matrices, strict=True) if each == max(matrices))
        divided = tuple(option for option in options if option.leaf != WHOLE)
        return divided if divided and self.axis is Axis.EXPERT else options

    @cached_property
    def experts(self) -> frozenset[int]:
        """Leaves that are the experts of sorted rows."""
        shapes = ((name, axis) for name, value in self.captured.values.items() for axis in range(len(value.shape)))
        sorted_leaves = (self.leaves(name, axis) for name, axis in shapes if self.is_sorted(name, axis))
        return frozenset(leaf for leaves in sorted_leaves for leaf in leaves[:-1])

    def _matrices(self, node: Node, option: Option) -> int:
        """How many matrices (or larger tensors) of parameters are divided."""
        return sum(
            needed >= 0 and len(self.captured.values[name].shape) > 1 and self.source(name) in self.captured.parameters
            for (_, name), needed in zip(node.tensors, option.inputs, strict=True)
        )

    def _divided(self, at: int, node: Node) -> Iterator[Option]:
        for loop in self.known.loops.get(at, ()):
            if loop.context and self.axis not in (Axis.CONTEXT, None):
                continue
            for leaf in self.known.dimensions.ways(loop.leaves):
                more = self.redundant if self.redundant and leaf in self.experts else 0
                divides = (self.known.dimensions.lengths[leaf] + more) % self.degree == 0
                divides = divides and (self.axis is not Axis.EXPERT or leaf in self.samples | self.experts)
                if divides and leaf not in self.barred and self._fits(node, loop, leaf):
                    yield Option(
                        leaf,
                        tuple(SHARED if place is None else leaf for place in loop.inputs),
                        tuple(PARTIAL if place is None else leaf for place in loop.outputs),
                        loop.inputs,
                        loop.statistics,
                        loop.ring,
                    )

    def _fits(self, node: Node, loop: Loop, leaf: int) -> bool:
        """Whether every tensor can be divided there: it has the leaf once, and the views between it and what it looks
        at keep it, or make it by repeating. A parameter that is read as it is may have it twice (a square matrix)."""
        for (_, name), place in zip(node.tensors, loop.inputs, strict=True):
            if place is None:
                continue
            if leaf not in self.ways(name, place) or not self._may_repeat(name, place, leaf):
                return False
            if name in self.captured.parameters:
                continue
            if self.has(name, leaf) != 1 or not self._comes_from(name, leaf):
                return False
        for name, place in zip(node.outputs, loop.outputs, strict=True):
            if place is None:
                if not self.captured.values[name].is_float or node.mutates or self._has_replicas(node, loop, leaf):
                    return False
            elif self.has(name, leaf) != 1 or leaf not in self.ways(name, place):
                return False
        return True

    def _may_repeat(self, name: str, place: int, leaf: int) -> bool:
        """Whether replicas of experts may be among a dimension: it has an entry for every expert and no more, of a
        parameter or what is made of parameters, whose gradients are added up."""
        if not self.redundant or leaf not in self.experts or self.is_sorted(name, place):
            return True
        return self.leaves(name, place) == (leaf,) and self._of_parameters(name)

    def _has_replicas(self, node: Node, loop: Loop, leaf: int) -> bool:
        """Whether a call reads experts along a leaf of which some are there several times."""
        read = zip(node.tensors, loop.inputs, strict=True)
        return any(place is not None and self.slots(name, place, leaf) for (_, name), place in read)

    def _of_parameters(self, name: str) -> bool:
        source = self.source(name)
        at = self.made_by.get(source)
        if at is None:
            return source in self.captured.parameters
        tensors = self.captured.nodes[at].tensors
        return bool(tensors) and all(self._of_parameters(each) for _, each in tensors)

    def _comes_from(self, name: str, leaf: int) -> bool:
        """Whether the views of a value, from the last on, keep a leaf up to where it comes from."""
        for view in self.views(name):
            if self.repeats(view, leaf):
                return True
            if not self._preserves(view, leaf):
                return False
        return self.has(self.source(name), leaf) == 1

    def _preserves(self, view: int, leaf: int) -> bool:
        return any(leaf in self.known.dimensions.ways(loop.leaves) for loop in self.known.loops.get(view, ()))

    def local_shape(
        self, name: str, state: State, place: Where = None, captured: Captured | None = None
    ) -> tuple[int, ...]:
        """The shape of a member's part. place: the dimension that is divided, where the value has the leaf twice.
        captured: the graph at another batch, if not at that of the analysis."""
        shape = (captured or self.captured).values[name].shape
        if state < 0:
            return shape
        axes = [axis for axis in range(len(shape)) if state in self.ways(name, axis)]
        at = place if place is not None else axes[0] if axes else None
        if at is not None and (slots := self.slots(name, at, state)):
            return (*shape[:at], slots, *shape[at + 1 :])
        more = self.load if at is not None and self.by_expert(name, at, state) else 1.0
        return tuple(
            math.ceil(length * more / self.degree) if axis == at else length for axis, length in enumerate(shape)
        )
