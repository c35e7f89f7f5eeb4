"""The mini-batch: as many samples as asked for, different ones, the same on every rank."""

from __future__ import annotations

import pytest
import torch

from demo_models import MODELS
from explorer.runner.model.samples import make_samples

HERE = "tests.explorer.runner.model.models"


@pytest.mark.parametrize("name", ["gpt-small", "dlrm-small", "multimodal-small", "resnet50-small"])
def test_demo_models_have_as_many_different_samples_as_requested(name: str) -> None:
    samples = make_samples(name, 6, seed=1, dtype=None, device="cpu")
    again = make_samples(name, 6, seed=1, dtype=None, device="cpu")
    other = make_samples(name, 6, seed=2, dtype=None, device="cpu")
    _, example = MODELS[name].build()
    assert [x.shape for x in samples] == [(6, *x.shape[1:]) for x in example]
    assert all(torch.equal(a, b) for a, b in zip(samples, again, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(samples, other, strict=True))
    assert len({tuple(row.flatten().tolist()) for row in samples[0]}) == 6


def test_examples_under_several_seeds_are_joined() -> None:
    """Arguments by name come after the others."""
    x, scale = make_samples(f"{HERE}:several", 10, seed=1, dtype="float64", device="cpu", allow_model=True)
    assert (x.shape, scale.shape, x.dtype) == ((10, 5, 8), (10, 1), torch.float64)
    assert len({float(value) for value in scale}) == 10
    fewer = make_samples(f"{HERE}:several", 3, seed=1, dtype="float64", device="cpu", allow_model=True)
    assert torch.equal(fewer[0], x[:3])


def test_a_builder_that_gives_one_example_only_is_not_called_for_ever() -> None:
    (x,) = make_samples(f"{HERE}:already_there", 1000, seed=1, dtype=None, device="cpu", allow_model=True)
    assert x.shape == (1000, 8)
