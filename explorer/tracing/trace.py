"""Trace a module or a demonstration model into a workload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn
from torch._subclasses import FakeTensorMode

from demo_models import MODELS
from explorer.tracing.batching import doubled, sequence_first
from explorer.tracing.build import build, same_nodes
from explorer.tracing.capture import capture
from explorer.tracing.captured import Captured
from explorer.tracing.fake import at_batch, at_length, batch_of, fake_inputs, fake_module
from explorer.tracing.shims.devices import ignore
from solvers.errors import TraceError
from solvers.formats.workload import Workload

Divide = Callable[[Captured, Captured, bool], tuple[Captured, Captured, int]]
"""A model at two batches, and whether it trains -> what one member of a group runs at both, and how many members."""

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
"""The names of dtypes a person gives."""
MOST_CAPTURED = 8
"""Demos of which what was captured is kept."""
_captured: dict[tuple[str, bool, torch.dtype | str | None, int | None, int | None], tuple[Captured, Captured]] = {}
"""The one that was captured last is the last."""


def trace_module(
    module: object,
    example_inputs: object,
    *,
    name: str,
    training: bool = True,
    dtype: torch.dtype | str | None = None,
    example_kwargs: dict[str, object] | None = None,
    batch_dim: int | None = None,
    expert_rows: int | None = None,
    on_call: Callable[[int], None] = ignore,
    divide: Divide | None = None,
    sequence: int | None = None,
) -> Workload:
    """The operator graph of ``module``: no weight is read, copied or changed, and nothing is computed.

    example_inputs: a tensor, a tuple of arguments or a dict by name; example_kwargs: more by name. Only
    shapes and dtypes matter. batch_dim: the dimension of the first tensor that counts samples, by default the first;
    every tensor input that is as long there scales with it. dtype replaces every floating dtype ("bf16", "fp16",
    "fp32", a torch.dtype, or None: as the module is). training puts the module in train or eval mode and adds
    backward and update. expert_rows: how many rows a selection by value (the tokens of an expert) selects at the
    example's batch, in proportion at others; without it such a module is refused.
    on_call: given the number of calls that the forward has made so far, each time it is captured.
    sequence: tokens of a sample, in place of the example's.
    divide: makes of the model at two batches what one member of a tensor-parallel group runs (`sharding`).

    Raises TraceError, in one line, if the module cannot be traced.
    """
    if not isinstance(module, nn.Module):
        raise TraceError(f"{name}: expected a torch.nn.Module, found {type(module).__name__}")
    if expert_rows is not None and expert_rows < 1:
        raise TraceError(f"{name}: at least 1 row of an expert, found {expert_rows}")
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    target = _dtype(dtype)
    twin = fake_module(module, mode, training=training, dtype=target)
    inputs = fake_inputs(example_inputs, mode, target, example_kwargs)
    dim = batch_dim or 0
    if sequence is not None:
        try:
            inputs = at_length(inputs, sequence, mode, dim)
        except TraceError as error:
            raise TraceError(f"{name}: {error}") from error
    given = batch_of(inputs, dim)

    def at(samples: int) -> Captured | None:
        """None where the module cannot be traced at another batch than the example's."""
        rows = None if expert_rows is None else max(1, -(-expert_rows * samples // given))
        there = inputs if samples == given else at_batch(inputs, samples, mode, dim)
        try:
            return capture(twin, there, mode, name=name, training=training, rows=rows, batch_dim=dim, on_call=on_call)[
                0
            ]
        except TraceError:
            if samples == given:
                raise
            return None

    try:
        small, large = _at_two_batches(at, given, dim)
    except TraceError as error:
        if training and _can_infer(module, example_inputs, example_kwargs, target, name):
            raise TraceError(f"{error}; its inference can be traced (--inference, training=False)") from error
        raise
    if batch_dim is None:
        small = replace(small, notes=(*small.notes, *sequence_first(module, given)))
    small, large, degree = (small, large, 1) if divide is None else divide(small, large, training)
    return build(small, large, reference=name, training=training, tensor_parallel=degree)


def _at_two_batches(at: Callable[[int], Captured | None], given: int, dim: int) -> tuple[Captured, Captured]:
    """The module at the example's batch and at twice that: each amount is the line through both.

    An example of one sample is captured at two and at four, because a dimension of 1 is broadcast where others are
    copied. If the second capture fails or differs, amounts that depend on the inputs are taken as proportional, and a
    note says so.
    """
    small, large = at(given), at(2 * given)
    assert small is not None
    if given == 1 and large is not None and not same_nodes(small, large):
        larger = at(4)
        if larger is not None and same_nodes(large, larger):
            return large, larger
    return doubled(small, dim) if large is None or not same_nodes(small, large) else (small, large)


def trace_demo(
    name: str,
    training: bool = True,
    dtype: torch.dtype | str | None = None,
    batch: int | None = None,
    on_call: Callable[[int], None] = ignore,
    divide: Divide | None = None,
    sequence: int | None = None,
) -> Workload:
    """A model of `demo_models.MODELS`, built without storage. batch and sequence replace the example's. What was
    captured last is kept: a model that is divided in several ways is captured once."""
    if name not in MODELS:
        raise TraceError(f"there is no demo model {name!r}; there are: {', '.join(MODELS)}")
    wanted = name, training, dtype, batch, sequence

    def divided(small: Captured, large: Captured, training: bool) -> tuple[Captured, Captured, int]:
        _captured[wanted] = small, large
        while len(_captured) > MOST_CAPTURED:
            _captured.pop(next(iter(_captured)), None)
        return (small, large, 1) if divide is None else divide(small, large, training)

    if (captured := _captured.get(wanted)) is not None:
        small, large, degree = divided(*captured, training)
        return build(small, large, reference=name, training=training, tensor_parallel=degree)
    with torch.device("meta"):
        module, inputs = MODELS[name].build()
        if batch is not None:
            if batch < 1:
                raise TraceError(f"the batch must be at least 1 sample, found {batch}")
            inputs = tuple(torch.empty((batch, *x.shape[1:]), dtype=x.dtype) for x in inputs)
    return trace_module(
        module, inputs, name=name, training=training, dtype=dtype, on_call=on_call, divide=divided,
        sequence=sequence,
    )  # fmt: skip


def _can_infer(
    module: nn.Module,
    example_inputs: object,
    example_kwargs: dict[str, object] | None,
    dtype: torch.dtype | None,
    name: str,
) -> bool:
    """Whether what cannot be traced for training can be for inference."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        twin = fake_module(module, mode, training=False, dtype=dtype)
        inputs = fake_inputs(example_inputs, mode, dtype, example_kwargs)
        capture(twin, inputs, mode, name=name, training=False)
    except TraceError:
        return False
    return True


def _dtype(dtype: torch.dtype | str | None) -> torch.dtype | None:
    if isinstance(dtype, str):
        if dtype not in DTYPES:
            raise TraceError(f"unknown dtype {dtype!r}; expected one of {', '.join(DTYPES)}")
        return DTYPES[dtype]
    return dtype
