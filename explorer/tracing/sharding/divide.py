"""Divide a captured model over a group: from its graph at two batches to that of one member at both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from explorer.tracing.captured import Captured
from explorer.tracing.sharding.choices import WHOLE, Choices
from explorer.tracing.sharding.local import member_of
from explorer.tracing.sharding.prices import seconds_of
from explorer.tracing.sharding.program import Division, GroupLink, Prices, cheapest
from explorer.tracing.sharding.rules import analyse
from solvers.errors import InvalidProblem
from solvers.kernels.arrays import Floats
from solvers.problem.graph import OpGraph

ATTENTION = "aten.scaled_dot_product_attention"
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
    that need them whole (sequence parallelism)."""

    degree: int
    seconds: Callable[[OpGraph], Floats]
    device: str
    link: GroupLink
    sequence: bool = True

    def divide(self, small: Captured, large: Captured, training: bool) -> Divided:
        """Raises InvalidProblem where nothing can be divided by the degree, in one line."""
        choices = Choices(analyse(small), large, self.degree, sequence=self.sequence)
        if all(len(options) == 1 and options[0].leaf == WHOLE for options in choices.options.values()):
            raise InvalidProblem(
                f"{small.name}: nothing can be divided over {self.degree} devices; heads, columns or tokens must be a"
                f" multiple of the degree (--tensor-parallel)"
            )
        self._check_heads(choices)
        priced = seconds_of(choices, large, self.seconds, training)
        division = cheapest(choices, Prices(priced, self.link, 1, training))
        parts = (member_of(choices, division.labels, of) for of in (small, large))
        at, more = (replace(part, notes=(*part.notes, *self._notes(choices, division))) for part in parts)
        return Divided(at, more, choices, division)

    def _check_heads(self, choices: Choices) -> None:
        """Raises InvalidProblem where attention would run whole on every member, for its heads are no multiple of the
        degree."""
        for at, options in choices.options.items():
            node = choices.captured.nodes[at]
            if node.target.startswith(ATTENTION) and len(options) == 1:
                heads = [choices.captured.values[name].shape[-3] for _, name in node.tensors[:2]]
                of_keys = "" if heads[0] == heads[1] else f" ({heads[1]} of keys)"
                raise InvalidProblem(
                    f"{choices.captured.name}: the {heads[0]} heads{of_keys} of {node.module_path or node.name} cannot"
                    f" be divided over {self.degree} devices; give a degree that divides them (--tensor-parallel)"
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
            f"tensors are divided over {self.degree} devices: {divided} of {len(labels)} calls, in {proved} time of one"
            f" after the other on {self.device} at {self.link.bandwidth_bytes_per_s / 1e9:g} GB/s"
            f"{' without dividing sequences' if not self.sequence else ''}{rest}",
        )
