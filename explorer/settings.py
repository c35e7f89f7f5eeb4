"""The settings a person can change, and the problem they make of a workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from solvers.problem import Contiguity, Execution, Objective, Optimizer, Pipeline, Transfers


@dataclass(frozen=True, slots=True)
class Settings:
    """One state of the command line's flags or of the page's left rail. None: the default.

    devices counts accelerators. dtype: "bf16", "fp16" or "fp32", what a model is traced in (None:
    its own). memory_bytes caps each accelerator (None: the kind's own memory). max_replicas, recompute,
    mixed_micro_batches and subgraphs_per_device are as in `Problem`; a max_replicas of 0 allows all
    accelerators. in_sequence: whether operators wait for one another in one linear order, which makes
    every pipeline a sequential one. pins: operator name (or a module path, for all of its operators) ->
    device index.
    """

    devices: int | None = None
    device_kind: str | None = None
    memory_bytes: float | None = None
    cpus: int | None = None
    bandwidth_bytes_per_s: float | None = None
    latency_s: float | None = None
    devices_per_node: int | None = None
    node_bandwidth_bytes_per_s: float | None = None
    objective: Objective | None = None
    contiguity: Contiguity = Contiguity.ACYCLIC
    transfers: Transfers | None = None
    execution: Execution | None = None
    pipeline: Pipeline = Pipeline.ONE_F_ONE_B
    training: bool | None = None
    dtype: str | None = None
    optimizer: Optimizer = Optimizer.ADAM
    mini_batch: int | None = None
    micro_batches: int | None = None
    max_replicas: int = 1
    recompute: bool = False
    mixed_micro_batches: bool = False
    in_sequence: bool = False
    subgraphs_per_device: int | None = None
    pins: Mapping[str, int] = field(default_factory=dict)
