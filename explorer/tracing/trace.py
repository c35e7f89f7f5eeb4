"""Trace a module or a demonstration model into a workload."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch._subclasses import FakeTensorMode

from demo_models import MODELS
from explorer.tracing.batching import doubled
from explorer.tracing.build import build, same_nodes
from explorer.tracing.capture import capture
from explorer.tracing.fake import at_batch, batch_of, fake_inputs, fake_module
from solvers.errors import TraceError
from solvers.formats.workload import Workload

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
"""The names of dtypes a person gives."""


def trace_module(
    module: nn.Module,
    example_inputs: object,
    *,
    name: str,
    training: bool = True,
    dtype: torch.dtype | str | None = None,
    reference: str | None = None,
    example_kwargs: dict[str, Any] | None = None,
) -> Workload:
    """The operator graph of ``module``: no weight is read, copied or changed, and nothing is computed.

    example_inputs: a tensor, a tuple of arguments or a dict by name; example_kwargs: more by name. Only
    shapes and dtypes matter, and the first dimension of the first tensor is the batch (every tensor input
    with the same first dimension scales with it). dtype replaces every floating dtype ("bf16", "fp16", "fp32", a
    torch.dtype, or None: as the module is). training puts the module in train or eval mode and adds
    backward and update. reference defaults to ``name``.

    The graph is captured at the example's batch and at twice that, and each amount is the line through
    both. If the second capture fails or differs, amounts that depend on the inputs are taken as
    proportional, and a note says so.

    Raises TraceError, in one line, if the module cannot be traced.
    """
    if not isinstance(module, nn.Module):
        raise TraceError(f"{name}: expected a torch.nn.Module, found {type(module).__name__}")
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    target = _dtype(dtype)
    twin = fake_module(module, mode, training=training, dtype=target)
    inputs = fake_inputs(example_inputs, mode, target, example_kwargs)
    small = capture(twin, inputs, mode, name=name, training=training)
    try:
        more = at_batch(inputs, 2 * batch_of(inputs), mode)
        large = capture(twin, more, mode, name=name, training=training)
    except TraceError:
        large = None
    if large is None or not same_nodes(small, large):
        small, large = doubled(small)
    return build(small, large, reference=reference or name, training=training)


def trace_demo(
    name: str, training: bool = True, dtype: torch.dtype | str | None = None, batch: int | None = None
) -> Workload:
    """A model of `demo_models.MODELS`, built without storage. batch replaces the example's."""
    if name not in MODELS:
        raise TraceError(f"there is no demo model {name!r}; there are: {', '.join(MODELS)}")
    with torch.device("meta"):
        module, inputs = MODELS[name].build()
        if batch is not None:
            if batch < 1:
                raise TraceError(f"the batch must be at least 1 sample, found {batch}")
            inputs = tuple(torch.empty((batch, *x.shape[1:]), dtype=x.dtype) for x in inputs)
    return trace_module(module, inputs, name=name, training=training, dtype=dtype)


def _dtype(dtype: torch.dtype | str | None) -> torch.dtype | None:
    if isinstance(dtype, str):
        if dtype not in DTYPES:
            raise TraceError(f"unknown dtype {dtype!r}; expected one of {', '.join(DTYPES)}")
        return DTYPES[dtype]
    return dtype
