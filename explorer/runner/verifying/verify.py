"""The run against the model computed in turn: losses, gradients, and parameters after some steps.

The model is computed in one piece, or in the plan's segments where there is no room for that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from explorer.runner.bundles.outcome import Agreement, Way
from explorer.runner.bundles.progress import report
from explorer.runner.bundles.request import RunRequest
from explorer.runner.engine.machine import Machine
from explorer.runner.measuring.place import free_bytes, reduced
from explorer.runner.model.optimizers import OPTIMIZERS, is_adam
from explorer.runner.model.program import Program
from explorer.runner.model.weights import hold
from explorer.runner.scripts.executable import optimizer_of
from explorer.runner.scripts.script import Script
from explorer.runner.verifying.in_turn import Given, InTurn, Part, in_order, names_of
from solvers.errors import RunError
from solvers.problem.problem import Optimizer, Problem
from solvers.problem.training import STATES

NOTHING = 1e-3
"""Of the largest entry of all gradients: a tensor with smaller ones is measured against this. The gradient of
the bias of attention's keys, say, is zero but for rounding, and no two roundings agree."""
STEPS = 3
"""Updates after which parameters are compared."""
FLAT = 1e-2
"""Of the largest entry of a tensor's gradient: where Adam's gradient is smaller, its whole step may be rounding."""
NOTABLE = 0.05
"""A parameter whose change is this far from the true one was updated otherwise, which may be little beside its
entries. Less may be rounding, too: Adam takes whole steps by gradients that are nearly zero."""


def verify(machine: Machine, reference: str, problem: Problem, request: RunRequest) -> Agreement:
    """Runs some iterations, and the model in turn, in one piece or by segments, on the same shares of the same
    micro-batches in order. Every rank calls it and gets the same answer; the machine's parameters have then been
    updated, and its optimizers and gradients are gone. Where tensors are divided, those that have one place in their
    groups compute the whole model among themselves, and compare their shares.

    Of a model with batch statistics the shares matter: it is compared where all segments have the same.
    """
    steps = STEPS if machine.script.training else 1
    ran = _run(machine, steps)
    way = way_of(request.verify_by, machine, problem, request.optimizer)
    true = _in_turn(machine, reference, problem, request, parts_of(way, machine.script, machine.program))
    losses = []
    for count in range(steps):
        report("checking", steps + count, 2 * steps)
        losses.append(reduced([true.iterate()], machine.device, group=machine.column)[0])
    worst, culprit, dtype = _compared(machine, ran, true)
    reports: list[Any] = [None] * machine.processes
    dist.all_gather_object(reports, (worst, culprit, len(ran.parameters)))
    at = max(reports, key=lambda each: each[0]["gradient"])
    some, true_ones = without_twin_losses(ran.losses, losses)
    return Agreement(
        furthest(some, true_ones), at[0]["gradient"], max(each[0]["parameter"] for each in reports), at[1],
        str(dtype).removeprefix("torch."), sum(each[2] for each in reports), way,
        len(losses) - len(some) + int(sum(each[0]["undefined"] for each in reports)),
    )  # fmt: skip


@dataclass(frozen=True)
class _Ran:
    """What the engine made of the parameters that this rank updates, by name. starts and gradients are on the CPU."""

    losses: list[float]
    starts: dict[str, Tensor]
    gradients: dict[str, Tensor]
    parameters: dict[str, Tensor]
    adam: bool


def _run(machine: Machine, steps: int) -> _Ran:
    names = {id(parameter): name for name, parameter in machine.held.parameters.items()}
    owned = {names[id(p)]: p.detach() for owned in machine.owned.values() for p in owned}
    gradients: dict[str, Tensor] = {}
    starts = {name: parameter.clone().cpu() for name, parameter in owned.items()}
    losses = []
    for count in range(steps):
        report("checking", count, 2 * steps)
        machine.iterate()
        if count == 0:
            gradients = {name: gradient.cpu() for name, gradient in machine.gradients()}
        losses.append(reduced([machine.loss()], machine.device, group=machine.column)[0])
    adam = any(is_adam(optimizer) for optimizer in machine.optimizers.values())
    machine.optimizers.clear()  # their states, and the gradients: room for the others
    for parameter in machine.held.parameters.values():
        parameter.grad = None
    for shards in machine.every_shards():
        shards.forget()
    return _Ran(losses, starts, gradients, owned, adam)


def _in_turn(machine: Machine, reference: str, problem: Problem, request: RunRequest, parts: Any) -> InTurn:
    program, script = machine.program.whole_model, machine.script
    share = min(segment.share for segment in script.segments)
    given = Given(
        program, machine.rank, machine.device, machine.samples, share, script.mini_batch, script.training, request.seed,
        machine.process_of,
    )  # fmt: skip
    ordered = in_order(program, parts)
    held = hold(
        reference, names_of(program, ordered, machine.rank), seed=request.seed, dtype=program.dtype,
        device=machine.device, allow_model=request.allow_model,
    )  # fmt: skip
    trained = [p for p in held.parameters.values() if p.requires_grad]
    kind = OPTIMIZERS[optimizer_of(problem, request.optimizer)]
    return InTurn(given, ordered, held, kind(trained, lr=request.learning_rate) if trained else None)


def _compared(machine: Machine, ran: _Ran, true: InTurn) -> tuple[dict[str, float], str, torch.dtype]:
    """(the largest errors of the parameters that this rank updates, the one whose gradient it is, the dtype)."""
    trained = true.trained if true.given.training else {}
    ranks_have: list[Any] = [None] * machine.ranks
    placed, member = machine.program.placed, machine.members.member
    sizes = {name: (tuple(p.shape), p.dtype) for name, p in trained.items()}
    own = sizes, largest(true.gradients.values()), sorted(ran.parameters)
    dist.all_gather_object(ranks_have, own, group=machine.column)
    home = {name: rank for rank, each in enumerate(ranks_have) for name in each[0]}
    dtypes = {dtype for each in ranks_have for _, dtype in each[0].values()} or {torch.float32}
    if len(dtypes) > 1:
        raise RunError(f"a model with parameters of several dtypes cannot be compared: {sorted(map(str, dtypes))}")
    forgotten = home.keys() - {name for each in ranks_have for name in each[2]}
    if forgotten:
        raise RunError(f"no rank updates the parameter {min(forgotten)}: plan again")
    largest_gradient = max(each[1] for each in ranks_have)
    most = [largest(p.detach() for p in trained.values())]
    largest_parameter = reduced(most, machine.device, dist.ReduceOp.MAX)[0]
    worst, culprit = {"gradient": 0.0, "parameter": 0.0, "undefined": 0.0}, ""
    for name, *whole in _true_ones(machine, true, ranks_have, home):
        gradient, parameter = (placed.share(name, each, member) for each in whole)
        floor = NOTHING * largest_gradient
        known = ran.gradients.get(name, torch.zeros_like(gradient)).to(gradient.device)
        undefined, (known, gradient) = without_twins(known, gradient)
        error = distance(known, gradient, floor)
        if error > worst["gradient"]:
            culprit = name
        worst["gradient"] = max(worst["gradient"], error)
        start = ran.starts[name].to(parameter.device)
        too, (computed, parameter, start) = without_twins(ran.parameters[name], parameter, start)
        worst["undefined"] += undefined + too
        even = without_flat(computed, parameter, gradient, floor) if ran.adam else computed
        error = distance(even, parameter, NOTHING * largest_parameter)
        if float(gradient.abs().sum()) > floor:  # else zero but for rounding, and so is its direction
            moved = relative_change(computed, parameter, start)
            error = max(error, moved if moved > NOTABLE else 0.0)
        worst["parameter"] = max(worst["parameter"], error)
    return worst, culprit, dtypes.pop()


def _true_ones(
    machine: Machine, true: InTurn, ranks_have: list[Any], home: dict[str, int]
) -> Iterator[tuple[str, Tensor, Tensor]]:
    """(parameter, its gradient, its value), both whole, of those that this rank updates, from the rank that computed
    them; all ranks send in one order."""
    here, process_of = machine.rank, machine.process_of
    for name in sorted(home):
        shape, dtype = ranks_have[home[name]][0][name]
        wants = [rank for rank, each in enumerate(ranks_have) if name in each[2]]
        if here == home[name]:
            value = true.trained[name].detach()
            gradient = true.gradients.get(name, torch.zeros_like(value))
            for rank in wants:
                if rank != here:
                    dist.send(gradient.contiguous(), process_of(rank))
                    dist.send(value.contiguous(), process_of(rank))
        elif here in wants:
            gradient, value = (torch.empty(shape, dtype=dtype, device=machine.device) for _ in range(2))
            dist.recv(gradient, process_of(home[name]))
            dist.recv(value, process_of(home[name]))
        if here in wants:
            yield name, gradient, value


def way_of(way: Way | None, machine: Machine, problem: Problem, optimizer: str | None) -> Way:
    """The one asked for, or in one piece if rank 0 has room for it: the stronger one, since there the model is not cut.
    Every rank calls it and gets the same."""
    if way is not None:
        return way
    share = min(segment.share for segment in machine.script.segments)
    needs = whole_bytes(machine.program.whole_model, problem, share, optimizer)
    cap = problem.cluster.devices[machine.script.devices[0]].memory_bytes
    fits = torch.tensor([needs <= min(cap, free_bytes(machine.device))], dtype=torch.int64, device=machine.device)
    dist.broadcast(fits, 0)
    return Way.WHOLE if fits.item() else Way.STAGES


def whole_bytes(program: Program, problem: Problem, share: int, optimizer: str | None) -> float:
    """What the model in one piece holds on a rank: parameters, and in training a gradient, a copy of the first one and
    the optimizer's states, with what the forward of ``share`` samples saves."""
    captured, _ = program.sized[share]
    parameters = sum(captured.values[value].nbytes for value in captured.parameters)
    if not problem.training:
        return float(parameters)
    states = STATES[Optimizer(optimizer_of(problem, optimizer))]
    saved = sum(operator.saved_bytes.at(share) for operator in problem.graph.operators)
    return float(parameters) * (3 + states) + saved * problem.graph.tensor_parallel


def parts_of(way: Way, script: Script, program: Program) -> Sequence[Part]:
    """In one piece on rank 0; or each segment on the first of the ranks that have it."""
    if way is Way.WHOLE:
        return [Part(tuple(range(len(program.whole_model.folded.groups))), 0)]
    return [Part(program.undivided(at.operators), script.devices.index(at.devices[0])) for at in script.segments]


def without_twins(*values: Tensor) -> tuple[bool, tuple[Tensor, ...]]:
    """(whether the first two hold entries that are no finite number, the same in both, all of ``values`` with 0 there).
    What a model itself makes infinite says nothing of a run of it."""
    computed, true = values[:2]
    twins = ~true.isfinite() & ((computed == true) | (computed.isnan() & true.isnan()))
    if not bool(twins.any()):
        return False, values
    return True, tuple(value.masked_fill(twins, 0.0) for value in values)


def distance(computed: Tensor, true: Tensor, floor: float) -> float:
    """max|difference| / max|true|, or over ``floor`` if that is more; inf if it is not a number."""
    if true.numel() == 0:
        return 0.0
    scale = max(floor, true.abs().max().item())
    error = (computed - true).abs().max().item() / (scale if scale != 0 else 1.0)
    return error if math.isfinite(error) else math.inf


def without_flat(computed: Tensor, true: Tensor, gradient: Tensor, floor: float) -> Tensor:
    """``computed``, but ``true`` where the gradient is zero but for rounding: below `FLAT`, or all below ``floor``."""
    size = gradient.abs()
    least = max(FLAT * float(size.max()), floor) if size.numel() else 0.0
    return torch.where((size < least) & computed.isfinite(), true, computed)


def relative_change(computed: Tensor, true: Tensor, start: Tensor) -> float:
    """How far a parameter has come from where it should have: |difference| / |change| beyond what rounding of its
    entries makes, by Euclidean norms; inf if it is not a number."""
    rounding = STEPS * torch.finfo(true.dtype).eps * float(true.norm())
    error = float((computed - true).norm()) - rounding
    change = max(float((true - start).norm()), rounding)
    if error <= 0:
        return 0.0
    return error / change if math.isfinite(error / change) else math.inf


def without_twin_losses(computed: Sequence[float], true: Sequence[float]) -> tuple[list[float], list[float]]:
    """Those that are not the same infinity, or no number, in both."""
    pairs = [(a, b) for a, b in zip(computed, true, strict=True) if math.isfinite(b) or repr(a) != repr(b)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def furthest(computed: Sequence[float], true: Sequence[float]) -> float:
    """The largest relative difference of a loss; inf if one is not a number."""
    errors = [abs(a - b) / max(abs(b), 1e-300) for a, b in zip(computed, true, strict=True)]
    return max(errors, default=0.0) if all(map(math.isfinite, errors)) else math.inf


def largest(tensors: Iterable[Tensor]) -> float:
    """The largest entry that is finite, without its sign; 0 of none."""
    return max((value.abs().nan_to_num(0.0, 0.0, 0.0).max().item() for value in tensors if value.numel()), default=0.0)
