"""The most memory that a rank's tensors held."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim import Adafactor
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from explorer.runner.engine.measure import CountedStorage, peak_of_an_iteration
from explorer.runner.model.optimizers import OPTIMIZERS
from solvers.problem.gradient_room import TEMPORARIES
from solvers.problem.problem import Optimizer


def test_a_gpu_does_not_count_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 10_000)
    samples = (torch.zeros(8, 4), torch.zeros(8, dtype=torch.int64))
    machine = SimpleNamespace(device=torch.device("cuda", 0), samples=samples)
    assert peak_of_an_iteration(machine, 1_000.0) == 10_000 - 1_000 - 8 * 4 * 4 - 8 * 8


class Rank:
    """A rank on a CPU: one parameter and one buffer, and an iteration over micro-batches of the samples."""

    def __init__(self, micro_batches: int) -> None:
        self.device = torch.device("cpu")
        self.samples = (torch.zeros(8, 16),)
        self.held = SimpleNamespace(parameters={"w": torch.zeros(16, 4)}, buffers={"mean": torch.zeros(4)})
        self.optimizers: dict[int, torch.optim.Optimizer] = {}
        self.states_on_host, self.micro_batches = False, micro_batches

    def iterate(self) -> None:
        share = 8 // self.micro_batches
        for m in range(self.micro_batches):
            _ = self.samples[0].narrow(0, m * share, share) @ self.held.parameters["w"]


@pytest.mark.parametrize("micro_batches", [1, 2, 4])
def test_a_cpu_does_not_count_the_samples(micro_batches: int) -> None:
    """A micro-batch is a view of the samples, whose storage is older than the iteration."""
    products = 8 // micro_batches * 4 * 4 * (2 if micro_batches > 1 else 1)  # the last one is there while one is made
    counted = peak_of_an_iteration(Rank(micro_batches), 0.0)  # type: ignore[arg-type]
    assert counted == 16 * 4 * 4 + 4 * 4 + products


def unrolled(uses: int) -> Callable[[Tensor], Tensor]:
    def applied(weight: Tensor) -> Tensor:
        value = torch.ones(1, 100)
        for _ in range(uses):
            value = value.mm(weight)
        return value.sum()

    return applied


BACKWARDS: dict[str, tuple[Callable[[Tensor], Tensor], int]] = {
    "used once": (unrolled(1), 1),
    "used twice": (unrolled(2), 2),
    "used five times": (unrolled(5), 2),
    "past a branch": (lambda x: (x.sin() + x.sin().cos()).square().sum(), 4),
    "three branches": (lambda x: (x.sin() + x.cos() + x.sin()).square().sum(), 5),
    "one gradient to both": (lambda x: (lambda y: (y + 2 * y).square().sum())(x.sin()), 3),
    "one gradient to both and to a third": (lambda x: (lambda y: (y + 2 * y + y.cos()).square().sum())(x.sin()), 4),
}
"""A function of a parameter, none of which saves what it makes (seen first when it is read), and how many numbers a
second backward makes room for at once, in parameters."""


@pytest.mark.parametrize("name", BACKWARDS)
def test_gradients_are_added_up_in_no_more_room_than_without_counting(name: str) -> None:
    """Uses of a parameter are added up before they join the gradient of the micro-batch before, a new one beside their
    sum; of a parameter used once the new one alone. A mode keeps
    autograd from adding in place: what is counted is what the allocator gives out without one."""
    function, room = BACKWARDS[name]
    weight = torch.nn.Parameter(torch.randn(100, 100))
    function(weight).backward()  # the micro-batch before
    assert weight.grad is not None
    loss = function(weight)
    with CountedStorage([weight.data, weight.grad]) as counted:
        loss.backward()
    loss = function(weight)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as allocator:
        loss.backward()
    assert round(_most(allocator) / 40_000) == room
    assert round(counted.peak_bytes / 40_000) == 2 + room


def test_what_a_backward_runs_again_is_counted_as_any_forward() -> None:
    """A sum is there beside both of what it adds, though they go at once."""
    x = torch.nn.Parameter(torch.ones(10_000))
    peaks = []

    def sum_of_two(x: Tensor) -> Tensor:
        counted.peak_bytes = 0
        value = (2 * x + 3 * x).sin()
        peaks.append(counted.peak_bytes)
        return value.cos()

    with CountedStorage([x.data]) as counted:
        checkpoint(sum_of_two, x, use_reentrant=False).sum().backward()
    first, again = (round(peak / 40_000) for peak in peaks)
    assert (first, again) == (4, 4)


def _most(allocator: profile) -> int:
    """B that the allocator gave out at once."""
    events: Any = allocator.profiler
    given = [event for event in events.kineto_results.events() if event.name() == "[memory]"]
    return max(accumulate(event.nbytes() for event in sorted(given, key=lambda event: event.start_ns())))


MADE: dict[Optimizer, Callable[..., torch.optim.Optimizer]] = {
    **{Optimizer(word): make for word, make in OPTIMIZERS.items()},
    Optimizer.ADAFACTOR: Adafactor,
}


@pytest.mark.parametrize("optimizer", MADE)
def test_a_step_makes_what_plans_count_of_it(optimizer: Optimizer) -> None:
    """Of a matrix of 1,000 numbers; Adafactor's sums by row and by column, of 110, come and go too."""
    parameter = torch.nn.Parameter(torch.randn(100, 10))
    stepping = MADE[optimizer]([parameter], lr=1e-3)
    for _ in range(2):  # states are made by the first step
        parameter.grad = torch.randn(100, 10)
        states = [value for value in stepping.state[parameter].values() if isinstance(value, torch.Tensor)]
        held = [parameter.data, parameter.grad, *states]
        before = sum(tensor.untyped_storage().nbytes() for tensor in held)
        with CountedStorage(held) as counted:
            stepping.step()
    made = (counted.peak_bytes - before) / 4_000
    assert made == pytest.approx(TEMPORARIES.get(optimizer, 0.0), abs=0.12)
