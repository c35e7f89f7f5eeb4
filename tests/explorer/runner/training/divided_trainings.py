"""Trainings whose tensors are divided, on up to eight processes, in one launch: ``divided_trainings FOLDER``.

FOLDER holds the plans and cases.json: [name, model, plan, processes, steps, checkpoint to go on from, checkpoint to
keep]. They are run one after the other; process 0 writes FOLDER/results.json: name -> its curve and its weights.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

import explorer
from demo_models import MODELS
from tests.explorer.runner.model.mixtures import WORDS
from tests.explorer.runner.training import models

STEPS = 6
"""At most; of twice as many mini-batches, since two make a step."""
SAMPLES = 8


def build_of(model: str) -> Callable[[], Any]:
    """A demo's, or that of a module:function."""
    module, _, name = model.rpartition(":")
    return getattr(importlib.import_module(module), name) if module else MODELS[model].build


def batches(model: str) -> Iterator[tuple[Tensor, ...]]:
    """Words, and the words to find."""
    draw = torch.Generator().manual_seed(3)
    with torch.device("meta"):
        _, inputs = build_of(model)()
    words = WORDS if ":" in model else 50
    for _ in range(2 * STEPS):
        yield tuple(torch.randint(words, (SAMPLES, *each.shape[1:]), generator=draw) for each in inputs)


def trained(folder: Path, model: str, plan: str, count: int, resume: str, save: str) -> dict[str, Any]:
    training = explorer.launch(
        str(folder / plan), model=build_of(model), optimizer=models.adamw, batches=batches(model), clip=0.5,
        accumulate=2, seed=1, schedule=models.warm_up, resume=folder / resume if resume else None,
    )  # fmt: skip
    steps = [astuple(step) for step in training.steps(count)]
    if save:
        training.save(folder / save)
    weights = {name: float(value.double().abs().sum()) for name, value in training.full_state_dict().items()}
    return {"curve": steps, "weights": weights}


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    cases = json.loads((folder / "cases.json").read_text())
    most = max(case[3] for case in cases)
    process = next((number for number in range(1, most) if os.fork() == 0), 0)
    results = {}
    for number, (name, model, plan, count, steps, resume, save) in enumerate(cases):
        if process < count:
            dist.init_process_group(
                "gloo", init_method=f"file://{folder}/meet{number}", rank=process, world_size=count
            )  # fmt: skip
            results[name] = trained(folder, model, plan, steps, resume, save)
            dist.destroy_process_group()
    if process == 0:
        (folder / "results.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
