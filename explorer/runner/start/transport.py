"""What the ranks compute on and talk over, decided once for all of them, and the process group that does it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from explorer.runner.bundles.request import Backend
from solvers.errors import RunError

NCCL, GLOO = "nccl", "gloo"
MEET_S = 300.0
"""How long ranks wait for one another before they decide; a host may be slow to start."""


def here() -> tuple[int, int]:
    """(ranks of this host, GPUs of it)."""
    ranks = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ.get("WORLD_SIZE", "1")))
    return ranks, torch.cuda.device_count() if torch.cuda.is_available() else 0


def decided(backend: Backend, devices: Sequence[tuple[int, int]]) -> str:
    """NCCL where every rank has a GPU of its own, else GLOO. devices: by rank, what `here` gave on it.

    Raises RunError, the same on all ranks, where GPUs are asked for and a host has too few.
    """
    short = next(((rank, ranks, gpus) for rank, (ranks, gpus) in enumerate(devices) if gpus < ranks), None)
    if backend is Backend.CUDA and short is not None:
        rank, ranks, gpus = short
        host = "this host" if len(devices) == ranks else f"the host of rank {rank}"
        raise RunError(f"{ranks} ranks need {ranks} GPUs on {host}, found {gpus}; run with --backend cpu")
    return GLOO if backend is Backend.CPU or short is not None else NCCL


def device_of(backend: Backend, ranks: int) -> torch.device:
    """Where this rank computes among ``ranks`` of which all hosts are alike. Raises RunError as `decided`."""
    kind = decided(backend, [here()] * ranks)
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if kind == NCCL else torch.device("cpu")


def connect(backend: Backend, timeout_s: float) -> torch.device:
    """Makes the process group of the ranks that the environment names (torchrun's variables); where this rank computes.

    The group of GPUs is bound to the rank's own, so that nothing of it is made on another one. Raises RunError where
    what is asked for cannot be, on every rank with the same line.
    """
    store, rank, ranks = next(iter(rendezvous("env://", timeout=timedelta(seconds=MEET_S))))
    location = here()
    store.set(f"explorer/here/{rank}", json.dumps(location))
    devices = [_pair(store.get(f"explorer/here/{each}")) for each in range(ranks)]
    kind = decided(backend, devices)
    bound: dict[str, Any] = {}
    device = torch.device("cpu")
    if kind == NCCL:
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
        bound["device_id"] = device
    dist.init_process_group(
        kind, store=dist.PrefixStore("explorer/group", store),  # type: ignore[attr-defined]
        rank=rank, world_size=ranks,
        timeout=timedelta(seconds=max(60.0, timeout_s)), **bound,
    )  # fmt: skip
    return device


def _pair(written: bytes) -> tuple[int, int]:
    ranks, gpus = json.loads(written)
    return int(ranks), int(gpus)
