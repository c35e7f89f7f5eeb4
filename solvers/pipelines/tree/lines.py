"""A series-parallel tree with costs: the sums that a program over it reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from solvers.coarsening.traffic import Rows
from solvers.kernels.arrays import Floats, Ints
from solvers.pipelines.costs import SizeCosts
from solvers.pipelines.tree.series_parallel import Parallel, Series, Tree, leaves
from solvers.pipelines.tree.stage_dp_kernel import Group, Line, Sums


@dataclass(frozen=True, slots=True, eq=False)
class Branching:
    """Branches with their sums, alike ones next to each other; equal ones have the same signature."""

    lines: tuple[SeriesLine, ...]
    group: Group
    signature: bytes


@dataclass(frozen=True, slots=True, eq=False)
class SeriesLine:
    """A series with its sums. items: the nodes of each; inner: its branchings in order."""

    items: tuple[tuple[int, ...], ...]
    line: Line
    inner: tuple[Branching, ...]
    signature: bytes

    @property
    def seconds(self) -> float:
        """Forward and backward of a micro-batch on one device."""
        return float(self.line.sums.forward_s[0, -1] + self.line.sums.backward_s[0, -1])


@dataclass(frozen=True, slots=True, eq=False)
class LineBuilder:
    """Makes the lines of one micro-batch size. check is called between series."""

    costs: SizeCosts
    check: Callable[[], None]
    _where: Ints = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_where", np.empty(self.costs.static_bytes.shape[1], np.int64))

    def build(self, tree: Tree) -> SeriesLine:
        self.check()
        parts = tree.parts if isinstance(tree, Series) else (tree,)
        items = tuple(tuple(leaves(part)) for part in parts)
        inner = tuple(self._branching(part) for part in parts if isinstance(part, Parallel))
        number = iter(range(len(inner)))
        branches = np.array([next(number) if isinstance(part, Parallel) else -1 for part in parts], np.int64)
        costs = self.costs
        forward, backward, forward_bytes = self._cuts(items)
        levels = costs.levels
        shape = *levels.again_s.shape[:2], len(items) + 1
        sums = Sums(
            _sums(costs.forward_s, items),
            _sums(costs.backward_s, items),
            _sums(costs.saved_bytes, items),
            _sums(costs.static_bytes, items),
            _sums(costs.param_bytes[None], items)[0],
            _largest(costs.workspace_bytes, items),
            np.array([_sums(level, items) for level in levels.again_s]).reshape(shape),
            np.array([_sums(level, items) for level in levels.saved_bytes]).reshape(shape),
            np.array([_largest(level, items) for level in levels.workspace_bytes]).reshape(*shape[:2], len(items)),
        )
        arrays = (*sums, forward, backward, forward_bytes, branches)
        signature = b"".join(
            [*(np.ascontiguousarray(part).tobytes() for part in arrays), *(b.signature for b in inner)]
        )
        line = Line(sums, forward, backward, forward_bytes, branches)
        return SeriesLine(items, line, inner, signature)

    def _branching(self, tree: Parallel) -> Branching:
        lines = [self.build(part) for part in tree.parts]
        lines.sort(key=lambda line: (-line.seconds, line.signature))
        whole, each = [line.line for line in lines], [line.line.sums for line in lines]

        def along(values: list[Floats]) -> Floats:
            stacked = np.stack(values, axis=-1)
            return np.concatenate([np.zeros((*stacked.shape[:-1], 1)), np.cumsum(stacked, axis=-1)], axis=-1)

        sums = Sums(
            along([one.forward_s[:, -1] for one in each]),
            along([one.backward_s[:, -1] for one in each]),
            along([one.saved_bytes[:, -1] for one in each]),
            along([one.static_bytes[:, -1] for one in each]),
            along([one.param_bytes[-1] for one in each]),
            np.stack([one.workspace_bytes.max(axis=1) for one in each], axis=-1),
            along([one.again_s[..., -1] for one in each]),
            along([one.lean_bytes[..., -1] for one in each]),
            np.stack([one.lean_workspace_bytes.max(axis=-1) for one in each], axis=-1),
        )
        group = Group(
            sums,
            along([one.cut_forward_s[:, 0] + one.cut_backward_s[:, 0] for one in whole]),
            along([one.cut_forward_s[:, -1] + one.cut_backward_s[:, -1] for one in whole]),
            along([one.cut_bytes[:, 0] for one in whole]),
        )
        return Branching(tuple(lines), group, b"P" + b"".join(line.signature for line in lines))

    def _cuts(self, items: tuple[tuple[int, ...], ...]) -> tuple[Floats, Floats, Floats]:
        """Seconds forward and backward, and bytes forward, that cross before each item: [degrees, items + 1].

        A message made before the series is read from its start, one read after it is made until its end.
        """
        costs, traffic, count = self.costs, self.costs.traffic, len(items)
        where = self._where
        where[:] = -1
        for position, item in enumerate(items):
            where[list(item)] = position
        if not len(traffic):
            nothing = np.zeros((len(costs.degrees), count + 1))
            return nothing, nothing, nothing
        first_maker, last_maker, makers_here = _span(traffic.makers, where)
        first_reader, last_reader, readers_here = _span(traffic.readers, where)
        reads_elsewhere = readers_here < np.diff(traffic.readers.start)
        made_here = makers_here > 0
        ahead, behind = ~traffic.backward, traffic.backward
        low = np.where(ahead, np.where(made_here, first_maker, -1), first_reader)
        low = np.where(behind & made_here & reads_elsewhere, -1, low)
        high = np.where(behind, np.where(made_here, last_maker, count), last_reader)
        high = np.where(ahead & made_here & reads_elsewhere, count, high)
        here = made_here | (readers_here > 0)

        def across(values: Floats, chosen: NDArray[np.bool_]) -> Floats:
            step = np.zeros((len(values), count + 2))
            picked = np.flatnonzero(chosen & here & (high > low))
            for row, value in zip(step, values, strict=True):
                np.add.at(row, low[picked] + 1, value[picked])
                np.add.at(row, high[picked] + 1, -value[picked])
            return np.maximum(np.cumsum(step, axis=1)[:, : count + 1], 0.0)

        return across(costs.message_s, ahead), across(costs.message_s, behind), across(costs.message_bytes, ahead)


def _span(rows: Rows, where: Ints) -> tuple[Ints, Ints, Ints]:
    """First and last position of each row's nodes that are inside, and how many are, [rows]."""
    at = where[rows.items]
    inside = at >= 0
    begins = rows.start[:-1]
    first = np.minimum.reduceat(np.where(inside, at, np.iinfo(np.int64).max), begins)
    last = np.maximum.reduceat(at, begins)
    return first, last, np.add.reduceat(inside.astype(np.int64), begins)


def _largest(values: Floats, items: tuple[tuple[int, ...], ...]) -> Floats:
    """The largest of each item, [rows, items]."""
    return np.array([[row[list(item)].max() for item in items] for row in values])


def _sums(values: Floats, items: tuple[tuple[int, ...], ...]) -> Floats:
    """Sums over the first i items, [rows, items + 1]."""
    each = np.array([[row[list(item)].sum() for item in items] for row in values]).reshape(len(values), len(items))
    return np.concatenate([np.zeros((len(values), 1)), np.cumsum(each, axis=1)], axis=1)
