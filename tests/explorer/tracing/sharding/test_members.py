"""What members of a group compute together is what the whole model computes."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch

import demo_models
from explorer.tracing.build import build
from explorer.tracing.captured import Captured
from explorer.tracing.sharding.choices import WHOLE, Choices
from explorer.tracing.sharding.local import member_of
from explorer.tracing.sharding.rules import analyse
from solvers.problem.collectives import COLLECTIVE
from tests.explorer.tracing.sharding.captures import captured, demo
from tests.explorer.tracing.sharding.members import any_labels, note_divided, random_value, run_members, run_whole

MODELS = ("gpt-small", "llama-small", "bert-small", "multimodal-small", "gnmt-small", "resnet50-small")


@pytest.mark.first(8)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", MODELS)
def test_any_labels_give_the_loss_of_the_whole_model(name: str, seed: int) -> None:
    small, large = demo(name)
    choices = Choices(analyse(small), large, 2, whole_weights=True)
    labels = any_labels(choices, random.Random(seed))
    part = member_of(choices, labels, small)
    assert any(node.target.startswith(COLLECTIVE) for node in part.nodes)
    given = _given(small)
    whole = run_whole(small, given)[small.outputs[0]]
    note_divided(choices, labels)
    for values in run_members(choices, labels, part, given):
        torch.testing.assert_close(values[part.outputs[0]], whole, rtol=1e-8, atol=1e-8)


@pytest.mark.first(3)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["gpt-small", "llama-small", "bert-small"])
def test_tokens_of_an_example_of_one_sample_are_divided(name: str, seed: int) -> None:
    """Where samples and tokens are looked at together, rows of one sample are its tokens."""
    with torch.device("meta"):
        module, inputs = demo_models.MODELS[name].build()
    small, large = captured(module, tuple(each[:1] for each in inputs), name)
    choices = Choices(analyse(small), large, 2, whole_weights=True)
    norms = [at for at, node in enumerate(small.nodes) if node.target in ("aten.layer_norm", "aten.rms_norm")]
    assert all(len(choices.options[at]) > 1 for at in norms)
    labels = {at: options[-1] if at in norms else options[0] for at, options in choices.options.items()}
    labels |= any_labels(choices, random.Random(seed)) if seed else {}
    part = member_of(choices, labels, small)
    given = _given(small)
    whole = run_whole(small, given)[small.outputs[0]]
    note_divided(choices, labels)
    for values in run_members(choices, labels, part, given):
        torch.testing.assert_close(values[part.outputs[0]], whole, rtol=1e-8, atol=1e-8)


def test_a_forgotten_exchange_is_noticed() -> None:
    small, large = demo("gpt-small")
    choices = Choices(analyse(small), large, 2)
    labels = any_labels(choices, random.Random(0))
    part = member_of(choices, labels, small)
    given = _given(small, most=100)
    whole = run_whole(small, given)[small.outputs[0]]
    note_divided(choices, labels)
    kinds = (f"{COLLECTIVE}all_reduce", f"{COLLECTIVE}reduce_scatter")
    sums = [node.name for node in part.nodes if node.target in kinds]
    assert len(sums) > 3
    for forgotten in sums:
        values = run_members(choices, labels, part, given, forgotten)[0]
        assert not torch.allclose(values[part.outputs[0]], whole, rtol=1e-8, atol=1e-8), forgotten


@pytest.mark.parametrize("name", MODELS)
def test_a_model_whose_calls_are_all_whole_is_the_model(name: str) -> None:
    small, large = demo(name)
    choices = Choices(analyse(small), large, 2, whole_weights=True)
    labels = {at: options[0] for at, options in choices.options.items()}
    assert all(option.leaf == WHOLE for option in labels.values())
    parts = [member_of(choices, labels, each) for each in (small, large)]
    divided = build(*parts, reference=name, training=True)
    as_whole = [replace(operator, placement="") for operator in divided.graph.operators]
    whole = build(small, large, reference=name, training=True).graph
    assert replace(divided.graph, operators=tuple(as_whole), division=None) == whole


def _given(small: Captured, most: int = 2) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    names = (*small.parameters, *small.buffers, *small.inputs)
    return {name: random_value(small.values[name], most) * (0.1 if name in small.parameters else 1) for name in names}
