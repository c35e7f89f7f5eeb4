"""Models captured at two batches, for tests of how their tensors are divided."""

from __future__ import annotations

from functools import cache

import torch
from torch import nn
from torch._subclasses import FakeTensorMode

from demo_models import MODELS
from explorer.tracing.capture import capture
from explorer.tracing.captured import Captured
from explorer.tracing.fake import at_batch, fake_inputs, fake_module


def captured(module: nn.Module, inputs: tuple[torch.Tensor, ...], name: str = "model") -> tuple[Captured, Captured]:
    """At the batch of the inputs and at twice that."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    twin = fake_module(module, mode, training=True, dtype=None)
    given = fake_inputs(inputs, mode, None, None)
    samples = inputs[0].shape[0]
    both = (given, at_batch(given, 2 * samples, mode, 0))
    small, large = (capture(twin, each, mode, name=name, training=True)[0] for each in both)
    return small, large


@cache
def demo(name: str) -> tuple[Captured, Captured]:
    with torch.device("meta"):
        module, inputs = MODELS[name].build()
    return captured(module, inputs, name)
