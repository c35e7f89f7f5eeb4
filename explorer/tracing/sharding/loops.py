"""Loops of calls, and what is known of a captured graph while they are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from explorer.tracing.captured import Captured, Node, Value
from explorer.tracing.sharding.dimensions import Dimensions, Leaves

Where = int | None
"""The dimension of a tensor that has the loop; None: it is whole, or a partial sum."""


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop of a call. leaves: its dimension. inputs: where each of the call's tensors has it, in their order.
    outputs: likewise. once: positions of inputs that one member alone adds (the bias of a partial sum). statistics:
    whether the call then makes two small all-reduces inside, each of one fp32 number for every entry of its second
    tensor. context: whether only members that divide tokens take it. ring: whether its keys and values then go round
    all members."""

    leaves: Leaves
    inputs: tuple[Where, ...]
    outputs: tuple[Where, ...]
    once: tuple[int, ...] = ()
    statistics: bool = False
    context: bool = False
    ring: bool = False


class Route(Enum):
    """What integers say of the rows of a mixture's tokens, sorted by the experts that these chose. EXPERT: the expert
    of each sorted row; ORDER: which of the tokens' choices it is; TOKEN: which token; BACK: which sorted row a token's
    choice has become."""

    EXPERT = auto()
    ORDER = auto()
    TOKEN = auto()
    BACK = auto()


@dataclass(slots=True)
class Known:
    """What is known of a captured graph so far. of: dimensions of every value; loops: of every call, by position;
    routes: what integers say of rows that are sorted by expert, by value."""

    captured: Captured
    dimensions: Dimensions = field(default_factory=Dimensions)
    of: dict[str, tuple[Leaves, ...]] = field(default_factory=dict)
    loops: dict[int, tuple[Loop, ...]] = field(default_factory=dict)
    routes: dict[str, Route] = field(default_factory=dict)

    def value(self, name: str) -> Value:
        return self.captured.values[name]

    def enter(self, name: str) -> tuple[Leaves, ...]:
        """A value with dimensions of its own, unless they are known."""
        if name not in self.of:
            self.of[name] = tuple(self.dimensions.new(length) for length in self.value(name).shape)
        return self.of[name]

    def set(self, name: str, dimensions: Sequence[Leaves]) -> None:
        """Give an output its dimensions, new ones where the lengths are not those of its shape (a call that repeats,
        or broadcasts)."""
        shape = self.value(name).shape
        assert len(dimensions) == len(shape)
        self.of[name] = tuple(
            dimension
            if self.dimensions.length(self.dimensions.leaves(dimension)) == length
            else self.dimensions.new(length)
            for dimension, length in zip(dimensions, shape, strict=True)
        )

    def join(self, one: Leaves, other: Leaves) -> None:
        self.dimensions.join(one, other)


Rule = Callable[[Known, Node], tuple[Loop, ...]]


def loops_of(
    known: Known, node: Node, dimensions: Sequence[tuple[Leaves, Sequence[Where], Sequence[Where]]]
) -> tuple[Loop, ...]:
    return tuple(Loop(leaves, tuple(inputs), tuple(outputs)) for leaves, inputs, outputs in dimensions if leaves)


def outer_leaves(known: Known, dimension: Leaves, length: int) -> Leaves | None:
    """The outer leaves of a dimension that make up ``length``, splitting one where that is needed."""
    leaves, _ = known.dimensions.reshape([dimension], [length, known.dimensions.length(dimension) // length])
    return leaves if known.dimensions.length(leaves) == length else None


def rules_named(names: str, rule: Rule) -> Mapping[str, Rule]:
    return {f"aten.{name}": rule for name in names.split()}
