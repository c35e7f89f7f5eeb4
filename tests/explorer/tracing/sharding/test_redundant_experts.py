"""Experts of which some have replicas: members compute as one process does, hold and send what they must, checked."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
import torch

from explorer.tracing.build import build
from explorer.tracing.sharding.choices import Choices
from explorer.tracing.sharding.divide import Group
from explorer.tracing.sharding.local import member_of
from explorer.tracing.sharding.rules import analyse
from explorer.tracing.sharding.twice import to_divide_again
from solvers.errors import InvalidProblem
from solvers.formats.json_fields import Field
from solvers.formats.op_graph_json import graph_json, read_op_graph
from solvers.problem.collectives import Axis
from solvers.problem.graph import Amount, OpGraph, Phase
from solvers.verify.division import division
from tests.explorer.tracing.sharding.captures import captured, demo
from tests.explorer.tracing.sharding.members import any_labels, note_divided, run_members, run_whole
from tests.explorer.tracing.sharding.routed import Mixture, slots
from tests.explorer.tracing.sharding.test_division import faults
from tests.explorer.tracing.sharding.test_experts import HIDDEN, ITEM, WIDTH, choices_of, given, graph_of, mixture
from tests.explorer.tracing.sharding.test_program import LINK, seconds

GROUPS = ((2, 2, 8), (4, 4, 8), (4, 12, 8), (8, 8, 8), (8, 4, 12))
"""Devices, redundant experts, experts: the last is EPLB's example, which needs redundant ones to be divided at all."""
EXPERT = ITEM * (2 * WIDTH * HIDDEN + HIDDEN)
"""Bytes of one."""
WHOLE = ITEM * 2 * WIDTH * WIDTH
"""Of the parameters that all members have, but for the router."""


def updates(graph: OpGraph) -> float:
    return sum(one.exchanged_bytes.fixed for one in graph.operators if one.phase is Phase.UPDATE)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("degree", "redundant", "experts"), GROUPS)
def test_members_with_replicas_compute_the_loss_of_the_whole_model(
    degree: int, redundant: int, experts: int, seed: int
) -> None:
    """Rows of an expert go to its replicas in turn."""
    choices = choices_of(degree, redundant=redundant, experts=experts)
    assert len(slots(choices)) == experts + redundant
    assert len(set(slots(choices))) == experts
    labels = any_labels(choices, random.Random(seed))
    small, _ = mixture(experts)
    part, values = member_of(choices, labels, small), given(experts)
    whole = run_whole(small, values)[small.outputs[0]]
    note_divided(choices, labels)
    for member in run_members(choices, labels, part, values):
        torch.testing.assert_close(member[part.outputs[0]], whole, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("degree", "redundant", "experts"), GROUPS)
def test_a_member_holds_its_replicas_and_the_graph_keeps_the_rules(degree: int, redundant: int, experts: int) -> None:
    choices = choices_of(degree, load=1.2, redundant=redundant, experts=experts)
    for seed in range(2):
        graph = graph_of(choices, any_labels(choices, random.Random(seed)), experts)
        assert division(graph) == ()
        held = (experts + redundant) // degree * EXPERT + WHOLE + ITEM * WIDTH * experts
        assert sum(operator.param_bytes for operator in graph.operators) == held
        again = read_op_graph(Field(json.loads(json.dumps(graph_json(graph))), "graph"))
        assert again.division == graph.division


@pytest.mark.parametrize(("degree", "redundant", "experts"), GROUPS)
def test_no_placement_of_replicas_sends_more_to_add_up_gradients(degree: int, redundant: int, experts: int) -> None:
    """Of all numbers of replicas that the experts of one device may have, rings among their holders."""
    choices = choices_of(degree, redundant=redundant, experts=experts)
    graph = graph_of(choices, any_labels(choices, random.Random(0)), experts)
    shared = 2 * (degree - 1) / degree * (WHOLE + ITEM * WIDTH * experts)
    planned = (updates(graph) - shared) / EXPERT
    each = (experts + redundant) // degree

    def most(free: int, left: int) -> float:
        if not left:
            return 0.0
        return max(2 * more / (more + 1) + most(free - more, left - 1) for more in range(free + 1))

    assert most(redundant, each) <= planned + 1e-9
    assert planned <= 2 * min(each, redundant)
    if redundant % min(each, redundant) == 0:
        assert most(redundant, each) == pytest.approx(planned)
    messages = {one.exchange_steps for one in graph.operators if one.phase is Phase.UPDATE}
    assert messages == {2 * redundant, 2 * (degree - 1)}


def test_inference_adds_up_nothing() -> None:
    choices = choices_of(4, redundant=4)
    labels = any_labels(choices, random.Random(0))
    graph = graph_of(choices, labels, training=False)
    assert division(graph) == ()
    assert updates(graph) == 0


@pytest.mark.first(2)
@pytest.mark.parametrize(("degree", "redundant", "experts"), GROUPS)
def test_planted_faults_are_refused(degree: int, redundant: int, experts: int) -> None:
    choices = choices_of(degree, load=1.25, redundant=redundant, experts=experts)
    labels = any_labels(choices, random.Random(1))
    parts = tuple(member_of(choices, labels, of) for of in mixture(experts))
    for kind, graphs in faults(parts, random.Random(1)).items():
        assert graphs, kind
        assert all(division(graph) for graph in graphs), kind
    graph = graph_of(choices, labels, experts)
    stated = graph.division
    assert stated is not None
    for other in (0, redundant - 1, redundant + degree):
        assert division(replace(graph, division=replace(stated, redundant=other))) != ()
    replicated = [at for at, tensor in enumerate(stated.tensors) if tensor.placement.startswith("E(0,")]
    assert len(replicated) >= 3
    each = (experts + redundant) // degree
    for at in replicated:
        for placement in ("S(0)", "R", f"E(0,{each - 1})", f"E(0,{each + 1})", "E(0)"):
            wrong = replace(stated.tensors[at], placement=placement)
            tensors = (*stated.tensors[:at], wrong, *stated.tensors[at + 1 :])
            assert division(replace(graph, division=replace(stated, tensors=tensors))) != (), placement
    for at, one in enumerate(graph.operators):
        for wrong in (
            replace(one, param_bytes=one.param_bytes + 2 * WIDTH) if one.param_bytes else None,
            replace(one, exchange_steps=0, exchanged_bytes=Amount())
            if one.exchange_steps and one.phase is Phase.UPDATE
            else None,
        ):
            if wrong is not None:
                operators = (*graph.operators[:at], wrong, *graph.operators[at + 1 :])
                assert division(replace(graph, operators=operators)) != (), one.name


def test_a_sum_over_experts_is_not_divided_among_replicas() -> None:
    """It would count them twice."""

    class Penalised(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mixture = Mixture(8, 2, WIDTH, HIDDEN)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.mixture(x) + self.mixture.bias.sum(0).square().sum()

    with torch.device("meta"):
        pair = captured(Penalised().bfloat16(), (torch.rand(8, 8, WIDTH, dtype=torch.bfloat16),))
    divides = {}
    for redundant in (0, 4):
        choices = Choices(analyse(pair[0]), pair[1], 4, axis=Axis.EXPERT, redundant=redundant)
        added = [at for at in choices.options if pair[0].nodes[at].target == "aten.sum"]
        divides[redundant] = any(option.leaf in choices.experts for at in added for option in choices.options[at])
    assert divides == {0: True, 4: False}


@pytest.mark.parametrize("seed", range(2))
def test_members_of_groups_with_replicas_divide_their_matrices(seed: int) -> None:
    chance = random.Random(seed)
    choices = choices_of(2, load=1.3, redundant=2)
    labels = any_labels(choices, chance)
    one, other = (to_divide_again(member_of(choices, labels, each), 2) for each in mixture())
    again = Choices(analyse(one), other, 2)
    labels = any_labels(again, chance)
    graph = build(
        member_of(again, labels, one), member_of(again, labels, other), reference="m", training=True, tensor_parallel=4
    ).graph
    assert division(graph) == ()
    outer = graph.division.outer if graph.division is not None else None
    assert outer is not None
    assert outer.redundant == 2
    assert division(replace(graph, division=replace(graph.division, outer=replace(outer, redundant=0)))) != ()


def divided(degree: int, redundant: int, load: float = 1.0) -> OpGraph:
    group = Group(degree, seconds, "any", LINK, axis=Axis.EXPERT, load=load, redundant=redundant)
    divided_model = group.divide(*mixture(), True)
    return build(divided_model.small, divided_model.large, reference="m", training=True, tensor_parallel=degree).graph


def test_replicas_cost_memory_and_gain_what_the_load_says() -> None:
    plain, more = divided(4, 0, 2.0), divided(4, 4, 1.25)
    held = [sum(one.param_bytes for one in graph.operators) for graph in (plain, more)]
    assert held[1] - held[0] == EXPERT
    flops = [
        sum(one.flops.at(8) for one in graph.operators if "grouped_mm" in one.op_type and one.phase is Phase.FORWARD)
        for graph in (plain, more)
    ]
    assert flops[1] == pytest.approx(flops[0] * 1.25 / 2.0)
    assert updates(more) > updates(plain)


@pytest.mark.parametrize(
    ("redundant", "why"),
    [
        (3, "8 experts and 3 redundant ones cannot be divided over 4 devices .*with --redundant-experts 4"),
        (28, "28 redundant experts are more than a replica of each of 8 on 4 devices; give at most 24"),
    ],
)
def test_what_members_cannot_hold_evenly_is_refused(redundant: int, why: str) -> None:
    with pytest.raises(InvalidProblem, match=why):
        divided(4, redundant)


def test_a_model_without_experts_has_no_replicas() -> None:
    group = Group(2, seconds, "any", LINK, axis=Axis.EXPERT, redundant=2)
    with pytest.raises(InvalidProblem, match="no experts of which replicas"):
        group.divide(*demo("gpt-small"), True)
