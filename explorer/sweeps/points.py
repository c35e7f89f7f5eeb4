"""The points of a sweep: what is changed of the settings, and in which order they are asked."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import product

from explorer.question.settings import Settings
from explorer.words import text
from solvers.errors import InvalidProblem

MAX_POINTS = 1000
"""Each is a search of its own."""


@dataclass(frozen=True, slots=True)
class Point:
    """What a point sets; None leaves the settings as they are. devices: accelerators; memory_bytes: the cap of all of
    them; bandwidth_bytes_per_s: of every link (inside a host, where there are several)."""

    devices: int | None = None
    micro_batches: int | None = None
    bandwidth_bytes_per_s: float | None = None
    memory_bytes: float | None = None

    def settings(self, base: Settings) -> Settings:
        """The settings of this point."""
        return replace(base, **{axis: value for axis in AXES if (value := getattr(self, axis)) is not None})

    def apart(self, other: Point) -> int:
        """In how many of its values another point differs."""
        return sum(getattr(self, axis) != getattr(other, axis) for axis in AXES)

    def words(self) -> str:
        """ "4 devices, 16 GiB"."""
        return ", ".join(told for axis in AXES if (told := self.cell(axis, brief=False)))

    def cell(self, axis: str, brief: bool = True) -> str:
        """One value in words; "" if it is not set. brief: for a column that says what it is of."""
        value = getattr(self, axis)
        if value is None:
            return ""
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


def points(axes: Axes, *, one_at_a_time: bool = False) -> tuple[Point, ...]:
    """Every combination of the values; or, one at a time, the first value of every axis together, and then each other
    value of one axis with the first of all others. Each point once.

    Raises InvalidProblem if nothing is swept, or for more than MAX_POINTS.
    """
    values = [tuple(dict.fromkeys(getattr(axes, axis))) for axis in AXES]
    if not any(values):
        raise InvalidProblem(
            "nothing is swept: give values of devices, memory, micro-batches or bandwidth, with commas"
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
