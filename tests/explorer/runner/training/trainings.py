"""Trainings on two processes and on one, in one launch: ``trainings FOLDER``, which holds the plans; ``trainings
FOLDER odd7 ...`` runs those of random models alone.

Torch is imported once; then the process divides, and each part is a rank. Process 0 writes FOLDER/results.json: name
-> what each rank has to say of it.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

import explorer
from explorer.runner.model.program import trace_built
from explorer.runner.training import launch as launching
from explorer.runner.training.training import Training
from solvers.errors import PlacementError
from solvers.formats.op_graph_json import graph_hash
from tests.explorer.runner.training import models, random_trainings

STEPS = 6
Report = dict[str, Any]


KNOWN: dict[Any, Any] = {}


def traced_once(built: Any, name: str, reference: str, **given: Any) -> Any:
    """Tracing takes longer than all else here, and says the same of the same."""
    key = reference, tuple(given["samples"]), graph_hash(given["graph"])
    if key not in KNOWN:
        KNOWN[key] = trace_built(built, name, reference, **given)
    return KNOWN[key]


def launched(plan: Path, **given: Any) -> Training:
    usual = {
        "model": models.scores,
        "optimizer": models.adamw,
        "batches": models.pairs(2 * STEPS),
        "loss": models.cross_entropy,
    }
    return explorer.launch(str(plan), **{**usual, **given})


def curve(training: Training, steps: int = STEPS) -> list[Any]:
    return [astuple(step) for step in training.steps(steps)]


def trained(folder: Path, plan: str, **given: Any) -> Report:
    """The curve, and the sum of all weights at the end."""
    training = launched(folder / plan, **given)
    steps = curve(training)
    held = {name: p.numel() for name, p in training._setup.machine.held.parameters.items()}
    return {"curve": steps, "weights": summary(training.full_state_dict()), "held": held}


def summary(state: dict[str, Tensor]) -> dict[str, float]:
    return {name: float(value.double().abs().sum()) for name, value in state.items()}


FULL: Report = {"schedule": models.warm_up, "clip": 0.4, "accumulate": 2}
NOISY: Report = {"model": models.noisy, "loss": None}
HALVED: Report = {"model": models.halved, "loss": None}


def noisy(folder: Path, plan: str) -> Report:
    before = torch.random.get_rng_state()
    shown = trained(folder, plan, **NOISY, batches=models.pairs(STEPS))
    return shown | {"generator": bool(torch.equal(before, torch.random.get_rng_state()))}


def first_half(folder: Path, plan: str, checkpoint: str) -> Report:
    training = launched(folder / plan, **FULL)
    fields = {"curve": curve(training, STEPS // 2)}
    training.save(folder / checkpoint)
    return fields


def second_half(folder: Path, plan: str, checkpoint: str) -> Report:
    return {"curve": curve(launched(folder / plan, **FULL, seed=99, resume=folder / checkpoint))}


def alone(folder: Path) -> Report:
    """The same model, in a plain loop of PyTorch, from the same weights."""
    training = launched(folder / "one.json", **FULL)
    module, _ = models.scores()
    module.load_state_dict(training.full_state_dict())
    start = summary(module.state_dict())
    parameters = [p for name, p in module.named_parameters() if name != "spare"]
    optimizer = models.adamw(parameters)
    schedule = models.warm_up(optimizer)
    data = list(models.pairs(2 * STEPS))
    steps = []
    for number in range(STEPS):
        optimizer.zero_grad()
        loss = sum(models.cross_entropy(module(x), y) / 2 for x, y in data[2 * number : 2 * number + 2])
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, 0.4)
        rate = optimizer.param_groups[0]["lr"]
        optimizer.step()
        schedule.step()
        steps.append((number + 1, loss.item(), norm.item(), rate))
    return {"curve": steps, "start": start, "weights": summary(module.state_dict()), "keys": list(module.state_dict())}


def halved_alone(folder: Path) -> Report:
    """The same under autocast, in a plain loop over micro-batches."""
    module, _ = models.halved()
    module.load_state_dict(launched(folder / "one halved.json", **HALVED, batches=models.vectors(1)).full_state_dict())
    optimizer = models.adamw(module.parameters())
    steps = []
    for number, batch in enumerate(models.vectors(STEPS)):
        optimizer.zero_grad()
        losses = [module(part) / 2 for part in batch.chunk(2)]
        for loss in losses:
            loss.backward()
        optimizer.step()
        steps.append((number + 1, sum(loss.item() for loss in losses), None, 0.02))
    return {"curve": steps, "weights": summary(module.state_dict())}


def module_given(folder: Path) -> Report:
    torch.manual_seed(5)
    module, _ = models.scores()
    before = summary(module.state_dict())
    training = launched(folder / "two.json", model=module)
    start = summary(training.full_state_dict())
    steps = curve(training, 1)
    return {"curve": steps, "same": start in ({}, before), "untouched": summary(module.state_dict()) == before}


def called(folder: Path) -> Report:
    """Mini-batches from a number on."""
    requests = []

    def batches(first: int) -> Any:
        requests.append(first)
        return list(models.pairs(2 * STEPS))[first:]

    training = launched(folder / "two.json", **FULL, batches=batches, resume=folder / "one")
    return {"curve": curve(training), "asked": requests}


def idle(folder: Path) -> Report:
    """The same mini-batch over and over, and nothing learned."""

    def still(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, lr=1e-30, weight_decay=0.0)

    batches = 3 * list(models.pairs(1))
    return {"curve": curve(launched(folder / "two noisy.json", **NOISY, optimizer=still, batches=batches))}


def refused(folder: Path, plan: str = "two.json", **given: Any) -> Report:
    try:
        launched(folder / plan, **given)
    except PlacementError as error:
        return {"error": str(error)}
    return {"error": ""}


def failing(number: int) -> Iterator[Any]:
    yield from models.pairs(number)
    raise ValueError("a row is missing\nand more")


def on(rank: int, other: Any, usual: Any) -> Any:
    return other if dist.get_rank() == rank else usual


def later(folder: Path, batches: Callable[[], Any], steps: int = 1) -> Report:
    """What a training comes upon in the middle."""
    training = launched(folder / "two.json", batches=batches())
    try:
        return {"curve": curve(training), "error": ""}
    except PlacementError as error:
        return {"error": str(error)}


def in_autocast(folder: Path) -> Report:
    with torch.autocast("cpu", torch.bfloat16):
        return refused(folder)


def spoiled(folder: Path) -> Report:
    """A checkpoint whose list of tensors names a function."""
    if dist.get_rank() == 0:
        shutil.copytree(folder / "two", folder / "spoiled")
        (folder / "spoiled" / ".metadata").write_bytes(b"cposix\nsystem\n(S'touch spoiled'\ntR.")
    dist.barrier()
    return refused(folder, **FULL, resume=folder / "spoiled")


def used(folder: Path) -> Report:
    training = launched(folder / "two.json")
    try:
        training.save(folder)
    except PlacementError as error:
        return {"error": str(error)}
    return {"error": ""}


def full_disk(folder: Path) -> Report:
    """On one rank no file may become longer than a few bytes; then all may again."""
    training = launched(folder / "two.json", **FULL)
    curve(training, STEPS // 2)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if training.rank == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        training.save(folder / "full")
        error = ""
    except PlacementError as problem:
        error = str(problem)
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    dist.barrier()
    left = sorted(path.name for path in folder.glob("full*"))
    dist.barrier()
    training.save(folder / "full")
    whole = sorted(path.name for path in folder.glob("full*"))
    return {"error": error, "left": left, "whole": whole, **second_half(folder, "two.json", "full")}


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)


ON_ONE: dict[str, Callable[[Path], Report]] = {
    "alone": alone,
    "full on one": lambda f: trained(f, "one.json", **FULL),
    "noisy on one": lambda f: noisy(f, "one noisy.json"),
    "halved alone": halved_alone,
    "halved on one": lambda f: trained(f, "one halved.json", **HALVED, batches=models.vectors(STEPS)),
    "from one": lambda f: first_half(f, "one.json", "one"),
}
ON_TWO: dict[str, Callable[[Path], Report]] = {
    "full on two": lambda f: trained(f, "two.json", **FULL),
    "replicas": lambda f: trained(f, "two replicas.json", **FULL),
    "ZeRO-1": lambda f: trained(f, "two with ZeRO-1.json", **FULL),
    "states on hosts": lambda f: trained(f, "two on hosts.json", **FULL),
    "noisy on two": lambda f: noisy(f, "two noisy.json"),
    "noisy, recomputed": lambda f: noisy(f, "two noisy recomputed.json"),
    "halved on two": lambda f: trained(f, "two halved.json", **HALVED, batches=models.vectors(STEPS)),
    "halved, recomputed": lambda f: trained(f, "two halved recomputed.json", **HALVED, batches=models.vectors(STEPS)),
    "to two": lambda f: second_half(f, "two.json", "one"),
    "called": called,
    "noisy, idle": idle,
    "from two": lambda f: first_half(f, "two.json", "two"),
    "to replicas": lambda f: second_half(f, "two replicas.json", "two"),
    "to ZeRO-1": lambda f: second_half(f, "two with ZeRO-1.json", "two"),
    "from ZeRO-1": lambda f: first_half(f, "two with ZeRO-1.json", "ZeRO-1"),
    "from replicas": lambda f: first_half(f, "two replicas.json", "replicas"),
    "to hosts": lambda f: second_half(f, "two on hosts.json", "two"),
    "from hosts": lambda f: first_half(f, "two on hosts.json", "hosts"),
    "a module": module_given,
    "another model": lambda f: refused(f, model=models.other),
    "another batch": lambda f: refused(f, batches=models.pairs(2, samples=6)),
    "another context": lambda f: refused(f, batches=models.pairs(2, context=4)),
    "no targets": lambda f: refused(f, batches=(x for x, _ in models.pairs(2))),
    "no loss": lambda f: refused(f, loss=None, batches=(x for x, _ in models.pairs(2))),
    "no number": lambda f: refused(f, loss=lambda output, following: output),
    "another optimizer": lambda f: refused(f, optimizer=sgd),
    "no optimizer of entries": lambda f: refused(f, "two with ZeRO-1.json", optimizer=torch.optim.RAdam),
    "another number of ranks": lambda f: refused(f, "one.json"),
    "autocast": in_autocast,
    "another checkpoint": lambda f: refused(f, "two halved.json", **HALVED, batches=models.vectors(2 * STEPS),
                                            resume=f / "one"),
    "no schedule": lambda f: refused(f, resume=f / "one"),
    "no checkpoint": lambda f: refused(f, resume=f / "nothing"),
    "used": used,
    "other data": lambda f: refused(f, batches=models.pairs(2, seed=dist.get_rank())),
    "ends on one": lambda f: later(f, lambda: models.pairs(on(1, 2, 4))),
    "fails on one": lambda f: later(f, lambda: on(1, failing(2), models.pairs(4))),
    "changes its shape": lambda f: later(f, lambda: on(0, [*models.pairs(1), *models.pairs(1, samples=3)],
                                                       models.pairs(2))),
    "a spoiled checkpoint": spoiled,
    "a full disk": full_disk,
    **{name: partial(random_trainings.trained, name=name) for name in random_trainings.NAMES},
}  # fmt: skip
BACK_ON_ONE: dict[str, Callable[[Path], Report]] = {
    "to one": lambda f: second_half(f, "one.json", "two"),
    "hosts to one": lambda f: second_half(f, "one.json", "hosts"),
    "ZeRO-1 to one": lambda f: second_half(f, "one.json", "ZeRO-1"),
    "replicas to one": lambda f: second_half(f, "one.json", "replicas"),
}


def main(folder: Path, names: list[str]) -> None:
    torch.set_num_threads(1)
    launching.trace_built = traced_once
    process = 0
    results: dict[str, Any] = {}
    if os.fork() == 0:
        process = 1
    random = {name: partial(random_trainings.trained, name=name) for name in names}
    rounds = ((2, random),) if names else ((1, ON_ONE), (2, ON_TWO), (1, BACK_ON_ONE))
    for number, (ranks, cases) in enumerate(rounds):
        if process < ranks:
            if ranks == 2:
                meet(folder, number, process)
            for name, case in cases.items():
                results[name] = gathered(case, folder, name, ranks)
            if ranks == 2:
                dist.destroy_process_group()
    if process == 0:
        (folder / "results.json").write_text(json.dumps(results))


def meet(folder: Path, number: int, process: int) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet{number}", rank=process, world_size=2)


def gathered(case: Callable[[Path], Report], folder: Path, name: str, ranks: int) -> list[Report]:
    own = case(folder)
    if ranks == 1:
        dist.destroy_process_group()
        return [own]
    everywhere: list[Any] = [None] * ranks
    dist.all_gather_object(everywhere, own)
    return everywhere


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
