"""How a graph states that its calls are divided, found again among what each of them allows."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.tracing.captured import Captured
from explorer.tracing.sharding.choices import SHARED, Choices, Option, State
from explorer.tracing.sharding.local import Part, laid_out, member_of
from explorer.tracing.sharding.loops import Where
from explorer.tracing.sharding.rules import analyse
from explorer.tracing.sharding.twice import to_divide_again
from solvers.errors import InvalidProblem
from solvers.problem import collectives
from solvers.problem.collectives import Axis, DividedCall, Division


def as_stated(division: Division, degrees: Sequence[int], small: Captured, large: Captured) -> tuple[Part, ...]:
    """The options by which a model's calls are divided along each axis of its groups, the outer first; along the inner
    of two, those of what each inner group runs.

    division: as a graph of the model states it. degrees: members along each axis. small, large: the whole model at two
    batches. Raises InvalidProblem for a call that allows nothing of the kind; that all else is as stated is for whoever
    divides by it to compare.
    """
    *outer, inner = degrees
    if division.outer is None:
        return (_along_one(division, inner, small, large),)
    parts = as_stated(division.outer, outer, small, large)
    one, other = (
        to_divide_again(member_of(parts[-1].choices, parts[-1].labels, of), outer[-1]) for of in (small, large)
    )
    return *parts, _along_one(division, inner, one, other)


def _along_one(division: Division, degree: int, small: Captured, large: Captured) -> Part:
    axis = Axis.EXPERT if division.axis is Axis.EXPERT else None
    choices = Choices(analyse(small), large, degree, axis=axis, load=division.load, redundant=division.redundant)
    made_by = {division.tensors[output].name: call for call in division.calls for output in call.outputs[:1]}
    labels = {}
    for at, options in choices.options.items():
        call = made_by.get(small.nodes[at].outputs[0])
        option = (
            None if call is None else next((o for o in options if _is_stated(choices, at, o, division, call)), None)
        )
        if option is None:
            raise InvalidProblem(
                f"{small.name}: the call {small.nodes[at].name} cannot be divided over {degree} devices as the plan"
                " states; plan it again"
            )
        labels[at] = option
    choices.axis = division.axis  # all options are known now: from here on it is what the graph states again
    return Part(choices, labels)


def _is_stated(choices: Choices, at: int, option: Option, division: Division, call: DividedCall) -> bool:
    node = choices.captured.nodes[at]
    if len(call.inputs) != len(node.tensors) or len(call.outputs) != len(node.outputs):
        return False
    read = (
        _needed(choices, name, state, place)
        for (_, name), state, place in zip(node.tensors, option.inputs, option.places, strict=True)
    )
    made = (laid_out(choices, name, state, None) for name, state in zip(node.outputs, option.outputs, strict=True))
    stated = (division.tensors[tensor].placement for tensor in (*call.inputs, *call.outputs))
    return [*read, *made] == list(stated)


def _needed(choices: Choices, name: str, state: State, place: Where) -> str:
    """The placement in which a member reads a value: what has no gradient is whole, whoever computes with it."""
    source = choices.source(name)
    held = source in choices.captured.parameters or source in choices.captured.buffers
    if state == SHARED and (held or not choices.captured.values[source].requires_grad):
        return collectives.WHOLE
    return laid_out(choices, name, state, place if held and source == name else None)
