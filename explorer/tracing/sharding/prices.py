"""What every option of every call takes, by the cost model at the shapes that it gives its tensors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from explorer.tracing.build import build_all
from explorer.tracing.captured import NO_EXCHANGE, Captured, Node, Value
from explorer.tracing.sharding.choices import Choices, Option
from explorer.tracing.sharding.program import GroupLink
from explorer.tracing.sharding.ring import round_exchange, rounds
from explorer.tracing.sharding.twice import shared_out
from solvers.kernels.arrays import Floats
from solvers.problem.graph import OpGraph

CostModel = Callable[[OpGraph], Floats]
"""Seconds of every operator of a graph at its batch, [operators]."""


def seconds_of(choices: Choices, large: Captured, seconds: CostModel, training: bool) -> Mapping[int, Sequence[float]]:
    """By call: forward and backward of each of its options, each priced as a model of one call."""
    names = _names(choices)
    graph, folded = build_all(_variants(choices, choices.captured), _variants(choices, large), training=training)
    taken = seconds(graph)
    of_group: dict[int, float] = defaultdict(float)
    for at, operator in enumerate(graph.operators):
        of_group[at if operator.forward_of is None else operator.forward_of] += float(taken[at])
    of_call: dict[tuple[int, int], float] = defaultdict(float)
    for group, members in enumerate(folded.groups):
        for member in members:
            of_call[names[member]] += of_group[group] / len(members)
    return {at: tuple(of_call[at, number] for number in range(len(options))) for at, options in choices.options.items()}


def across_s(choices: Choices, link: GroupLink, trains: bool) -> Mapping[int, Sequence[float]]:
    """By call: what a member exchanges along the outer axis, with each of its options."""
    nodes = choices.captured.nodes
    return {
        at: [
            _across_s(choices, nodes[at], option, link, trains) if nodes[at].outer != NO_EXCHANGE else 0.0
            for option in options
        ]
        for at, options in choices.options.items()
    }


def _across_s(choices: Choices, node: Node, option: Option, link: GroupLink, trains: bool) -> float:
    values: dict[str, Value] = {}
    for (_, name), state, place in zip(node.tensors, option.inputs, option.places, strict=True):
        for each in (name, choices.source(name)):
            shape = choices.local_shape(each, state, place if each == name else None)
            values[each] = replace(choices.captured.values[each], shape=shape)
    sent = shared_out(node, choices.captured, values, {name: name for _, name in node.tensors})
    total = link.exchange_s(sent.forward_bytes, sent.forward_steps)
    if trains:
        total += link.exchange_s(sent.backward_bytes, sent.backward_steps)
        total += link.exchange_s(sent.update_bytes, sent.update_steps)
    return total


def _names(choices: Choices) -> list[tuple[int, int]]:
    return [(at, number) for at, options in choices.options.items() for number in range(len(options))]


def _variants(choices: Choices, of: Captured) -> Captured:
    """A graph without connections: every option of every call, reading tensors of its own."""
    nodes: list[Node] = []
    values: dict[str, Value] = {}
    parameters: dict[str, str] = {}
    inputs: list[str] = []
    outputs: list[str] = []
    for at, options in choices.options.items():
        node = of.nodes[at]
        for number, option in enumerate(options):
            mark = f"{at}.{number}"
            new: dict[str, str] = {}
            for (_, name), state, place in zip(node.tensors, option.inputs, option.places, strict=True):
                new[name] = f"{name}.{mark}"
                shape = choices.local_shape(name, state, place, of)
                values[new[name]] = replace(of.values[name], name=new[name], shape=shape, base=None)
                if choices.source(name) in of.parameters:
                    parameters[new[name]] = new[name]
                else:
                    inputs.append(new[name])
            made = []
            for name, state in zip(node.outputs, option.outputs, strict=True):
                base = new.get(of.values[name].base or "") if node.mutates else None
                shape = choices.local_shape(name, state, None, of)
                values[f"{name}.{mark}"] = replace(of.values[name], name=f"{name}.{mark}", shape=shape, base=base)
                made.append(f"{name}.{mark}")
            tensors = tuple((argument, new[name]) for argument, name in node.tensors)
            mutates = tuple(new[name] for name in node.mutates)
            one = replace(node, name=mark, tensors=tensors, outputs=tuple(made), mutates=mutates)
            if option.ring:
                one = replace(one, rounds=rounds(choices, node, option), exchange=round_exchange(choices, node, of))
            nodes.append(one)
            outputs += made
    return replace(
        of, values=values, nodes=tuple(nodes), parameters=parameters, buffers=(), inputs=tuple(inputs),
        outputs=tuple(outputs), saved=(),
    )  # fmt: skip
