"""The points of a sweep: what is changed of the settings, in which order, and which values are worth asking."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from itertools import product

from explorer.costs.regions import Recompute
from explorer.question.settings import Settings
from explorer.question.written.kinds import Choice
from explorer.words import text
from solvers.errors import InvalidProblem
from solvers.problem.problem import Objective, Pipeline, Problem

MAX_POINTS = 1000
"""Each is a search of its own."""
MIB = 2**20
SWEPT = ("devices", "memory_bytes", "micro_batches", "bandwidth_bytes_per_s")
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
SHARES = (1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1.0)
"""Of a device's own memory."""
FACTORS = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8)
MICRO_BATCHES = (1, 2, 4, 8, 16, 32, 64)
MOST_DEVICES = 16


@dataclass(frozen=True, slots=True)
class Point:
    """What a point sets; None leaves the settings as they are. devices: accelerators; memory_bytes: the cap of all of
    them; bandwidth_bytes_per_s: of every link (inside a host, where there are several); pipeline: the order of
    micro-batches; recompute: what runs again."""

    devices: int | None = None
    micro_batches: int | None = None
    bandwidth_bytes_per_s: float | None = None
    memory_bytes: float | None = None
    pipeline: Pipeline | None = None
    recompute: Recompute | None = None

    def settings(self, base: Settings) -> Settings:
        """The settings of this point."""
        return replace(base, **{axis: value for axis in AXES if (value := getattr(self, axis)) is not None})

    def distance(self, other: Point) -> int:
        """In how many of its values another point differs; the plan of another pipeline is of least use."""
        differ = [axis for axis in AXES if getattr(self, axis) != getattr(other, axis)]
        return len(differ) + ("pipeline" in differ)

    def words(self) -> str:
        """ "4 devices, 16 GiB"."""
        return ", ".join(value for axis in AXES if (value := self.cell(axis, brief=False)))

    def cell(self, axis: str, brief: bool = True) -> str:
        """One value in words; "" if it is not set. brief: for a column that says what it is of."""
        value = getattr(self, axis)
        if value is None:
            return ""
        if axis in ("pipeline", "recompute"):
            return str(value) if brief or axis == "pipeline" else f"recompute {value}"
        if axis == "devices":
            return text.count(value) if brief else text.plural(value, "device")
        if axis == "micro_batches":
            return text.count(value) if brief else f"{value:,} micro-batch" + ("" if value == 1 else "es")
        return text.nbytes(value) if axis == "memory_bytes" else f"{text.digits(value / 1e9)} GB/s"


AXES = tuple(field.name for field in fields(Point))
"""The names of what may be swept; the last one changes first."""


@dataclass(frozen=True, slots=True)
class Axes:
    """The values of each axis, in the order in which they are asked; () leaves the settings as they are."""

    devices: tuple[int, ...] = ()
    micro_batches: tuple[int, ...] = ()
    bandwidth_bytes_per_s: tuple[float, ...] = ()
    memory_bytes: tuple[float, ...] = ()
    pipeline: tuple[Pipeline, ...] = ()
    recompute: tuple[Recompute, ...] = ()


def pipeline(given: str) -> Pipeline:
    """Raises InvalidProblem for a name that there is not."""
    return Pipeline(str(Choice(Pipeline).read("pipeline", given)))


def recompute(given: str) -> Recompute:
    """Raises InvalidProblem for a name that there is not."""
    return Recompute(str(Choice(Recompute).read("recompute", given)))


def points(axes: Axes, *, one_at_a_time: bool = False) -> tuple[Point, ...]:
    """Every combination of the values; or, one at a time, the first value of every axis together, and then each other
    value of one axis with the first of all others. Each point once.

    Raises InvalidProblem if nothing is swept, or for more than MAX_POINTS.
    """
    values = [tuple(dict.fromkeys(getattr(axes, axis))) for axis in AXES]
    if not any(values):
        raise InvalidProblem(
            "nothing is swept: give values of devices, memory, micro-batches, bandwidth, pipelines or recompute, with"
            " commas"
        )
    choices = [given or (None,) for given in values]
    count = 1
    for given in choices:
        count *= len(given)
    if one_at_a_time:
        count = 1 + sum(len(given) - 1 for given in choices)
    check_count(count)
    if not one_at_a_time:
        return tuple(Point(*combination) for combination in product(*choices))
    first = Point(*(given[0] for given in choices))
    others = (replace(first, **{axis: v}) for axis, given in zip(AXES, choices, strict=True) for v in given[1:])
    return (first, *others)


def check_count(count: int) -> None:
    """Raises InvalidProblem for more questions than a sweep has."""
    if count > MAX_POINTS:
        raise InvalidProblem(f"a sweep has at most {MAX_POINTS:,} points, found {count:,}; give fewer values")


def worth_asking(axis: str, problem: Problem, settings: Settings, own_memory_bytes: float | None) -> Axes:
    """The values of one of SWEPT, the one that is asked now among them where it fits, ascending. own_memory_bytes: what
    a device really has, None if that is not known. Raises InvalidProblem where the axis means nothing here."""
    devices = len(problem.cluster.accelerators)
    own = settings.cluster is not None or settings.profile is not None
    if axis == "devices" and not own and not isinstance(settings.device_kind, tuple):
        most = min(MOST_DEVICES, max(4, 2 * devices))
        return Axes(devices=tuple(sorted({count for count in COUNTS if count <= most} | {devices})))
    if axis == "memory_bytes":
        top = own_memory_bytes or max(problem.cluster.devices[i].memory_bytes for i in problem.cluster.accelerators)
        if math.isfinite(top):
            return Axes(memory_bytes=tuple(math.ceil(top * share / MIB) * MIB for share in SHARES))
    if axis == "micro_batches" and problem.objective is not Objective.MAKESPAN:
        counts = {count for count in MICRO_BATCHES if problem.mini_batch % count == 0}
        return Axes(micro_batches=tuple(sorted(counts | ({problem.micro_batches} if problem.micro_batches else set()))))
    speed = max((link.bandwidth_bytes_per_s for link in problem.cluster.speeds), default=math.inf)
    if axis == "bandwidth_bytes_per_s" and not own and math.isfinite(speed) and settings.devices_per_node is None:
        return Axes(bandwidth_bytes_per_s=tuple(speed * factor for factor in FACTORS))
    raise InvalidProblem("this cannot be swept here: the question's cluster or objective settles it")
