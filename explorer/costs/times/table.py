"""Compute times of any traced graph from libraries of operator times, and where each of them is from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.costs.measured import UPDATED_AS
from explorer.costs.roofline import SAMPLES, dtype_of, estimate
from explorer.costs.roofline import label as roofline_label
from explorer.costs.stack import Stack
from explorer.costs.times.calls import Call, Class, Size, classes, sizes
from explorer.costs.times.interpolation import curve
from explorer.costs.times.library import Library
from solvers.errors import InvalidProblem
from solvers.kernels.arrays import Floats
from solvers.problem.graph import OpGraph
from solvers.problem.problem import ComputeTable, Optimizer, Origin, Origins, Precision


def by_kind(libraries: Sequence[Library], kinds: Sequence[str]) -> dict[str, Library]:
    """The library of each device kind. Raises InvalidProblem where two are of one, or one is of none of ``kinds``."""
    library_of: dict[str, Library] = {}
    for library in libraries:
        if library.kind in library_of:
            raise InvalidProblem(
                f"two files hold operator times of {library.kind}: of {library_of[library.kind].hardware[:80]!r} and of"
                f" {library.hardware[:80]!r}; give one"
            )
        if library.kind not in kinds:
            raise InvalidProblem(
                f"the operator times are of {library.hardware[:80]!r} ({library.kind}), and the devices are"
                f" {', '.join(kinds)}; ask for --device-kind {library.kind}, or leave the file out"
            )
        library_of[library.kind] = library
    return library_of


def table(
    graph: OpGraph,
    kinds: Sequence[str],
    libraries: Sequence[Library],
    optimizer: Optimizer,
    dtype: str | None = None,
    precision: Precision = Precision.PURE,
    stack: Stack = Stack.TRACED,
    *,
    accumulates: bool = True,
) -> tuple[ComputeTable, str]:
    """(seconds of every operator at 1 to 1024 samples on each of ``kinds`` with their origins, a label for people).

    A call that a library has is as measured; one of a class that it has is interpolated, or estimated by the same curve
    where it is far smaller or larger; any other, and any on a kind without a library, is as `roofline.estimate` has it,
    in ``dtype`` and run by ``stack``. Raises InvalidProblem as `by_kind` does, or for a library that says nothing of
    the graph or its dtype.
    """
    libraries_of = by_kind(libraries, kinds)
    usual = estimate(graph, kinds, dtype, optimizer, precision, stack, accumulates=accumulates)
    seconds, origins, labels = dict(usual.seconds), {}, []
    for kind, library in libraries_of.items():
        seconds[kind], origins[kind] = _timed(graph, library, optimizer, usual.seconds[kind])
        if dtype_of(graph) not in library.dtypes or (origins[kind] == Origin.ESTIMATED).all():
            _refuse(graph, library)
        labels.append(library.label())
    for kind in kinds:
        origins.setdefault(kind, np.full_like(usual.seconds[kind], Origin.ESTIMATED, dtype=np.uint8))
    rest = roofline_label(kinds, dtype or dtype_of(graph), stack)
    return ComputeTable(SAMPLES, seconds, origins), f"{'; '.join(labels)}; else {rest}"


def _timed(graph: OpGraph, library: Library, optimizer: Optimizer, usual: Floats) -> tuple[Floats, Origins]:
    """(seconds, origins), [operators, points]; usual: what is taken for classes that the library does not have."""
    seconds, origins = usual.copy(), np.full(usual.shape, Origin.ESTIMATED, dtype=np.uint8)
    known: dict[Call, float] = {time.call: time.seconds for time in library.times}
    measured: dict[Class, list[tuple[Size, float]]] = {}
    for time in library.times:
        measured.setdefault(time.call.of, []).append((time.call.size, time.seconds))
    wanted: dict[Class, dict[Size, list[tuple[int, int]]]] = {}
    of_operators, sizes_of = classes(graph, UPDATED_AS[optimizer]), sizes(graph, SAMPLES)
    for operator, of in enumerate(of_operators):
        if of in measured:
            places = wanted.setdefault(of, {})
            for point, size in enumerate(sizes_of[operator]):
                places.setdefault(size, []).append((operator, point))
    for of, places in wanted.items():
        between, inside = curve(*zip(*measured[of], strict=True)).seconds(list(places))
        for (size, cells), value, near in zip(places.items(), between, inside, strict=True):
            exact = known.get(Call(of, size))
            origin = Origin.MEASURED if exact is not None else Origin.INTERPOLATED if near else Origin.ESTIMATED
            rows, points = zip(*cells, strict=True)
            seconds[rows, points] = value if exact is None else exact
            origins[rows, points] = origin
    return seconds, origins


def _refuse(graph: OpGraph, library: Library) -> None:
    raise InvalidProblem(
        f"the operator times of {library.hardware[:80]!r} say nothing of {graph.name}: they are of"
        f" {len(library.times):,} calls in {', '.join(library.dtypes[:5])}, and it is in {dtype_of(graph)};"
        " measure it, or another model of its dtype and phase, with `placement-explorer calibrate --write-times`"
    )
