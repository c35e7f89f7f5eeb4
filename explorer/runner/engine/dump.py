"""What one iteration makes of gradients and parameters, written down for whoever checks it with a loop of their own.

    tensors-<rank>.npz   gradient/NAME of the mini-batch, parameter/NAME after its update, of those the rank updates;
                         loss, the rank's part

Plain arrays, no pickles; what numpy has no dtype for (bfloat16) is written as float32, which holds it exactly.
`explorer.runner.recipe` makes the parameters and samples that the iteration began with.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from explorer.files import write_file
from explorer.runner.bundles.progress import tell
from explorer.runner.engine.machine import Machine
from explorer.runner.model.optimizers import dense

GRADIENT, PARAMETER, LOSS = "gradient/", "parameter/", "loss"


def dump(machine: Machine, folder: Path) -> Path:
    """One iteration of a machine that has run none, and this rank's file of it. Every rank calls it. Raises
    NotWritten."""
    names = {id(parameter): name for name, parameter in machine.held.parameters.items()}
    found: dict[str, Tensor] = {}

    def keep(segment: int) -> None:
        for parameter in machine.owned[segment]:
            if parameter.grad is not None:
                found.setdefault(GRADIENT + names[id(parameter)], dense(parameter.grad))

    tell("dumping")
    machine.before_update = keep
    machine.iterate()
    machine.before_update = None
    for parameters in machine.owned.values():
        found |= {PARAMETER + names[id(p)]: p.detach() for p in parameters}
    arrays = {name: _array(value) for name, value in found.items()}
    written = io.BytesIO()
    np.savez(written, allow_pickle=False, **arrays, **{LOSS: np.array(machine.loss())})
    path = folder / f"tensors-{machine.rank}.npz"
    write_file(path, written.getvalue(), "dumping gradients and parameters")
    return path


def _array(value: Tensor) -> np.ndarray:
    here = value.cpu()
    return (here.float() if here.dtype is torch.bfloat16 else here).numpy()
