"""Mixtures whose samples and experts are divided over a group: computed as one process does, to the byte, checked."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import product

import pytest
import torch

from explorer.tracing.build import build
from explorer.tracing.captured import Captured
from explorer.tracing.sharding.choices import WHOLE, Choices, Option
from explorer.tracing.sharding.divide import Group
from explorer.tracing.sharding.local import member_of
from explorer.tracing.sharding.prices import seconds_of
from explorer.tracing.sharding.program import Prices, cheapest, cost_s
from explorer.tracing.sharding.rules import analyse
from solvers.problem.collectives import COLLECTIVE, Axis
from solvers.problem.graph import OpGraph
from solvers.verify.division import division
from tests.explorer.tracing.sharding.captures import captured
from tests.explorer.tracing.sharding.members import any_labels, note_divided, random_value, run_members, run_whole
from tests.explorer.tracing.sharding.routed import Mixture
from tests.explorer.tracing.sharding.test_division import faults
from tests.explorer.tracing.sharding.test_program import LINK, seconds

SAMPLES, TOKENS, WIDTH, HIDDEN, EXPERTS, CHOSEN = 8, 8, 16, 24, 8, 2
ITEM = 2


@cache
def mixture(experts: int = EXPERTS) -> tuple[Captured, Captured]:
    """Of 12 experts three are chosen, so that rows can be as many for each."""
    with torch.device("meta"):
        module = Mixture(experts, 3 if experts == 12 else CHOSEN, WIDTH, HIDDEN).bfloat16()
    return captured(module, (torch.rand(SAMPLES, TOKENS, WIDTH, dtype=torch.bfloat16),))


def choices_of(
    degree: int, axis: Axis = Axis.EXPERT, load: float = 1.0, redundant: int = 0, experts: int = EXPERTS
) -> Choices:
    small, large = mixture(experts)
    return Choices(analyse(small), large, degree, axis=axis, load=load, redundant=redundant)


def graph_of(
    choices: Choices, labels: Mapping[int, Option], experts: int = EXPERTS, *, training: bool = True
) -> OpGraph:
    parts = (member_of(choices, labels, of) for of in mixture(experts))
    return build(*parts, reference="m", training=training, tensor_parallel=choices.degree).graph


def given(experts: int = EXPERTS) -> dict[str, torch.Tensor]:
    torch.manual_seed(2)
    small, _ = mixture(experts)
    names = (*small.parameters, *small.inputs)
    return {name: random_value(small.values[name], 2) - 0.75 for name in names}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("degree", [2, 4, 8])
def test_members_with_samples_and_experts_compute_the_loss_of_the_whole_model(degree: int, seed: int) -> None:
    choices = choices_of(degree)
    labels = any_labels(choices, random.Random(seed))
    part = member_of(choices, labels, mixture()[0])
    kinds = {node.target for node in part.nodes if node.target.startswith(COLLECTIVE)}
    assert f"{COLLECTIVE}all_to_all" in kinds or f"{COLLECTIVE}all_gather" in kinds
    values = given()
    whole = run_whole(mixture()[0], values)[mixture()[0].outputs[0]]
    note_divided(choices, labels)
    for member in run_members(choices, labels, part, values):
        torch.testing.assert_close(member[part.outputs[0]], whole, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("load", [1.0, 1.25])
@pytest.mark.parametrize("degree", [4, 8])
def test_rows_go_to_experts_and_back_to_the_byte(degree: int, load: float) -> None:
    """4 k V (p-1)/p times the load, forward and backward, of V bytes of the tokens of a member."""
    divided = Group(degree, seconds, "any", LINK, axis=Axis.EXPERT, load=load).divide(*mixture(), True)
    graph = build(divided.small, divided.large, reference="m", training=True, tensor_parallel=degree).graph
    assert division(graph) == ()
    of_member = SAMPLES * TOKENS * WIDTH * ITEM / degree
    way = CHOSEN * of_member * (degree - 1) / degree * load
    sent = [o.exchanged_bytes.at(SAMPLES) for o in graph.operators if o.op_type == f"{COLLECTIVE}all_to_all"]
    assert sum(each == pytest.approx(way) for each in sent) == 4
    held = sum(operator.param_bytes for operator in graph.operators)
    assert held == ITEM * (EXPERTS * (2 * WIDTH * HIDDEN + HIDDEN) / degree + WIDTH * (EXPERTS + 2 * WIDTH))
    assert graph.sample_step == degree


def test_the_busiest_member_computes_by_its_load() -> None:
    even, uneven = (
        sum(
            operator.flops.at(SAMPLES)
            for operator in graph_of(choices, cheapest_of(choices)).operators
            if operator.op_type == "aten._grouped_mm"
        )
        for choices in (choices_of(4), choices_of(4, load=1.5))
    )
    assert uneven == pytest.approx(1.5 * even)


def cheapest_of(choices: Choices) -> Mapping[int, Option]:
    return cheapest(choices, prices_of(choices)).labels


def prices_of(choices: Choices) -> Prices:
    return Prices(seconds_of(choices, mixture()[1], seconds, training=True), LINK, 1, trains=True)


class Sinks(torch.nn.Module):
    """Attention with learned sinks (gpt-oss): a column beside the scores, repeated for all samples and tokens, under a
    mask that is repeated for all samples and heads."""

    def __init__(self, heads: int = 2) -> None:
        super().__init__()
        self.query, self.key = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.sinks = torch.nn.Parameter(torch.rand(heads))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, _ = x.shape
        heads = len(self.sinks)
        query, key = (each(x).view(batch, tokens, heads, -1).transpose(1, 2) for each in (self.query, self.key))
        mask = torch.ones(tokens, tokens, device=x.device).tril().log()
        scores = query @ key.mT + mask[None, None].expand(batch, heads, -1, -1)
        sinks = self.sinks.reshape(1, -1, 1, 1).expand(batch, -1, tokens, -1)
        shares = torch.cat([scores, sinks], -1).softmax(-1)[..., :-1]
        return (shares @ key).square().sum()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("axis", [Axis.EXPERT, Axis.TENSOR])
def test_what_repeats_a_whole_tensor_is_divided_where_it_repeats(axis: Axis, seed: int) -> None:
    with torch.device("meta"):
        pair = captured(Sinks(), (torch.rand(SAMPLES, TOKENS, WIDTH),))
    choices = Choices(analyse(pair[0]), pair[1], 2, axis=axis)
    joined = next(at for at in choices.options if pair[0].nodes[at].target == "aten.cat")
    assert all(option.leaf != WHOLE for option in choices.options[joined]) or axis is Axis.TENSOR
    labels = any_labels(choices, random.Random(seed))
    part, large = (member_of(choices, labels, of) for of in pair)
    graph = build(part, large, reference="m", training=True, tensor_parallel=2).graph
    assert division(graph) == ()
    if axis is Axis.EXPERT:
        update = next(operator for operator in graph.operators if operator.name == "cat/update")
        assert update.exchanged_bytes.fixed == 2 * 4, "each member has a part of the gradient of the sinks"
        for kind, graphs in faults((part, large), random.Random(seed)).items():
            assert all(division(faulty) for faulty in graphs), kind
    torch.manual_seed(3)
    values = {name: random_value(pair[0].values[name], 2) for name in (*pair[0].parameters, *pair[0].inputs)}
    whole = run_whole(pair[0], values)[pair[0].outputs[0]]
    note_divided(choices, labels)
    for member in run_members(choices, labels, part, values):
        torch.testing.assert_close(member[part.outputs[0]], whole, rtol=1e-8, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("axis", [Axis.EXPERT, Axis.TENSOR])
def test_no_other_way_to_divide_a_mixture_is_cheaper(axis: Axis) -> None:
    """Of the calls that rows go through on their way; all others as they are in the cheapest."""
    choices = choices_of(2, axis)
    prices = prices_of(choices)
    best = cheapest(choices, prices)
    assert best.cost_s == pytest.approx(best.bound_s)
    nodes = choices.captured.nodes
    routed = [at for at in choices.options if nodes[at].target in ("aten.index", "aten._grouped_mm", "aten.mul")]
    for options in product(*(choices.options[at] for at in routed)):
        labels = {**best.labels, **dict(zip(routed, options, strict=True))}
        assert cost_s(choices, prices, labels) >= best.cost_s * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("axis", [Axis.EXPERT, Axis.TENSOR])
def test_whatever_labels_a_mixture_has_its_graph_keeps_the_rules(axis: Axis, seed: int) -> None:
    for load in (1.0, 1.3):
        choices = choices_of(4, axis, load)
        assert division(graph_of(choices, any_labels(choices, random.Random(seed)))) == ()


def test_planted_faults_are_refused() -> None:
    choices = choices_of(2, load=1.25)
    labels = cheapest_of(choices)
    small, large = (member_of(choices, labels, of) for of in mixture())
    for kind, graphs in faults((small, large), random.Random(1)).items():
        refused = [bool(division(graph)) for graph in graphs]
        print(f"mixture {kind}: {sum(refused)} of {len(refused)}")
        assert refused, kind
        assert all(refused), kind


def test_a_load_that_is_not_stated_is_noticed() -> None:
    choices = choices_of(2, load=1.25)
    graph = graph_of(choices, cheapest_of(choices))
    assert graph.division is not None
    assert division(graph) == ()
    assert division(replace(graph, division=replace(graph.division, load=1.0))) != ()
