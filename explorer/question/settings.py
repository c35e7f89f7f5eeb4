"""The settings a person can change, and the problem they make of a workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from explorer.costs.profile import Profile
from explorer.costs.regions import Regions
from explorer.costs.times.library import Library
from solvers.errors import InvalidProblem
from solvers.problem.cluster import Cluster, Wires
from solvers.problem.problem import Contiguity, Execution, Objective, Optimizer, Pipeline, Precision, Transfers


class MemoryModel(StrEnum):
    """What a cap applies to, where a workload states no sizes.

    PEAK: the most that is held at any time of the simulated schedule. STATIC: the sum of what all operators
    of a device keep, parameters and saved activations of the whole mini-batch, whenever they keep it.
    """

    PEAK = "peak"
    STATIC = "static"


@dataclass(frozen=True, slots=True)
class Settings:
    """One state of the command line's flags or of the page's left rail. None: the default.

    devices counts accelerators. device_kind and memory_bytes are one for all accelerators, or one for each.
    memory_bytes caps accelerators (None: the kind's own memory); keep_free_bytes of each cap are left free, for what no
    plan counts. links: what carries transfers inside a host.
    cluster: a whole one, in place of all that describes one but memory_bytes. profile: measured costs, links and
    memory in place of estimates; its ranks are the devices unless others are asked for. times: what operators took,
    whichever models they are of, one library for a kind of device; the devices are of that kind unless others are asked
    for. contiguity: by default NONE for one pass of single operators, else ACYCLIC. dtype: "bf16", "fp16" or "fp32",
    what a model is traced in (None: its own). zero, max_replicas, recompute, mixed_micro_batches and
    subgraphs_per_device are as in `Problem`; a max_replicas of 0 allows all accelerators. regions: what runs again,
    whatever the stages are. in_sequence: whether operators wait for one another in one linear order, which makes every
    pipeline a sequential one. copy_tied: whether every reader of a tied parameter holds a copy of it, in place of
    sharing a device with the others (inference). pins: operator name (or a module path, for all of its operators) ->
    device index. together: groups of such names, each group to be on one device.
    """

    devices: int | None = None
    device_kind: str | tuple[str, ...] | None = None
    memory_bytes: float | tuple[float, ...] | None = None
    keep_free_bytes: float = 0.0
    cpus: int | None = None
    bandwidth_bytes_per_s: float | None = None
    latency_s: float | None = None
    devices_per_node: int | None = None
    node_bandwidth_bytes_per_s: float | None = None
    links: Wires | None = None
    cluster: Cluster | None = None
    profile: Profile | None = None
    times: tuple[Library, ...] = ()
    memory_model: MemoryModel = MemoryModel.PEAK
    objective: Objective | None = None
    contiguity: Contiguity | None = None
    transfers: Transfers | None = None
    execution: Execution | None = None
    pipeline: Pipeline = Pipeline.ONE_F_ONE_B
    training: bool | None = None
    dtype: str | None = None
    optimizer: Optimizer = Optimizer.ADAM
    precision: Precision = Precision.PURE
    zero: int = 0
    mini_batch: int | None = None
    micro_batches: int | None = None
    max_replicas: int = 1
    recompute: bool = False
    regions: Regions = Regions.MODEL
    mixed_micro_batches: bool = False
    in_sequence: bool = False
    copy_tied: bool = False
    subgraphs_per_device: int | None = None
    pins: Mapping[str, int] = field(default_factory=dict)
    together: tuple[tuple[str, ...], ...] = ()


STAGE = "stage"
RECOMPUTE = (STAGE, Regions.LAYERS.value, Regions.OPERATORS.value, Regions.NONE.value)
"""What may be asked to run again."""


def recompute_of(asked: bool | str | None) -> tuple[bool, Regions]:
    """Whether stages may run again, and which regions do, of what a person asks for: False or None (what the model
    checkpoints itself), True or "stage", "layers", "operators" or "none". Raises InvalidProblem."""
    if asked is None or isinstance(asked, bool):
        return bool(asked), Regions.MODEL
    if asked == STAGE:
        return True, Regions.MODEL
    if asked not in RECOMPUTE:
        raise InvalidProblem(f"no way to recompute {asked!r}; there are: {', '.join(RECOMPUTE)}")
    return False, Regions(asked)
