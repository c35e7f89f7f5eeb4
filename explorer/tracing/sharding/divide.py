"""Divide a captured model over a group: from its graph at two batches to that of one member at both."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from explorer.tracing.captured import Captured
from explorer.tracing.sharding.alike import alike
from explorer.tracing.sharding.choices import WHOLE, Choices, Option
from explorer.tracing.sharding.local import Part, member_of, members_of
from explorer.tracing.sharding.loops import Known
from explorer.tracing.sharding.prices import across_s, seconds_of
from explorer.tracing.sharding.program import Division, GroupLink, Prices, cheapest
from explorer.tracing.sharding.rules import analyse
from explorer.tracing.sharding.ways import check_tokens, notes_of_ways
from solvers.errors import InvalidProblem
from solvers.kernels.arrays import Floats
from solvers.noncontiguous.expert_packing import check_redundant
from solvers.problem.collectives import ATTENTION, Axis
from solvers.problem.graph import OpGraph

SHARED_OUT = {
    Axis.TENSOR: "heads, columns or tokens",
    Axis.CONTEXT: "the tokens of a sample",
    Axis.EXPERT: "the samples of a micro-batch (--batch) and experts",
}
"""What a degree must divide."""
SHOWN = 4
"""Kinds of calls that a note names."""


@dataclass(frozen=True, slots=True)
class Divided:
    """small, large: what one member runs, at both batches. division: how, with its cost and bound; choices: what there
    was to choose from."""

    small: Captured
    large: Captured
    choices: Choices
    division: Division


@dataclass(frozen=True, slots=True)
class Group:
    """degree: members. seconds: the cost model by which calls are divided; device: what it is of, for people. link:
    what members exchange their parts over. sequence: whether the tokens of a sample may be divided between the calls
    that need them whole (sequence parallelism). axis: what members divide. load: of the member whose experts are chosen
    most, over the mean. again: over how many what a member has is divided once more. outer: the link to a member's
    counterpart in other groups, where groups divide what the members of each divide again. redundant: replicas of
    experts in every mixture beyond the first of each."""

    degree: int
    seconds: Callable[[OpGraph], Floats]
    device: str
    link: GroupLink
    sequence: bool = True
    axis: Axis = Axis.TENSOR
    load: float = 1.0
    again: int = 1
    outer: GroupLink | None = None
    redundant: int = 0

    def divide(self, small: Captured, large: Captured, training: bool) -> Divided:
        """Raises InvalidProblem where nothing can be divided by the degree, in one line."""
        choices = Choices(
            analyse(small), large, self.degree, sequence=self.sequence, axis=self.axis, load=self.load,
            again=self.again, redundant=self.redundant,
        )  # fmt: skip
        self._check_replicas(choices)
        self.check(choices, choices.options)
        prices = self.prices(choices, large, training)
        division = alike(choices, prices, cheapest(choices, prices))
        notes = self._notes(choices, division)
        if self.axis is Axis.CONTEXT:
            notes += notes_of_ways(choices, prices, division.labels)
        if self.redundant and training:
            notes += (
                "gradients of an expert's replicas are added up once an iteration, by a ring among the devices with"
                " them; priced as the most that any placement of replicas has a device send, where on average one sends"
                f" {2 * self.redundant / self.degree:.3g} times an expert's gradient",
            )
        parts = (member_of(choices, division.labels, of) for of in (small, large))
        at, more = (replace(part, notes=(*part.notes, *notes)) for part in parts)
        return Divided(at, more, choices, division)

    def cheapest(self, choices: Choices, large: Captured, training: bool) -> Division:
        """The least time of one call after the other, equal layers alike where that is so."""
        prices = self.prices(choices, large, training)
        return alike(choices, prices, cheapest(choices, prices))

    def prices(self, choices: Choices, large: Captured, training: bool) -> Prices:
        """Of every option of every call, and of what is exchanged between them."""
        seconds = seconds_of(choices, large, self.seconds, training)
        if self.outer is not None:
            across = across_s(choices, self.outer, training)
            seconds = {at: [a + b for a, b in zip(each, across[at], strict=True)] for at, each in seconds.items()}
        return Prices(seconds, self.link, 1, training)

    def check(self, choices: Choices, calls: Collection[int]) -> None:
        """Raises InvalidProblem where none of ``calls`` (positions) can be divided, and where attention would run whole
        on every member, for its heads are no multiple of the degree."""
        if self.axis is Axis.CONTEXT:
            check_tokens(choices)
            return
        if all(len(choices.options[at]) == 1 and choices.options[at][0].leaf == WHOLE for at in calls):
            raise InvalidProblem(
                f"{choices.captured.name}: nothing can be divided over {self.degree} devices; {SHARED_OUT[self.axis]}"
                f" must be a multiple of the degree ({self.axis.flag})"
            )
        for at in calls:
            options, node = choices.options[at], choices.captured.nodes[at]
            if node.target.startswith(ATTENTION) and len(options) == 1 and options[0].leaf == WHOLE:
                heads = [choices.captured.values[name].shape[-3] for _, name in node.tensors[:2]]
                shared = choices.leaves(node.tensors[0][1], len(choices.captured.values[node.tensors[0][1]].shape) - 3)
                groups = choices.known.dimensions.lengths[shared[0]] if len(shared) > 1 else heads[0]
                of_keys = "" if (keys := min(heads[1], groups)) == heads[0] else f" ({keys} of keys)"
                raise InvalidProblem(
                    f"{choices.captured.name}: the {heads[0]} heads{of_keys} of {node.module_path or node.name} cannot"
                    f" be divided over {self.degree} devices; give a degree that divides them (--tensor-parallel)"
                )

    def _check_replicas(self, choices: Choices) -> None:
        """Raises InvalidProblem where members cannot have equally many experts with those that are redundant."""
        if not self.redundant:
            return
        counts = sorted({choices.known.dimensions.lengths[leaf] for leaf in choices.experts})
        if not counts:
            raise InvalidProblem(
                f"{choices.captured.name}: there are no experts of which replicas could be placed; leave out"
                " --redundant-experts"
            )
        for experts in counts:
            check_redundant(choices.captured.name, experts, self.redundant, self.degree)
        if not any(option.leaf in choices.experts for options in choices.options.values() for option in options):
            raise InvalidProblem(
                f"{choices.captured.name}: its experts cannot be divided over {self.degree} devices, so none has"
                " replicas; leave out --redundant-experts"
            )

    def _notes(self, choices: Choices, division: Division) -> tuple[str, ...]:
        labels = division.labels
        whole: dict[str, int] = {}
        for at, option in labels.items():
            if option.leaf == WHOLE and len(choices.options[at]) == 1:
                target = choices.captured.nodes[at].target
                whole[target] = whole.get(target, 0) + 1
        divided = sum(option.leaf != WHOLE for option in labels.values())
        most = sorted(whole, key=lambda target: (-whole[target], target))
        named = ", ".join(f"{target} x {whole[target]}" for target in most[:SHOWN])
        proved = (
            "the least"
            if division.cost_s <= division.bound_s * (1 + 1e-6)
            else f"at most {1 - division.bound_s / division.cost_s:.1%} more than the least"
        )
        rest = f"; run whole, having no division by {self.degree}: {named}" if named else ""
        return (
            f"{self.axis.divides} are divided over {self.degree} devices: {divided} of {len(labels)} calls, in {proved}"
            f" time of one after the other on {self.device} at {self.link.bandwidth_bytes_per_s / 1e9:g} GB/s"
            f"{' without dividing sequences' if not self.sequence else ''}{rest}",
        )


@dataclass(slots=True)
class ByPart:
    """A model whose parts are divided over groups of different sizes; the cheapest division of each size is found
    once. small, large: of the whole model, at two batches. group: of a size."""

    small: Captured
    large: Captured
    training: bool
    group: Callable[[int], Group]
    _known: Known | None = field(default=None, init=False)
    _parts: dict[int, Part] = field(default_factory=dict, init=False)

    def divide(self, degree_of: Callable[[str], int]) -> tuple[Captured, Captured, int]:
        """What one member of each group runs, at both batches, and how many members the largest has. degree_of: the
        path of a module -> over how many devices its calls are divided, 1 for not at all. Raises InvalidProblem where
        they cannot be, in one line."""
        nodes = self.small.nodes
        calls = self._part(1).choices.options
        degrees = {at: degree_of(nodes[at].module_path) for at in calls}
        parts = {degree: self._part(degree) for degree in sorted(set(degrees.values()))}
        for degree, part in parts.items():
            if degree > 1:
                self.group(degree).check(part.choices, [at for at, of in degrees.items() if of == degree])
        small, large = (members_of(parts, degrees, of) for of in (self.small, self.large))
        words = ", ".join(f"{list(degrees.values()).count(degree)} calls over {degree}" for degree in parts)
        note = f"tensors are divided by part of the model, each in the least time of one call after the other: {words}"
        notes = (*small.notes, note)
        return replace(small, notes=notes), replace(large, notes=notes), max(parts)

    def _part(self, degree: int) -> Part:
        if degree not in self._parts:
            self._known = self._known or analyse(self.small)
            if degree == 1:
                choices = Choices(self._known, self.large, 1)
                labels = {at: _whole(choices, at) for at in choices.options}
            else:
                choices = Choices(self._known, self.large, degree, sequence=self.group(degree).sequence)
                labels = dict(self.group(degree).cheapest(choices, self.large, self.training).labels)
            self._parts[degree] = Part(choices, labels)
        return self._parts[degree]


def _whole(choices: Choices, at: int) -> Option:
    node = choices.captured.nodes[at]
    tensors = len(node.tensors)
    return Option(WHOLE, (WHOLE,) * tensors, (WHOLE,) * len(node.outputs), (None,) * tensors)
