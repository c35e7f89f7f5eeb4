"""What a training is refused for before its first step, beside what a run is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from explorer.runner.model.optimizers import ALIKE
from explorer.runner.model.program import Program
from explorer.runner.scripts.checks import Level, check
from explorer.runner.scripts.executable import processes, shares_states
from explorer.runner.scripts.script import Script
from solvers.errors import RunError
from solvers.formats.plan_json import PlanFile, write_plan
from solvers.problem.problem import Optimizer
from solvers.problem.training import STATES

Factory = Callable[[Sequence[nn.Parameter]], torch.optim.Optimizer]
"""Parameters -> their optimizer."""
Loss = Callable[..., Tensor]
"""(the model's output, targets) of the same samples -> their mean loss."""
PROBE = 64
"""Rows and columns of the parameters that an optimizer is tried on."""


def check_plan(file: PlanFile, ranks: int) -> None:
    """Raises RunError if a plan is not of training, or cannot be run on so many processes."""
    used = processes(file.problem, file.plan)
    if ranks != used:
        raise RunError(
            f"the plan uses {used} device{'s' * (used > 1)}, found {ranks} process{'es' * (ranks > 1)}; start it with"
            f" torchrun --nproc-per-node {used}, or plan for {ranks}"
        )
    if not file.problem.graph.trains:
        raise RunError("the plan is of inference; plan for training")
    for finding in check(file.problem, file.plan):
        if finding.level is Level.ERROR:
            raise RunError(f"the plan cannot be run: {finding.message}")


def identity(file: PlanFile) -> str:
    """Equal for equal plans."""
    return hashlib.sha256(write_plan(file.problem, file.plan).encode()).hexdigest()


def check_autocast() -> None:
    """Raises RunError where dtypes would change around the model: the plan knows nothing of that."""
    if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
        raise RunError(
            "autocast around the training would give tensors other dtypes than the plan's; put torch.autocast into the"
            " model's forward and plan it again"
        )


def check_optimizer(factory: Factory, file: PlanFile, device: torch.device) -> None:
    """Tries the optimizer on two small parameters. Raises RunError if it keeps other states than the plan counts, or is
    not known to update every entry by itself where replicas shard its states."""
    problem = file.problem
    sizes = [(PROBE, PROBE), (PROBE,)]
    parameters = [nn.Parameter(torch.ones(size, device=device)) for size in sizes]
    optimizer = factory(parameters)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise RunError(f"optimizer: expected what makes a torch.optim.Optimizer, found {type(optimizer).__name__}")
    if shares_states(problem, file.plan) and type(optimizer) not in ALIKE:
        raise RunError(
            f"optimizer: ZeRO-{problem.zero} has replicas update a part of the entries each, which is known to be right"
            f" of {', '.join(kind.__name__ for kind in ALIKE)}, found {type(optimizer).__name__}; plan with --zero 0"
        )
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    states = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]
    elements = sum(parameter.numel() for parameter in parameters)
    per_parameter = round(sum(value.numel() for value in states) / elements, 1)
    if per_parameter != STATES[problem.optimizer]:
        odd = (Optimizer.NONE, Optimizer.ADAFACTOR)
        known = [each.value for each in STATES if STATES[each] == per_parameter and each not in odd]
        advice = f"plan with --optimizer {' or '.join(known)}" if known else "give another one"
        raise RunError(
            f"optimizer: {type(optimizer).__name__} keeps {per_parameter:g} states as large as the parameters, the plan"
            f" counts {STATES[problem.optimizer]:g} ({problem.optimizer.value}); {advice}"
        )


def loss_position(program: Program, loss: Loss | None, name: str) -> int:
    """Which of the model's outputs is trained on. Raises RunError if that is not clear."""
    captured = program.captured
    floats = [k for k, value in enumerate(captured.outputs) if captured.values[value].is_float]
    if loss is not None:
        if len(floats) != 1:
            raise RunError(f"loss=: the model {name} must have one floating output, found {len(floats)}")
        if program.sample_dim(captured.outputs[floats[0]]) != 0:
            raise RunError(f"loss=: the first dimension of the output of {name} must be the batch")
        return floats[0]
    scalars = [k for k in floats if captured.values[captured.outputs[k]].shape == ()]
    if len(scalars) != 1:
        shapes = ", ".join(str(list(captured.values[captured.outputs[k]].shape)) for k in floats) or "none"
        raise RunError(
            f"the model {name} must return one scalar, its loss; found outputs {shapes}; give loss=, a function of"
            " (output, targets)"
        )
    return scalars[0]


def samples_of(targets: object, first: int, count: int) -> object:
    """The targets of some samples of a mini-batch."""
    return pytree.tree_map_only(Tensor, lambda whole: whole.narrow(0, first, count), targets)


def check_loss(
    program: Program, script: Script, position: int, loss: Loss, targets: object, device: torch.device
) -> None:
    """Tries the loss on zeros of every size that it will be given. Raises RunError if it makes no loss of them."""
    for share in sorted({segment.share for segment in script.segments}):
        captured, _ = program.sized[share]
        value = captured.values[captured.outputs[position]]
        zeros = torch.zeros(value.shape, dtype=getattr(torch, value.dtype), device=device, requires_grad=True)
        made = loss(zeros, samples_of(targets, 0, share))
        if not isinstance(made, Tensor) or made.dim() != 0 or not made.is_floating_point() or not made.requires_grad:
            returned = f"a tensor {list(made.shape)}" if isinstance(made, Tensor) else type(made).__name__
            raise RunError(f"loss=: expected one number that depends on the output, found {returned}")
