"""A question as a person asks it in Python: names and texts, which become settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from explorer.costs.profile import Profile
from explorer.costs.profile_json import load_profile
from explorer.costs.times.library import Library
from explorer.costs.times.library_json import load_library
from explorer.costs.times.store import PROFILE, TIMES, found
from explorer.question.cluster_file import load_cluster
from explorer.question.planner_choice import choose_planner
from explorer.question.settings import MemoryModel, Settings, recompute_of
from explorer.question.written.device_lists import parse_caps, parse_kinds
from explorer.question.written.quantities import parse_bandwidth, parse_bytes, parse_seconds
from solvers.errors import InvalidProblem
from solvers.formats.workload import Workload
from solvers.problem.cluster import Cluster, Wires
from solvers.problem.graph import BACKWARD_PHASES, OpGraph
from solvers.problem.problem import Contiguity, Execution, Objective, Optimizer, Pipeline, Precision, Transfers
from solvers.search.effort import Effort

if TYPE_CHECKING:
    from solvers.search.planner import Planner

E = TypeVar("E", bound=Enum)

WHOLE = (
    "devices", "cpus", "devices_per_node", "mini_batch", "micro_batches", "max_replicas", "subgraphs_per_device",
    "zero",
)  # fmt: skip
"""What must be a whole number, or None."""


@dataclass(frozen=True)
class Question:
    """What `explorer.plan` takes, see there: sizes as numbers (bytes, bytes/s, seconds) or text, choices as text.

    Raises InvalidProblem, in one line, for what is of the wrong type, or no text of its kind.
    """

    devices: int | None = None
    memory: str | float | Sequence[str | float] | None = None
    planner: str | Planner = "auto"
    objective: str | None = None
    device_kind: str | Sequence[str] | None = None
    keep_free: str | float = 0.0
    cpus: int | None = None
    bandwidth: str | float | None = None
    latency: str | float | None = None
    devices_per_node: int | None = None
    node_bandwidth: str | float | None = None
    links: str | None = None
    cluster: Cluster | str | None = None
    profile: Profile | str | None = None
    times: Sequence[Library | str] | Library | str = ()
    memory_model: str = "peak"
    contiguity: str | None = None
    transfers: str | None = None
    execution: str | None = None
    pipeline: str = "1f1b"
    optimizer: str = "adam"
    precision: str = "pure"
    zero: int = 0
    mini_batch: int | None = None
    micro_batches: int | None = None
    max_replicas: int = 1
    recompute: bool | str = False
    mixed_micro_batches: bool = False
    in_sequence: bool = False
    copy_tied: bool = False
    subgraphs_per_device: int | None = None
    pins: Mapping[str, int] = field(default_factory=dict)
    together: Sequence[Sequence[str]] | Sequence[str] = ()
    effort: str = "normal"
    time_limit_s: float = 60.0
    gap: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        _groups(self.together)
        for what in WHOLE:
            count = getattr(self, what)
            if count is not None and (not isinstance(count, int) or isinstance(count, bool)):
                raise InvalidProblem(f"{what} must be a whole number, found {count!r}")
        for what, given in (("time_limit_s", self.time_limit_s), ("gap", self.gap)):
            if not isinstance(given, int | float) or isinstance(given, bool):
                raise InvalidProblem(f"{what} must be a number, found {given!r}")
        if not self.time_limit_s > 0:
            raise InvalidProblem(f"time_limit_s must be more than 0 seconds, found {self.time_limit_s:g}")
        if not 0 <= self.gap < 1:
            raise InvalidProblem(f"gap must be at least 0 and less than 1, found {self.gap:g}")
        if not isinstance(self.seed, int):
            raise InvalidProblem(f"seed must be a whole number, found {self.seed!r}")
        for name, device in _pairs(self.pins):
            if not isinstance(name, str) or not isinstance(device, int) or isinstance(device, bool):
                raise InvalidProblem(f"a pin is an operator or module and a device index, found {name!r}: {device!r}")

    def settings(self) -> Settings:
        """What a problem is made of. Raises InvalidProblem."""
        stages, regions = recompute_of(self.recompute)
        return Settings(
            devices=self.devices,
            device_kind=_kinds(self.device_kind),
            memory_bytes=_caps(self.memory),
            keep_free_bytes=_number("keep_free", self.keep_free, parse_bytes) or 0.0,
            cpus=self.cpus,
            bandwidth_bytes_per_s=_number("bandwidth", self.bandwidth, parse_bandwidth),
            latency_s=_number("latency", self.latency, parse_seconds),
            devices_per_node=self.devices_per_node,
            node_bandwidth_bytes_per_s=_number("node_bandwidth", self.node_bandwidth, parse_bandwidth),
            objective=None if self.objective is None else choice(Objective, self.objective),
            links=None if self.links is None else choice(Wires, self.links),
            cluster=load_cluster(self.cluster) if isinstance(self.cluster, str) else self.cluster,
            profile=load_profile(found(self.profile, PROFILE)) if isinstance(self.profile, str) else self.profile,
            times=_libraries(self.times),
            memory_model=choice(MemoryModel, self.memory_model),
            contiguity=None if self.contiguity is None else choice(Contiguity, self.contiguity),
            transfers=None if self.transfers is None else choice(Transfers, self.transfers),
            execution=None if self.execution is None else choice(Execution, self.execution),
            pipeline=choice(Pipeline, self.pipeline),
            optimizer=choice(Optimizer, self.optimizer),
            precision=choice(Precision, self.precision),
            zero=self.zero,
            mini_batch=self.mini_batch,
            micro_batches=self.micro_batches,
            max_replicas=self.max_replicas,
            recompute=stages,
            regions=regions,
            mixed_micro_batches=self.mixed_micro_batches,
            in_sequence=self.in_sequence,
            copy_tied=self.copy_tied,
            subgraphs_per_device=self.subgraphs_per_device,
            pins=dict(self.pins),
            together=_groups(self.together),
        )

    def chosen_planner(self) -> Planner:
        """Raises InvalidProblem for a name or option that there is not."""
        return choose_planner(self.planner) if isinstance(self.planner, str) else self.planner

    def chosen_effort(self) -> Effort:
        """Raises InvalidProblem."""
        return choice(Effort, self.effort)


def _libraries(times: Sequence[Library | str] | Library | str) -> tuple[Library, ...]:
    """Of files, and of what is saved under names, the libraries. Raises InvalidProblem."""
    each = (times,) if isinstance(times, Library | str) else times
    return tuple(load_library(found(one, TIMES)) if isinstance(one, str) else one for one in each)


def workload_of(model: Workload | OpGraph | str) -> Workload:
    """A graph as a workload that states nothing else; a model by its name, loaded. Raises InvalidProblem for anything
    that was not traced."""
    if isinstance(model, Workload):
        return model
    if isinstance(model, str):
        from explorer.question.loading import load

        return load(model)
    if not isinstance(model, OpGraph):
        raise InvalidProblem(
            f"expected what explorer.trace returns, found {type(model).__name__};"
            " trace it first: explorer.plan(explorer.trace(module, example_inputs), ...)"
        )
    training = any(operator.phase in BACKWARD_PHASES for operator in model.operators)
    return Workload(model, model.name, training=training)


def choice(kind: type[E], value: str) -> E:
    """A member by its text. Raises InvalidProblem that names them all."""
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(member.value for member in kind)
        raise InvalidProblem(f"no {kind.__name__.lower()} {value!r}; there are: {known}") from None


def _pairs(pins: object) -> list[tuple[object, object]]:
    if not isinstance(pins, Mapping):
        raise InvalidProblem(f"pins must be a mapping of operators or modules to devices, found {type(pins).__name__}")
    return list(pins.items())


def _groups(together: object) -> tuple[tuple[str, ...], ...]:
    """Names in lists, a list a group, or in one list, which is the one group. Raises InvalidProblem."""
    groups = (together,) if _are_names(together) and together else together
    if not isinstance(groups, list | tuple) or not all(map(_are_names, groups)):
        raise InvalidProblem(
            "together must be a list of operators or modules, or several such lists, as in"
            f" [['blocks.0', 'blocks.1']]; found {together!r}"
        )
    return tuple(tuple(group) for group in groups)


def _are_names(group: object) -> bool:
    return isinstance(group, list | tuple | set | frozenset) and all(isinstance(name, str) for name in group)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def _caps(memory: str | float | Sequence[str | float] | None) -> float | tuple[float, ...] | None:
    """One cap for all accelerators, or one for each."""
    if isinstance(memory, str):
        return parse_caps(memory)
    if memory is None or (not isinstance(memory, Sequence) and _is_number(memory)):
        return memory
    if not isinstance(memory, list | tuple) or not all(isinstance(size, str) or _is_number(size) for size in memory):
        raise InvalidProblem(f"memory must be bytes, a text such as '16GiB', or one for each device, found {memory!r}")
    return tuple(parse_bytes(size) if isinstance(size, str) else size for size in memory)


def _kinds(device_kind: str | Sequence[str] | None) -> str | tuple[str, ...] | None:
    """One kind for all accelerators, or one for each."""
    if device_kind is None or isinstance(device_kind, str):
        return None if device_kind is None else parse_kinds(device_kind)
    if not isinstance(device_kind, list | tuple) or not all(isinstance(kind, str) for kind in device_kind):
        raise InvalidProblem(f"device_kind must be a name, or one for each device, found {device_kind!r}")
    return tuple(device_kind)


def _number(what: str, value: str | float | None, parse: Callable[[str], float]) -> float | None:
    if isinstance(value, str):
        return parse(value)
    if value is not None and not _is_number(value):
        raise InvalidProblem(f"{what} must be a number, or a text with a unit, found {value!r}")
    return value
