"""What a stack launches: the rules hold against kernels that PyTorch and inductor really run on small modules, and what
was computed until there was a choice is still computed without one."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import explorer
from demo_models.gpt import GPT, GPTSize
from explorer.costs import DEVICES, estimate, label
from explorer.costs.roofline import runs_named
from explorer.costs.shapes import shapes
from explorer.costs.stack import EAGER_STEP, Kernels, Stack, kernels_of
from solvers.errors import InvalidProblem
from solvers.problem.graph import OpGraph, Phase
from solvers.problem.training import Optimizer, Precision
from tests.explorer.tracing.models import shipped

ROWS, WIDTH = 64, 128
VIEWS = frozenset({"view", "t", "transpose", "permute", "expand", "select", "slice", "detach", "_unsafe_view", "alias",
                   "unsqueeze", "squeeze", "unbind", "zeros", "ones_like", "empty_like"})  # fmt: skip


class Launches(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts what is dispatched below autograd: (name, bytes read and written)."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[tuple[str, float]] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        made = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        if name not in VIEWS:
            read, written = nbytes(args), nbytes(made) or (nbytes(args[:1]) if name.endswith("_") else 0.0)
            self.seen.append((name, read + written))
        return made


def nbytes(value: object) -> float:
    if isinstance(value, Tensor):
        return float(value.numel() * value.element_size())
    return sum(map(nbytes, value)) if isinstance(value, list | tuple) else 0.0


class Between(nn.Module):
    """One operator between two products, so that gradients go through it."""

    def __init__(self, operator: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.last, self.operator = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), operator

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.last(self.operator(self.first(x)))
        return made


def of(graph: OpGraph, op_type: str, phase: Phase) -> int:
    return next(i for i, o in enumerate(graph.operators) if o.op_type == op_type and o.phase is phase)


def kernels(graph: OpGraph, stack: Stack, precision: Precision = Precision.PURE, accumulates: bool = True) -> Kernels:
    return kernels_of(graph, shapes(graph), stack, precision, Optimizer.ADAM, accumulates=accumulates)


def at(amounts: np.ndarray, samples: int) -> np.ndarray:
    return np.asarray(amounts[:, 0] + amounts[:, 1] * samples)


OPERATORS: dict[str, Callable[[Tensor], Tensor]] = {
    "aten.gelu": F.gelu,
    "aten.relu": F.relu,
    "aten.silu": F.silu,
    "aten.tanh": torch.tanh,
    "aten.softmax": lambda x: x.softmax(-1),
    "aten.layer_norm": lambda x: F.layer_norm(x, (WIDTH,)),
    "aten.pow": lambda x: x.pow(2),
    "aten.clone": torch.clone,
}


@pytest.mark.parametrize("op_type", OPERATORS)
def test_kernels_and_bytes_of_an_operator_are_those_that_pytorch_launches(op_type: str) -> None:
    operator = OPERATORS[op_type]
    graph = explorer.trace(Between(operator), (torch.randn(ROWS, WIDTH),), name="between").graph
    counted = kernels(graph, Stack.EAGER)
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    with Launches() as forward:
        y = operator(x)
    with Launches() as backward:
        torch.autograd.grad(y, x, torch.randn_like(y))
    for phase, launches in ((Phase.FORWARD, forward), (Phase.BACKWARD_INPUT, backward)):
        position = of(graph, op_type, phase)
        seen = [entry for entry in launches.seen if entry[0] != "randn_like"]
        if not seen or op_type == "aten.clone":  # a gradient goes through a copy as it is
            continue
        assert counted.own_launches[position] == len(seen), (phase, seen)
        assert at(counted.own, ROWS)[position] == pytest.approx(sum(b for _, b in seen), rel=0.1), (phase, seen)


def test_a_loss_launches_two_kernels_each_way() -> None:
    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(WIDTH, 1000)

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return F.cross_entropy(self.head(x), y)

    target = torch.zeros(ROWS, dtype=torch.long)
    graph = explorer.trace(Classifier(), (torch.randn(ROWS, WIDTH), target), name="loss").graph
    counted = kernels(graph, Stack.EAGER)
    logits = torch.randn(ROWS, 1000, requires_grad=True)
    with Launches() as forward:
        loss = F.cross_entropy(logits, target)
    with Launches() as backward:
        torch.autograd.grad(loss, logits)
    for phase, launches in ((Phase.FORWARD, forward), (Phase.BACKWARD_INPUT, backward)):
        position = of(graph, "aten.cross_entropy_loss", phase)
        seen = [(name, size) for name, size in launches.seen if "softmax" in name or "nll" in name]
        assert counted.own_launches[position] == len(seen) == 2
        # The filled loss gradient is written again: nll_loss_backward zeroes before it scatters.
        assert at(counted.own, ROWS)[position] == pytest.approx(sum(size for _, size in seen), rel=0.55)


@pytest.mark.parametrize(
    ("optimizer", "make"),
    [
        (Optimizer.ADAM, lambda p: torch.optim.Adam(p, foreach=False)),
        (Optimizer.ADAMW, lambda p: torch.optim.AdamW(p, foreach=False)),
        (Optimizer.MOMENTUM, lambda p: torch.optim.SGD(p, momentum=0.9, foreach=False)),
        (Optimizer.SGD, lambda p: torch.optim.SGD(p, foreach=False)),
    ],
)
def test_passes_of_an_eager_step_are_those_that_torch_optim_makes(
    optimizer: Optimizer, make: Callable[[list[nn.Parameter]], torch.optim.Optimizer]
) -> None:
    parameter = nn.Parameter(torch.randn(ROWS, WIDTH))
    step = make([parameter])
    for _ in range(2):  # the first makes the states
        parameter.grad = torch.randn(ROWS, WIDTH)
        with Launches() as launches:
            step.step()
    passes = sum(size for _, size in launches.seen) / nbytes(parameter)
    # addcmul_ is handed the same gradient twice.
    assert passes - (1 if optimizer in (Optimizer.ADAM, Optimizer.ADAMW) else 0) == pytest.approx(
        EAGER_STEP[optimizer], abs=0.1
    )


def test_autocast_casts_where_pytorch_does() -> None:
    """A norm between two products: under autocast it is fp32, with a cast on either side, and weights are cast."""
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH))
    half = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)).to(torch.bfloat16)
    graph = explorer.trace(half, (torch.randn(ROWS, WIDTH, dtype=torch.bfloat16),), name="cast").graph
    plain, cast = (kernels(graph, Stack.EAGER, precision) for precision in (Precision.PURE, Precision.MIXED))
    forward = [i for i, o in enumerate(graph.operators) if o.phase is Phase.FORWARD]
    more = (cast.beside_launches - plain.beside_launches)[forward].sum()
    with Launches() as launches, torch.autocast("cpu", torch.bfloat16):
        model(torch.randn(ROWS, WIDTH, dtype=torch.bfloat16))
    weights = sum(name == "_to_copy" for name, _ in launches.seen)
    # The CPU's autocast casts biases by themselves and leaves norms in 16 bits: two casts fewer on either side.
    assert (weights, more) == (4, 4)
    norm = of(graph, "aten.layer_norm", Phase.FORWARD)
    assert at(cast.own, ROWS)[norm] == pytest.approx(2 * at(plain.own, ROWS)[norm], rel=0.05)


def test_gradients_are_added_up_but_for_a_single_micro_batch() -> None:
    graph = explorer.trace(Between(F.gelu), (torch.randn(ROWS, WIDTH),), name="between").graph
    weight = of(graph, "aten.linear", Phase.BACKWARD_WEIGHT)
    once, often = (kernels(graph, Stack.EAGER, accumulates=value) for value in (False, True))
    bytes_of = 4.0 * (WIDTH * WIDTH + WIDTH)
    assert at(often.beside - once.beside, ROWS)[weight] == pytest.approx(3 * bytes_of)
    model, x = Between(F.gelu), torch.randn(ROWS, WIDTH)
    model(x).sum().backward()
    loss = model(x).sum()
    with Launches() as launches:
        loss.backward()
    added = sum(size for name, size in launches.seen if name == "add_")
    assert added == pytest.approx(2 * 3 * bytes_of)  # of both products


class Chain(nn.Module):
    """Products with a chain of pointwise operators between them, and a branch around the second."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.a(x))
        y = self.b(self.norm(x * 2.0))
        made: Tensor = self.c(torch.tanh(x + y))
        return made


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor writes C++ for a CPU; there is no g++ here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_inductor_launches_as_many_kernels_for_what_is_fused() -> None:
    from torch._inductor.utils import run_and_get_code

    graph = explorer.trace(Chain(), (torch.randn(ROWS, WIDTH),), name="chain", training=False).graph
    counted = kernels(graph, Stack.COMPILED)
    products = shapes(graph).work == "products"
    torch._dynamo.reset()
    with torch.no_grad():
        _, (code, *_) = run_and_get_code(torch.compile(Chain()), torch.randn(ROWS, WIDTH))
    made = re.findall(r"^(cpp_fused_\w+) = async_compile", code, re.MULTILINE)
    assert counted.own_launches[~products].sum() == len(made) == 2, made
    assert at(counted.own, ROWS).sum() < at(kernels(graph, Stack.EAGER).own, ROWS).sum()


MODELS = ("gpt", "resnet50", "gnmt", "transformer", "moe", "llama")


@pytest.mark.parametrize("name", MODELS)
def test_as_traced_is_what_was_computed_before_there_was_a_choice(name: str) -> None:
    graph = shipped(name).graph
    counted = kernels(graph, Stack.TRACED)
    assert (counted.own == [(o.moved_bytes.fixed, o.moved_bytes.per_sample) for o in graph.operators]).all()
    assert (counted.own_launches == 1).all()
    assert not counted.beside.any()
    table = estimate(graph, ["A100-80GB"])
    assert (table.seconds["A100-80GB"] == estimate(graph, ["A100-80GB"], stack=Stack.TRACED).seconds["A100-80GB"]).all()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("stack", [Stack.EAGER, Stack.COMPILED, Stack.FUSED])
def test_seconds_grow_with_samples_and_stay_above_the_data_sheet(name: str, stack: Stack) -> None:
    graph = shipped(name).graph
    kinds = ["A100-80GB", "MI300X-192GB", "cpu-core"]
    table = estimate(graph, kinds, "bf16", stack=stack)
    products = np.isin(shapes(graph).work, ("products", "convolutions", "attention"))
    flops = np.array([o.flops.at(64) * (0.5 if o.causal else 1.0) for o in graph.operators]) * products
    for kind in kinds:
        seconds = table.seconds[kind]
        assert (np.diff(seconds, axis=1) >= -1e-12 * seconds[:, 1:]).all()
        assert (seconds[:, 6] >= 0.999 * flops / max(DEVICES[kind].peak_flops_per_s.values())).all()
        assert np.isfinite(seconds).all()


def test_what_a_compiler_joins_takes_less_than_eager_mode() -> None:
    graph = shipped("gpt").graph
    totals = {
        stack: estimate(graph, ["A100-80GB"], "bf16", stack=stack).seconds["A100-80GB"][:, 3].sum() for stack in Stack
    }
    assert totals[Stack.COMPILED] < totals[Stack.EAGER]
    assert totals[Stack.TRACED] < totals[Stack.EAGER]


def test_a_stack_is_refused_where_nothing_is_estimated() -> None:
    graph = shipped("gpt")
    planned = explorer.plan(graph, devices=2, planner="single", memory="1TiB", stack="eager")
    assert planned.problem.costs_from == "roofline estimate, H100-80GB, fp32, eager"
    assert runs_named(planned.problem.costs_from)
    assert not runs_named(label(["H100-80GB"], "fp32"))
    from tests.solvers.msr_instances import SHARED

    path = SHARED / "msr2020"
    files = sorted(path.rglob("*.json"))[:1] if path.is_dir() else []
    for file in files:
        with pytest.raises(InvalidProblem, match="leave out --stack"):
            explorer.plan(str(file), stack="eager", planner="single")


class TakenApart(nn.Module):
    """One product whose columns are taken apart, as queries, keys and values are."""

    def __init__(self, parts: int, unbinds: bool) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, parts * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.parts, self.unbinds = parts, unbinds

    def forward(self, x: Tensor) -> Tensor:
        made = self.first(x)
        taken = made.view(-1, self.parts, WIDTH).unbind(1) if self.unbinds else made.split(WIDTH, dim=-1)
        total: Tensor = self.last(taken[0])
        for one in taken[1:]:
            total = total * one
        return total.sum()


@pytest.mark.parametrize(("parts", "unbinds"), [(3, True), (3, False), (2, True)])
def test_gradients_of_what_is_taken_apart_are_put_together_once(parts: int, unbinds: bool) -> None:
    module, x = TakenApart(parts, unbinds), torch.randn(ROWS, WIDTH)
    made = module(x)
    with Launches() as launches:
        made.backward()
    (really,) = [nbytes for name, nbytes in launches.seen if name in ("stack", "cat")]
    graph = explorer.trace(module, (x,)).graph
    first = [o.module_path == "first" for o in graph.operators]
    for stack in (Stack.EAGER, Stack.COMPILED, Stack.FUSED):
        counted = kernels(graph, stack, accumulates=False)
        assert at(counted.beside, ROWS)[first].sum() == pytest.approx(really)
        assert counted.beside_launches[first].sum() == 1
    assert not kernels(graph, Stack.TRACED).beside.any()


def test_what_is_read_whole_is_not_put_together() -> None:
    graph = explorer.trace(TakenApart(1, True), (torch.randn(ROWS, WIDTH),)).graph
    assert not kernels(graph, Stack.FUSED, accumulates=False).beside.any()


def test_all_kernels_of_a_block_are_reported_but_for_a_few_copies() -> None:
    """Embedding, a block of a GPT, head and loss: as many bytes as are counted below autograd, within 5 %. What is
    left are copies into the order of a view."""
    module, tokens = GPT(GPTSize(1, 256, 4, 512, 128, 2)), torch.zeros(2, 128, dtype=torch.long)
    module(tokens, tokens).backward()  # gradients are there to be added to
    with Launches() as forward:
        loss = module(tokens, tokens)
    with Launches() as backward:
        loss.backward()
    graph = explorer.trace(module, (tokens, tokens)).graph
    counted = kernels(graph, Stack.EAGER)
    both = at(counted.own, 2) + at(counted.beside, 2)
    for launches, phases in (
        (forward, {Phase.FORWARD}),
        (backward, {Phase.BACKWARD_INPUT, Phase.BACKWARD_WEIGHT}),
    ):
        shown = both[[operator.phase in phases for operator in graph.operators]].sum()
        really = sum(nbytes for _, nbytes in launches.seen)
        assert 0.95 * really < shown < really
