"""A layered drawing of a directed graph: longest-path layers, barycentre order, wrapped columns.

Small on purpose (Sugiyama et al. 1981 without dummy nodes): thousands of nodes take tens of
milliseconds, where general layout programs took minutes on operator graphs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

NODE_WIDTH, NARROW, NODE_HEIGHT = 124.0, 88.0, 17.0
"""A box is narrow where branches stand side by side, if names of wide ones could not be read."""
GAP_X, GAP_Y, COLUMN_GAP = 12.0, 6.0, 44.0
"""The least: thirty boxes have names of 9 px in a quarter of a small screen. Where there is room they are more."""
MOST_GAP_Y, MOST_COLUMN_GAP = 26.0, 150.0
FAN = 4
"""Boxes that read a constant, from which on its edges are aside: ``Layout.fans``."""
FAN_BEHIND = 6
"""The most boxes that a constant may be computed from, itself included."""
BRANCHING = 8
"""Boxes beside one another that are never broken into rows where they are branches."""
FONT_PX = 15.0
LEGIBLE_PX = 9.0
"""The least that a name can be read at."""
COMFORT_PX = 13.0
"""As large as a name needs to be."""
MOST_HEIGHT = 2000.0
BESIDE = 4
"""Rows of more than two branches, from which on narrow boxes are worth it."""
MARGIN_PX = 6.0
"""Empty margin around a drawing that is fitted to its canvas."""
SWEEPS = 4
EXTENT_TIMES_ZOOM = 30_000.0
"""cytoscape.js 3.28 draws nothing when the drawing's extent times the zoom exceeds about this."""


@dataclass(frozen=True, slots=True)
class Layout:
    """positions: centre (x, y) of each node in pixels. box_width: of a node. routes: for the edges that go on in
    another column or pass a row, the corners of their way around boxes, as (weights, distances): along the line from
    source to target (0 to 1), and to its side in pixels, as cytoscape's "segments" want them. bowed: those of them that
    stay in their column. fans: edges of a constant that many boxes read, but for the one to the first of them."""

    positions: tuple[tuple[float, float], ...]
    width: float
    height: float
    max_zoom: float
    routes: dict[int, tuple[list[float], list[float]]]
    box_width: float = NODE_WIDTH
    bowed: frozenset[int] = frozenset()
    fans: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Grid:
    """layers: the nodes of each row, from left to right; rows: how many rows a column has; wide: a box; scale: of the
    drawing when it fits a canvas of height 1."""

    layers: list[list[int]]
    rows: int
    wide: float
    scale: float

    def columns(self) -> list[list[list[int]]]:
        return [self.layers[start : start + self.rows] for start in range(0, len(self.layers), self.rows)]

    def widths(self) -> list[float]:
        return [max(map(len, part)) * (self.wide + GAP_X) - GAP_X for part in self.columns()]


def label_px(layout: Layout, canvas: tuple[float, float]) -> float:
    """The size of a box's name once the drawing is fitted to a canvas of (width, height) pixels."""
    width, height = (max(1.0, side - 2 * MARGIN_PX) for side in canvas)
    return FONT_PX * min(width / max(layout.width, 1.0), height / max(layout.height, 1.0))


def layered_layout(
    count: int, edges: Sequence[tuple[int, int]], aspect: float = 0.85, height: float = MOST_HEIGHT
) -> Layout:
    """Lay out ``count`` nodes. aspect: width / height of the canvas to fill; height: of it, in pixels. Cycles are
    allowed."""
    if count == 0:
        return Layout((), 0.0, 0.0, 2.0, {})
    after, before = _acyclic(count, edges)
    layers = _layers(count, after, before)
    fans = _fans(edges, after, before, layers)
    if fans:
        after, before = _acyclic(count, [edge for i, edge in enumerate(edges) if i not in fans])
    grid = _fitted(_ordered(layers, after, before), after, before, aspect, height)
    gap_y, column_gap = _gaps(grid, aspect, height)
    positions: list[tuple[float, float]] = [(0.0, 0.0)] * count
    row_of = [(0, 0)] * count
    left = 0.0
    lefts = []
    for number, (part, width) in enumerate(zip(grid.columns(), grid.widths(), strict=True)):
        centres = _spread(part, before, width, grid.wide)
        for row, layer in enumerate(part):
            for node in layer:
                positions[node] = (left + centres[node], NODE_HEIGHT / 2 + row * (NODE_HEIGHT + gap_y))
                row_of[node] = (number, row)
        lefts.append(left)
        left += width + column_gap
    width = left - column_gap
    height = min(grid.rows, len(grid.layers)) * (NODE_HEIGHT + gap_y) - gap_y
    routes: dict[int, tuple[list[float], list[float]]] = {}
    bowed = set()
    turned = 0
    for i, (a, b) in enumerate(edges):
        if i in fans:
            continue
        (column, row), (other, below) = row_of[a], row_of[b]
        if column != other:
            middle = lefts[max(column, other)] - column_gap / 2 + (turned % 5 - 2) * min(5.0, column_gap / 12)
            routes[i] = _route(positions[a], positions[b], middle, gap_y / 2)
            turned += 1
        elif below - row > 1 and abs(positions[a][0] - positions[b][0]) < grid.wide:
            side = min(positions[a][0], positions[b][0]) - grid.wide / 2 - GAP_X * (0.35 + 0.3 * (row % 3))
            routes[i] = _route(positions[a], positions[b], side, gap_y / 2)
            bowed.add(i)
    max_zoom = min(2.0, EXTENT_TIMES_ZOOM / max(width, height, 1.0))
    return Layout(tuple(positions), width, height, max_zoom, routes, grid.wide, frozenset(bowed), fans)


def _gaps(grid: Grid, aspect: float, height: float) -> tuple[float, float]:
    """Between rows and between columns: what is left of the canvas where names are as large as they need to be makes
    arrows longer."""
    scale = min(grid.scale, COMFORT_PX / FONT_PX / height)
    rows, widths = min(grid.rows, len(grid.layers)), grid.widths()
    width = sum(widths) + COLUMN_GAP * (len(widths) - 1)
    spare_y = 1.0 / scale - (rows * (NODE_HEIGHT + GAP_Y) - GAP_Y)
    spare_x = aspect / scale - width
    gap_y = min(MOST_GAP_Y, GAP_Y + max(0.0, spare_y) / max(1, rows - 1))
    return gap_y, min(MOST_COLUMN_GAP, COLUMN_GAP + max(0.0, spare_x) / max(1, len(widths) - 1))


def _route(a: tuple[float, float], b: tuple[float, float], side: float, half: float) -> tuple[list[float], list[float]]:
    """Out below ``a``, along ``side`` and in above ``b``; half: of the gap between rows."""
    out, into = a[1] + NODE_HEIGHT / 2 + half, b[1] - NODE_HEIGHT / 2 - half
    corners = [(a[0], out), (side, out), (side, into), (b[0], into)]
    dx, dy = b[0] - a[0], b[1] - a[1]
    square = dx * dx + dy * dy
    weights = [((x - a[0]) * dx + (y - a[1]) * dy) / square for x, y in corners]
    distances = [((y - a[1]) * dx - (x - a[0]) * dy) / math.sqrt(square) for x, y in corners]
    return weights, distances


def _fans(
    edges: Sequence[tuple[int, int]], after: list[list[int]], before: list[list[int]], layers: list[list[int]]
) -> frozenset[int]:
    """The edges of constants that boxes of many layers read, such as rotary tables and masks: all but those to the
    first of these layers."""
    layer_of = {node: number for number, layer in enumerate(layers) for node in layer}
    near: dict[int, int] = {}
    for node, targets in enumerate(after):
        if len({layer_of[target] for target in targets}) < FAN:
            continue
        behind, todo = {node}, [node]
        while todo and len(behind) <= FAN_BEHIND:
            new = [source for source in before[todo.pop()] if source not in behind]
            behind.update(new)
            todo += new
        if len(behind) <= FAN_BEHIND:
            near[node] = min(layer_of[target] for target in targets)
    return frozenset(i for i, (a, b) in enumerate(edges) if a in near and layer_of[b] > near[a])


def _acyclic(count: int, edges: Sequence[tuple[int, int]]) -> tuple[list[list[int]], list[list[int]]]:
    """Successors and predecessors without the edges that close a cycle (by depth-first search)."""
    raw: list[list[int]] = [[] for _ in range(count)]
    entered = [0] * count
    for a, b in edges:
        if a != b:
            raw[a].append(b)
            entered[b] += 1
    after: list[list[int]] = [[] for _ in range(count)]
    before: list[list[int]] = [[] for _ in range(count)]
    state = bytearray(count)
    for root in sorted(range(count), key=lambda node: entered[node] > 0):
        if state[root]:
            continue
        state[root] = 1
        stack = [(root, iter(raw[root]))]
        while stack:
            node, targets = stack[-1]
            for target in targets:
                if state[target] == 1:
                    continue
                after[node].append(target)
                before[target].append(node)
                if state[target] == 0:
                    state[target] = 1
                    stack.append((target, iter(raw[target])))
                    break
            else:
                state[node] = 2
                stack.pop()
    return after, before


def _layers(count: int, after: list[list[int]], before: list[list[int]]) -> list[list[int]]:
    """Layer of a node = the longest path to it; sources move down next to their first consumer."""
    waiting = [len(b) for b in before]
    depth = [0] * count
    order = [node for node in range(count) if waiting[node] == 0]
    for node in order:
        for target in after[node]:
            depth[target] = max(depth[target], depth[node] + 1)
            waiting[target] -= 1
            if waiting[target] == 0:
                order.append(target)
    for node in range(count):
        if not before[node] and after[node]:
            depth[node] = min(depth[target] for target in after[node]) - 1
    layers: list[list[int]] = [[] for _ in range(max(depth) + 1)]
    for node in range(count):
        layers[depth[node]].append(node)
    return [layer for layer in layers if layer]


def _ordered(layers: list[list[int]], after: list[list[int]], before: list[list[int]]) -> list[list[int]]:
    """Order inside layers by the mean place of the neighbours, swept down and up."""
    place: dict[int, float] = {}
    for layer in layers:
        _number(layer, place)
    for sweep in range(SWEEPS):
        near = before if sweep % 2 == 0 else after
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            if len(layer) < 2:
                continue
            key = {
                node: (sum(place[n] for n in near[node]) / len(near[node]) if near[node] else place[node])
                for node in layer
            }
            layer.sort(key=key.__getitem__)
            _number(layer, place)
    return layers


def _number(layer: list[int], place: dict[int, float]) -> None:
    middle = (len(layer) - 1) / 2
    for i, node in enumerate(layer):
        place[node] = i - middle


def _fitted(
    layers: list[list[int]], after: list[list[int]], before: list[list[int]], aspect: float, height: float
) -> Grid:
    """The rows to draw, how many go in a column and how wide a box is, so that the drawing fills the canvas best.

    A layer is broken into several rows, or boxes are narrow, only where that makes the drawing much larger; branches
    side by side stay so.
    """
    best = _rows_per_column(layers, NODE_WIDTH, aspect)
    widest = max(map(len, layers))
    together = [_branching(layer, after, before) for layer in layers]
    for limit in (12, 8, 6, 5, 4, 3):
        if limit >= widest:
            continue
        broken = []
        for layer, branches in zip(layers, together, strict=True):
            most = max(limit, BRANCHING) if branches else limit
            broken += [layer[i : i + most] for i in range(0, len(layer), most)]
        rows = _rows_per_column(broken, NODE_WIDTH, aspect)
        if rows.scale > best.scale * 1.25:
            best = rows
    beside = sum(branches and len(layer) > 2 for layer, branches in zip(layers, together, strict=True))
    if beside >= BESIDE and FONT_PX * best.scale * height < LEGIBLE_PX:
        rows = _rows_per_column(best.layers, NARROW, aspect)
        if rows.scale > best.scale * 1.15:
            best = rows
    return best


def _branching(layer: list[int], after: list[list[int]], before: list[list[int]]) -> bool:
    """Whether several of a layer's boxes are links of chains of their own."""
    links = [
        node
        for node in layer
        if any(len(before[target]) == 1 and len(after[node]) == 1 for target in after[node])
        or any(len(after[source]) == 1 and len(before[node]) == 1 for source in before[node])
    ]
    return len(links) > 1


def _rows_per_column(layers: list[list[int]], wide: float, aspect: float) -> Grid:
    """Rows a column for the largest drawing."""
    best = Grid(layers, len(layers), wide, 0.0)
    for columns in range(1, min(len(layers), 40) + 1):
        rows = math.ceil(len(layers) / columns)
        tried = Grid(layers, rows, wide, 0.0)
        widths = tried.widths()
        width = sum(widths) + COLUMN_GAP * (len(widths) - 1)
        scale = min(aspect / width, 1.0 / (rows * (NODE_HEIGHT + GAP_Y) - GAP_Y))
        if scale > best.scale * 1.02:
            best = Grid(layers, rows, wide, scale)
    return best


def _spread(part: list[list[int]], before: list[list[int]], width: float, wide: float) -> dict[int, float]:
    """x of each node: under its predecessors where there is room, in order, inside the column."""
    step = wide + GAP_X
    centres: dict[int, float] = {}
    for layer in part:
        even = (width - (len(layer) * step - GAP_X)) / 2 + wide / 2
        wanted = []
        for i, node in enumerate(layer):
            above = [centres[n] for n in before[node] if n in centres]
            wanted.append(sum(above) / len(above) if above else even + i * step)
        low = wide / 2
        placed = []
        for x in wanted:
            placed.append(max(x, low))
            low = placed[-1] + step
        high = width - wide / 2
        for i in range(len(layer) - 1, -1, -1):
            placed[i] = min(placed[i], high)
            high = placed[i] - step
        centres.update(zip(layer, placed, strict=True))
    return centres
