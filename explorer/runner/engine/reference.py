"""The run against the whole model in one process: losses, gradients, and parameters after some steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from explorer.runner.bundles.outcome import Agreement
from explorer.runner.bundles.progress import tell
from explorer.runner.bundles.request import RunRequest
from explorer.runner.engine.machine import Machine
from explorer.runner.engine.measure import total_loss
from explorer.runner.model.optimizers import OPTIMIZERS, is_adam, step
from explorer.runner.model.program import SegmentProgram
from explorer.runner.model.segment_module import Kind
from explorer.runner.model.weights import hold
from explorer.runner.scripts.executable import optimizer_of
from solvers.errors import RunError
from solvers.problem.problem import Problem

NOTHING = 1e-3
"""Of the largest entry of all gradients: a tensor with smaller ones is measured against this. The gradient of
the bias of attention's keys, say, is zero but for rounding, and no two roundings agree."""
STEPS = 3
"""Updates after which parameters are compared."""
FLAT = 1e-2
"""Of the largest entry of a tensor's gradient: where Adam's gradient is smaller, its whole step may be rounding."""
APART = 0.05
"""A parameter whose change is this far from the true one was updated otherwise, which may be little beside its
entries. Less may be rounding, too: Adam takes whole steps by gradients that are nearly zero."""


def verify(machine: Machine, reference: str, problem: Problem, request: RunRequest) -> Agreement:
    """Runs some iterations, and the whole model on rank 0 on the same shares of the same micro-batches in
    order. Every rank calls it and gets the same answer; the machine's parameters have then been updated.

    Of a model with batch statistics the shares matter: it is compared where all segments have the same.
    """
    gradients: dict[str, Tensor] = {}
    names = {id(parameter): name for name, parameter in machine.held.parameters.items()}

    def keep(segment: int) -> None:
        for parameter in machine.owned[segment]:
            if parameter.grad is not None:
                gradients.setdefault(names[id(parameter)], dense(parameter.grad))

    machine.before_update = keep
    starts = {name: parameter.detach().clone() for name, parameter in machine.held.parameters.items()}
    losses = []
    steps = STEPS if machine.script.training else 1
    for count in range(steps):
        tell("checking", count, 2 * steps)
        machine.iterate()
        losses.append(total_loss(machine))
    machine.before_update = None
    whole = _Whole(machine, reference, problem, request) if machine.rank == 0 else None
    expected: list[Any] = [None]
    if whole is not None:
        expected = [whole.run(steps)]
    told = expected
    dist.broadcast_object_list(told)
    shapes: Mapping[str, tuple[int, ...]] = told[0]["shapes"]
    mine = {names[id(p)]: p.detach() for owned in machine.owned.values() for p in owned}
    worst: dict[str, float] = {"gradient": 0.0, "parameter": 0.0}
    culprit = ""
    adam = any(is_adam(optimizer) for optimizer in machine.optimizers.values())
    for name, shape in shapes.items():
        slope, flat_below, flat = torch.zeros(()), 0.0, True  # of the gradient, which comes first
        for what, known in (("gradient", gradients), ("parameter", mine)):
            true = torch.zeros(shape, dtype=told[0]["dtype"], device=machine.device)
            if whole is not None:
                true.copy_(whole.gradients.get(name, true) if what == "gradient" else whole.parameters[name])
            dist.broadcast(true, 0)
            if name not in mine:
                continue
            floor = NOTHING * told[0][f"largest_{what}"]
            given = known.get(name, torch.zeros_like(true))
            if what == "parameter" and adam:
                given = without_flat(given, true, slope, flat_below)
            error = distance(given, true, floor)
            if what == "gradient":
                slope, flat_below = true, floor
                flat = not float(true.abs().sum()) > floor  # zero but for rounding, and so is its direction
                if error > worst["gradient"]:
                    culprit = name
            elif not flat and (moved := apart(mine[name], true, starts[name])) > APART:
                error = max(error, moved)
            worst[what] = max(worst[what], error)
    found: list[Any] = [None] * machine.ranks
    dist.all_gather_object(found, (worst, culprit, sorted(mine)))
    forgotten = set(shapes).difference(*(each[2] for each in found))
    if forgotten:
        raise RunError(f"no rank updates the parameter {min(forgotten)}: plan anew")
    at = max(found, key=lambda each: each[0]["gradient"])
    return Agreement(
        furthest(losses, told[0]["losses"]), at[0]["gradient"], max(each[0]["parameter"] for each in found), at[1],
        str(told[0]["dtype"]).removeprefix("torch."), sum(len(each[2]) for each in found),
    )  # fmt: skip


def dense(gradient: Tensor) -> Tensor:
    """A copy; of a sparse gradient a dense one."""
    return gradient.to_dense() if gradient.is_sparse else gradient.clone()


def distance(found: Tensor, true: Tensor, floor: float) -> float:
    """max|difference| / max|true|, or over ``floor`` if that is more; inf if it is not a number."""
    if true.numel() == 0:
        return 0.0
    scale = max(floor, true.abs().max().item())
    error = (found - true).abs().max().item() / (scale if scale != 0 else 1.0)
    return error if math.isfinite(error) else math.inf


def without_flat(found: Tensor, true: Tensor, gradient: Tensor, floor: float) -> Tensor:
    """``found``, but ``true`` where the gradient is zero but for rounding: below `FLAT`, or in all below ``floor``."""
    size = gradient.abs()
    least = max(FLAT * float(size.max()), floor) if size.numel() else 0.0
    return torch.where((size < least) & found.isfinite(), true, found)


def apart(found: Tensor, true: Tensor, start: Tensor) -> float:
    """How far a parameter has come from where it should have: |difference| / |change| beyond what rounding of its
    entries makes, by Euclidean norms; inf if it is not a number."""
    rounding = STEPS * torch.finfo(true.dtype).eps * float(true.norm())
    error = float((found - true).norm()) - rounding
    change = max(float((true - start).norm()), rounding)
    if error <= 0:
        return 0.0
    return error / change if math.isfinite(error / change) else math.inf


def furthest(found: Sequence[float], true: Sequence[float]) -> float:
    """The largest relative difference of a loss; inf if one is not a number."""
    errors = [abs(a - b) / max(abs(b), 1e-300) for a, b in zip(found, true, strict=True)]
    return max(errors, default=0.0) if all(map(math.isfinite, errors)) else math.inf


def _largest(tensors: Mapping[str, Tensor]) -> float:
    return max((value.abs().max().item() for value in tensors.values() if value.numel()), default=0.0)


class _Whole:
    """The model in one piece, with all parameters."""

    def __init__(self, machine: Machine, reference: str, problem: Problem, request: RunRequest) -> None:
        self.machine = machine
        program = machine.program
        self.share = min(segment.share for segment in machine.script.segments)
        everything = [o for members in [range(len(program.folded.groups))] for o in members]
        self.held = hold(
            reference, program.parameters_of(everything), seed=request.seed, dtype=program.dtype,
            device=machine.device, allow_model=request.allow_model,
        )  # fmt: skip
        self.segment: SegmentProgram = program.segment(everything, self.share, self.held)
        trained = [p for p in self.held.parameters.values() if p.requires_grad]
        kind = OPTIMIZERS[optimizer_of(problem, request.optimizer)]
        self.optimizer = kind(trained, lr=request.learning_rate) if trained else None
        self.gradients: dict[str, Tensor] = {}

    @property
    def parameters(self) -> dict[str, Tensor]:
        return {name: p.detach() for name, p in self.held.parameters.items() if p.requires_grad}

    def run(self, steps: int) -> dict[str, Any]:
        """Losses of each step; keeps the gradients of the first. In inference there are only losses."""
        training = self.machine.script.training
        mini_batch = self.machine.script.mini_batch
        losses = []
        for count in range(steps):
            tell("checking", steps + count, 2 * steps)
            for parameter in self.held.parameters.values():
                parameter.grad = None
            losses.append(sum(self._share(first) for first in range(0, mini_batch, self.share)))
            if count == 0:
                self.gradients = {name: dense(p.grad) for name, p in self.held.parameters.items() if p.grad is not None}
            if training and self.optimizer is not None:
                step(self.optimizer)
        trained = self.parameters if training else {}
        dtypes = {value.dtype for value in trained.values()} or {torch.float32}
        if len(dtypes) > 1:
            raise RunError(f"a model with parameters of several dtypes cannot be compared: {sorted(map(str, dtypes))}")
        return {
            "losses": losses,
            "shapes": {name: tuple(value.shape) for name, value in trained.items()},
            "dtype": dtypes.pop(),
            "largest_gradient": _largest(self.gradients),
            "largest_parameter": _largest(trained),
        }

    def _share(self, first: int) -> float:
        machine, program = self.machine, self.machine.program
        inputs = []
        for given in self.segment.inputs:
            whole = machine.samples[given.position]
            dim = program.sample_dim(program.captured.inputs[given.position])
            inputs.append(whole if dim is None else whole.narrow(dim, first, self.share))
        weight = self.share / machine.script.mini_batch
        with torch.set_grad_enabled(machine.script.training):
            results = self.segment.module(*inputs)
        loss = 0.0
        ends = []
        for output, value in zip(self.segment.outputs, results, strict=True):
            if output.kind is Kind.MODEL and value.is_floating_point():
                loss += float(value.detach().mean()) * weight
                if value.requires_grad:
                    ends.append(value.mean() * weight)
        if ends:
            torch.autograd.backward(ends)
        return loss
