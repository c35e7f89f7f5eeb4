"""The gradients of inputs and of parameters, made apart, equal those of one backward, for any segment."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from explorer.runner.engine.measure import CountedStorage
from explorer.runner.engine.split_backward import backward_inputs, backward_parameters
from explorer.runner.engine.stages import SegmentStage
from explorer.runner.model.segment_module import Input, Kind, Output, SegmentProgram
from tests.explorer.runner.engine.random_segments import BATCH, WIDTH, Segment

SEEDS = 400
MICRO_BATCHES = 3
WEIGHT = 0.25


@pytest.fixture(autouse=True, scope="module")
def alone() -> Iterator[None]:
    """A process group of this process, since torch's stages ask for their rank; and one thread for tiny tensors."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    yield
    dist.destroy_process_group()
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@dataclass(frozen=True)
class Given:
    """What a segment is run on. differentiated: which inputs want a gradient; losses: which outputs are the
    model's; gradients: for each micro-batch, those of outputs by position."""

    inputs: list[tuple[Tensor, ...]]
    differentiated: tuple[bool, ...]
    losses: frozenset[int]
    gradients: list[dict[int, Tensor]]


@dataclass(frozen=True)
class Gradients:
    """inputs: the gradients by micro-batch; parameters: by name. None where there is none."""

    inputs: list[tuple[Tensor | None, ...]]
    parameters: dict[str, Tensor | None]


def drawn(count: int, shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    return tuple(torch.randn(shape, dtype=torch.float64) for _ in range(count))


def given(module: nn.Module, differentiated: str, outputs: int, losses: str = "", without: str = "") -> Given:
    """Two-dimensional inputs, those marked "d" differentiated; every output but those without gets a gradient."""
    inputs = [drawn(len(differentiated), (BATCH, WIDTH)) for _ in range(MICRO_BATCHES)]
    made = module(*inputs[0])
    back = [
        {k: torch.randn_like(made[k]) for k in range(outputs) if str(k) not in losses + without}
        for _ in range(MICRO_BATCHES)
    ]
    return Given(inputs, tuple(mark == "d" for mark in differentiated), frozenset(map(int, losses)), back)


def stage_of(module: nn.Module, at: Given, outputs: int, recompute: bool = False) -> SegmentStage:
    def size(value: Tensor) -> tuple[tuple[int, ...], torch.dtype]:
        return tuple(value.shape), value.dtype

    program = SegmentProgram(
        module,  # type: ignore[arg-type]  # any module does
        tuple(Input(Kind.TENSOR, k, *size(value), at.differentiated[k]) for k, value in enumerate(at.inputs[0])),
        tuple(Output(Kind.MODEL if k in at.losses else Kind.TENSOR, k, (), torch.float64) for k in range(outputs)),
    )
    return SegmentStage(program, 0, 0, 1, torch.device("cpu"), at.differentiated, WEIGHT, recompute)


def separate(module: nn.Module, at: Given, outputs: int, recompute: bool = False) -> Gradients:
    """Gradients of inputs for all micro-batches, then those of parameters."""
    stage, gradients = stage_of(module, at, outputs, recompute), []
    for k, inputs in enumerate(at.inputs):
        torch.manual_seed(k)
        stage.forward(k, inputs, True)
    for k, back in enumerate(at.gradients):
        gradients.append(stage.backward_input(k, back))
        assert recompute or all(p.grad is None for p in module.parameters())
    for k in reversed(range(len(at.gradients))):
        stage.backward_weight(k)
    assert not stage.saved
    assert not stage.late
    return Gradients(gradients, taken(module))


def together(module: nn.Module, at: Given) -> Gradients:
    """The same by autograd alone, one backward a micro-batch."""
    gradients = []
    for k, (values, back) in enumerate(zip(at.inputs, at.gradients, strict=True)):
        torch.manual_seed(k)
        inputs = [v.detach().requires_grad_(d) for v, d in zip(values, at.differentiated, strict=True)]
        made = module(*inputs)
        back = back | {k: torch.full_like(made[k], WEIGHT / made[k].numel()) for k in at.losses}
        reached = [k for k in sorted(back) if made[k].requires_grad]
        if reached:
            torch.autograd.backward([made[k] for k in reached], [back[k] for k in reached])
        gradients.append(tuple(value.grad for value in inputs))
    return Gradients(gradients, taken(module))


def taken(module: nn.Module) -> dict[str, Tensor | None]:
    """The parameters' gradients, taken away."""
    gradients = {name: None if p.grad is None else p.grad.to_dense() for name, p in module.named_parameters()}
    module.zero_grad()
    return gradients


def differing(made: Gradients, true: Gradients) -> list[str]:
    wrong = [name for name, value in true.parameters.items() if not same(made.parameters[name], value)]
    for k, (own, expected) in enumerate(zip(made.inputs, true.inputs, strict=True)):
        wrong += [f"input {i} of {k}" for i in range(len(expected)) if not same(own[i], expected[i])]
    return wrong


def same(made: Tensor | None, true: Tensor | None) -> bool:
    if made is None or true is None:
        return made is true
    return torch.allclose(made, true, rtol=1e-9, atol=1e-12)


class Towers(nn.Module):
    """The end of one tower and the head of another."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return self.a(x).tanh(), self.b(y)


class Skip(Towers):
    """The second branch joins the first, and is handed on by itself too."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        h = self.b(y)
        return self.a(x + h).tanh(), h


class Between(Towers):
    """A parameter that two calls read, each beside one of its own, and that is the last by name."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Parameter(torch.randn(WIDTH, WIDTH))

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        h = F.linear(x, self.a.weight + self.shared, self.a.bias).tanh()
        return (F.linear(h, self.b.weight * self.shared, self.b.bias).tanh(), y)


class Recurrent(Towers):
    """Both layers are called again and again, the second one on what differs from call to call too."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        for _ in range(3):
            y = (self.a(y) + self.b(x)).tanh()
            x = x * y.sigmoid()
        return y, self.b.weight


class Itself(Towers):
    """A call that reads a parameter and what is made of it."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return x + torch.addcmul(y, self.a.bias, self.a.bias.exp()), F.layer_norm(
            x, (WIDTH,), self.b.bias, self.b.bias.tanh()
        )


class Statistics(Towers):
    """Batch statistics, dropout, a call in place, and an output that is a view."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        h = self.norm(F.dropout(self.a(x), 0.5))
        z = self.norm(self.b(y)).mul_(2.0)
        return h + z, z.view(-1)[2:]


class Both(torch.autograd.Function):
    """(x, w) -> (x w, x + w): a call of two outputs that reads a parameter."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, w)
        return x * w, x + w

    @staticmethod
    def backward(ctx: Any, one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        x, w = ctx.saved_tensors
        return one * w + other, (one * x + other).sum(0)


class TwoOutputs(Towers):
    """A call of two outputs on the way of each input, of which the second one's first output is not read."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        product, total = Both.apply(x, self.a.bias)
        return (product + total.sin()).tanh(), Both.apply(y, self.b.bias)[1].tanh()


KINDS = (Towers, Skip, Between, Recurrent, Itself, Statistics, TwoOutputs)


@pytest.mark.parametrize("differentiated", ["dd", "d-", "-d", "--"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_parameter_gets_what_comes_by_every_output(kind: type[nn.Module], differentiated: str) -> None:
    module = kind().double()
    at = given(module, differentiated, outputs=2)
    assert differing(separate(module, at, outputs=2), together(module, at)) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("losses", ["0", "1"])
def test_losses_begin_where_no_gradient_comes(kind: type[nn.Module], losses: str) -> None:
    module = kind().double()
    at = given(module, "d-", outputs=2, losses=losses, without="01")
    assert differing(separate(module, at, outputs=2), together(module, at)) == []


@pytest.mark.parametrize("kind", [Towers, Skip, Recurrent])
def test_a_recomputing_segment_has_the_same_gradients(kind: type[nn.Module]) -> None:
    module = kind().double()
    at = given(module, "d-", outputs=2)
    assert differing(separate(module, at, outputs=2, recompute=True), together(module, at)) == []


def random_segment(seed: int) -> tuple[Segment, str, str, str]:
    """(the segment, which inputs are differentiated, which outputs are losses, which get no gradient)."""
    choose = random.Random(seed)
    module = Segment(seed).double()
    marks = "".join(choose.choice("dd-") for _ in range(module.inputs))
    losses, without = ("".join(str(k) for k in range(module.outputs) if choose.random() < 0.2) for _ in range(2))
    return module, marks, losses, without


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_random_segments_have_the_same_gradients(first: int) -> None:
    for seed in range(first, first + 50):
        module, marks, losses, without = random_segment(seed)
        at = given(module, marks, module.outputs, losses, without)
        wrong = differing(separate(module, at, module.outputs), together(module, at))
        assert wrong == [], f"seed {seed}: {module.steps}, {module.results}, {marks}"


def test_random_segments_are_of_the_kinds_that_matter() -> None:
    """Enough of them have an output that no differentiated input reaches beside one that is reached; a parameter that
    gets nothing; an input that gets nothing."""
    beside = idle = cut_off = 0
    for seed in range(SEEDS):
        module, marks = random_segment(seed)[:2]
        values = drawn(module.inputs, (BATCH, WIDTH))
        inputs = [value.requires_grad_(mark == "d") for value, mark in zip(values, marks, strict=True)]
        made = [value for value in module(*inputs) if value.requires_grad]
        wanted = [value for value in inputs if value.requires_grad]
        alone = [not wanted or not reaches(value, wanted) for value in made]
        beside += any(alone) and not all(alone)
        idle += any(not any(reaches(value, [p]) for value in made) for p in module.weights)
        cut_off += any(not any(reaches(value, [one]) for value in made) for one in wanted)
    assert min(beside, idle, cut_off) > SEEDS // 10


def reaches(value: Tensor, leaves: Sequence[Tensor]) -> bool:
    gradients = torch.autograd.grad(value.sum(), leaves, retain_graph=True, allow_unused=True)
    return any(gradient is not None for gradient in gradients)


@pytest.mark.parametrize("kind", KINDS)
def test_a_hook_of_a_parameter_sees_its_whole_gradient_once_a_micro_batch(kind: type[nn.Module]) -> None:
    module = kind().double()
    at = given(module, "d-", outputs=2)
    true = together(module, at).parameters
    seen = dict.fromkeys(true, 0)
    for name, p in module.named_parameters():
        p.register_hook(lambda _, name=name: seen.update({name: seen[name] + 1}))  # type: ignore[no-untyped-call]
    gradients = separate(module, at, outputs=2).parameters
    assert seen == {name: MICRO_BATCHES * (value is not None) for name, value in gradients.items()}


def test_a_hook_of_a_tensor_changes_what_goes_to_parameters_once() -> None:
    class Hooked(Towers):
        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
            h = self.a(x)
            z = self.b(h)
            for value in (h, z):
                if value.requires_grad:
                    value.register_hook(lambda gradient: gradient * 3)
            return z.tanh(), y

    module = Hooked().double()
    at = given(module, "d-", outputs=2)
    assert differing(separate(module, at, outputs=2), together(module, at)) == []


def test_parameters_that_one_call_reads_cost_no_second_walk() -> None:
    """What lies between the layers of a chain runs with the inputs' gradients only."""
    walked = []

    class Chain(Towers):
        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
            h = self.a(x).tanh()
            if h.requires_grad:
                h.register_hook(lambda _: walked.append("between"))
            return self.b(h), y

    module = Chain().double()
    at = given(module, "d-", outputs=2)
    separate(module, at, outputs=2)
    assert walked == ["between"] * MICRO_BATCHES


def test_between_its_parts_a_backward_holds_what_was_saved_and_gradients_of_outputs() -> None:
    """By the example in docs/memory.md, in numbers a sample: 6 and 6 saved behind what was received, the gradients of
    both products' outputs, 6 and 8; what the loss saved, 8, is gone."""
    up, down = nn.Linear(4, 6, bias=False), nn.Linear(6, 8, bias=False)
    received = torch.randn(100, 4, requires_grad=True)
    with CountedStorage([], before=[received, up.weight, down.weight]) as counted:
        end = down(F.gelu(up(received))).exp().sum()
        gradients, parts = backward_inputs((get_gradient_edge(end),), (torch.tensor(1.0),), (received,))
        del end, gradients
        gc.collect()
        held = counted.now_bytes
        backward_parameters(parts)
    assert round(held / 400) == 6 + 6 + 6 + 8
    assert up.weight.grad is not None
