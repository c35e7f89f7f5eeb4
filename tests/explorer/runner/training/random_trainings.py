"""A random model with states and draws, trained from a plan, beside itself in a plain loop of PyTorch: outputs, the
first gradient of every parameter, and the whole state dict after some steps, buffers among them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import explorer
from explorer.runner.model.deferred_init import mixed
from explorer.runner.model.drawing import draws
from explorer.runner.training.training import Training
from tests.explorer.runner import random_models

SAMPLES, STEPS, SEED = 8, 3, 5
NAMES = ("odd12", "odd7", "odd5", "odd0", "odd4", "odd11")
"""Those of the default suite."""
MORE = tuple(f"odd{seed}" for seed in range(24) if f"odd{seed}" not in NAMES)
BATCHED = ("running_mean", "running_var")

AdamW = partial(torch.optim.AdamW, lr=0.02, weight_decay=0.2, eps=1e-3)
"""It decays what it is given a gradient of, be that zero, and moves little where the gradient is but rounding."""


def batches(count: int = STEPS) -> Iterator[tuple[Tensor, ...]]:
    draw = torch.Generator().manual_seed(7)
    for _ in range(count):
        features, targets = torch.randn(2, SAMPLES, random_models.WIDTH, generator=draw)
        yield features, torch.randint(9, (SAMPLES, 3), generator=draw), targets


class Masks(TorchDispatchMode):
    """Random operators of a forward in their order, each from the seed that the documentation of trainings names.

    numbers: of the operators."""

    def __init__(self, numbers: list[int]) -> None:
        super().__init__()
        self.numbers, self.base, self.drawn = numbers, 0, 0

    def begin(self, mini_batch: int, first: int) -> None:
        """The forward of a share of a mini-batch, whose first sample is ``first``, comes next."""
        assert self.drawn in (0, len(self.numbers))
        self.base, self.drawn = mixed(mixed(SEED, mini_batch), first), 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded in func.tags:
            torch.manual_seed(mixed(self.base, self.numbers[self.drawn]))
            self.drawn += 1
        return func(*args, **(kwargs or {}))


def trained(folder: Path, name: str) -> dict[str, Any]:
    """Of the plan FOLDER/NAME.json."""
    training = explorer.launch(
        str(folder / f"{name}.json"), model=getattr(random_models, name), optimizer=AdamW, batches=batches(), seed=SEED
    )
    return against_eager(training, name)


def against_eager(training: Training, name: str) -> dict[str, Any]:
    """Every rank must call it; rank 0 has the answer: name of what was compared -> largest difference."""
    before = training.full_state_dict()
    gradients: dict[str, Tensor | None] = {}
    optimizer = training._setup.updater.optimizer

    def note(*_: Any) -> None:
        if not gradients:
            known = dict(training._setup.machine.gradients())
            gradients.update({each: known.get(each) for each in training._setup.updater.parameters})

    if optimizer is not None:
        optimizer.register_step_pre_hook(note)
    losses = [step.loss for step in training.steps(STEPS)]
    after, everywhere = training.full_state_dict(), training._setup.ranks.all_of(gradients)
    owners, written_apart = training._setup.catalogue.owners, buffers_of_several_segments(training)
    if dist.get_rank() != 0:
        return {}
    module, _ = getattr(random_models, name)()
    module.load_state_dict(before)
    true_losses, true_gradients = eager(training, module)
    true = module.state_dict()
    assert list(after) == list(true)
    gradient_of = {each: value for part in everywhere for each, value in part.items()}
    return {
        "kinds": sorted({kind for kind, *_ in module.steps}),
        "loss": max(abs(a - b) / abs(b) for a, b in zip(losses, true_losses, strict=True)),
        "gradients": {each: separate(value, true_gradients[each]) for each, value in gradient_of.items()},
        "none": sorted(each for each, value in gradient_of.items() if value is None),
        "replicas agree": all(
            part[each] is None if value is None else torch.equal(part[each], value)
            for part in everywhere for each, value in gradient_of.items() if each in part
        ),
        "state": {each: separate(after[each], true[each]) for each in true if each not in written_apart},
        "counted": {each: int(value) for each, value in after.items() if value.dtype == torch.int64},
        "true counts": {each: int(value) for each, value in true.items() if value.dtype == torch.int64},
        "statistics of rank 1": [
            each for each in true.keys() - written_apart
            if owners.get(each) == 1 and each.endswith(BATCHED) and not torch.equal(true[each], before[each])
        ],
    }  # fmt: skip


def eager(training: Training, module: random_models.Dag) -> tuple[list[float], dict[str, Tensor | None]]:
    """Losses of the steps, and the gradients of the first one. Each micro-batch is cut as replicas cut it; of their
    statistics those of the first are kept."""
    script, program = training._setup.machine.script, training._setup.machine.program
    (share,), (replicas,) = ({s.share for s in script.segments}, {len(s.devices) for s in script.segments})
    flat = program.sized[share][1]
    nodes = [node for node in flat.graph.nodes if node.op == "call_function"]
    masks = Masks([zlib.crc32(flat.name_of[n].encode()) for n in nodes if draws(n.target, n.args, n.kwargs)])
    optimizer = AdamW(module.parameters())
    losses, gradients = [], {}
    for number, batch in enumerate(batches()):
        optimizer.zero_grad()
        total = 0.0
        for first in range(0, SAMPLES, share):
            buffers = {each: value.clone() for each, value in module.named_buffers()}
            masks.begin(number, first)
            with masks:
                loss = module(*(part[first : first + share] for part in batch)) * (share / SAMPLES)
            loss.backward()
            total += loss.item()
            if (first // share) % replicas:
                for each, value in module.named_buffers():
                    value.copy_(buffers[each])
        losses.append(total)
        for each, p in module.named_parameters():
            gradients.setdefault(each, None if p.grad is None else p.grad.clone())
        optimizer.step()
    return losses, gradients


def buffers_of_several_segments(training: Training) -> set[str]:
    """Statistics that calls of several segments count, which do so in the order of the plan."""
    machine = training._setup.machine
    program, keys = machine.program, training._setup.catalogue.keys
    first = {id(tensor): name for name, tensor in reversed(machine.held.buffers.items())}
    readers: dict[str, int] = {}
    for segment in machine.script.segments:
        targets = {id(machine.held.buffers[target]) for target in program.buffer_names_changed(segment.operators)}
        for tensor in targets:
            readers[first[tensor]] = readers.get(first[tensor], 0) + 1
    separate = {name for name, count in readers.items() if count > 1}
    return {key for key, name in keys.items() if name in separate}


def separate(made: Tensor | None, true: Tensor | None) -> float:
    """The largest difference over the largest entry; infinite where one is None and the other is not."""
    if made is None or true is None:
        return 0.0 if made is true else float("inf")
    return float((made.double() - true.double()).abs().max() / true.double().abs().max().clamp(min=1e-3))
