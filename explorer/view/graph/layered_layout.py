"""A layered drawing of a directed graph: longest-path layers, barycentre order, wrapped columns.

Small on purpose (Sugiyama et al. 1981 without dummy nodes): thousands of nodes take tens of
milliseconds, where general layout programs took minutes on operator graphs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

NODE_WIDTH, NODE_HEIGHT = 124.0, 17.0
GAP_X, GAP_Y, COLUMN_GAP = 10.0, 4.0, 40.0
"""Flat boxes close together: thirty of them have names of 10 px in a quarter of a small screen."""
FONT_PX = 15.0
MARGIN_PX = 6.0
"""Kept free around a drawing that is fitted to its canvas."""
SWEEPS = 4
EXTENT_TIMES_ZOOM = 30_000.0
"""cytoscape.js 3.28 draws nothing when the drawing's extent times the zoom exceeds about this."""


@dataclass(frozen=True, slots=True)
class Layout:
    """positions: centre (x, y) of each node in pixels. routes: for the edges that go on in another
    column, the corners of their way through the gap, as (weights, distances): along the line from
    source to target (0 to 1), and to its side in pixels, as cytoscape's "segments" want them."""

    positions: tuple[tuple[float, float], ...]
    width: float
    height: float
    max_zoom: float
    routes: dict[int, tuple[list[float], list[float]]]


def label_px(layout: Layout, canvas: tuple[float, float]) -> float:
    """The size of a box's name once the drawing is fitted to a canvas of (width, height) pixels."""
    width, height = (max(1.0, side - 2 * MARGIN_PX) for side in canvas)
    return FONT_PX * min(width / max(layout.width, 1.0), height / max(layout.height, 1.0))


def layered_layout(count: int, edges: Sequence[tuple[int, int]], aspect: float = 0.85) -> Layout:
    """Lay out ``count`` nodes; ``aspect`` is width / height of the canvas to fill. Cycles are allowed."""
    if count == 0:
        return Layout((), 0.0, 0.0, 2.0, {})
    after, before = _acyclic(count, edges)
    layers = _ordered(_layers(count, after, before), after, before)
    layers, rows = _fitted(layers, aspect)
    positions: list[tuple[float, float]] = [(0.0, 0.0)] * count
    column_of = [0] * count
    left = 0.0
    lefts = []
    for number, start in enumerate(range(0, len(layers), rows)):
        part = layers[start : start + rows]
        width = max(map(len, part)) * (NODE_WIDTH + GAP_X) - GAP_X
        centres = _spread(part, before, width)
        for row, layer in enumerate(part):
            for node in layer:
                positions[node] = (left + centres[node], NODE_HEIGHT / 2 + row * (NODE_HEIGHT + GAP_Y))
                column_of[node] = number
        lefts.append(left)
        left += width + COLUMN_GAP
    width = left - COLUMN_GAP
    height = min(rows, len(layers)) * (NODE_HEIGHT + GAP_Y) - GAP_Y
    routes: dict[int, tuple[list[float], list[float]]] = {}
    for i, (a, b) in enumerate(edges):
        if column_of[a] != column_of[b]:
            gap = lefts[max(column_of[a], column_of[b])] - COLUMN_GAP / 2 + (len(routes) % 5 - 2) * 4
            routes[i] = _route(positions[a], positions[b], gap)
    max_zoom = min(2.0, EXTENT_TIMES_ZOOM / max(width, height, 1.0))
    return Layout(tuple(positions), width, height, max_zoom, routes)


def _route(a: tuple[float, float], b: tuple[float, float], gap: float) -> tuple[list[float], list[float]]:
    """Out below ``a``, along the gap between columns, in above ``b``."""
    out, into = a[1] + (NODE_HEIGHT + GAP_Y) / 2, b[1] - (NODE_HEIGHT + GAP_Y) / 2
    corners = [(a[0], out), (gap, out), (gap, into), (b[0], into)]
    dx, dy = b[0] - a[0], b[1] - a[1]
    square = dx * dx + dy * dy
    weights = [((x - a[0]) * dx + (y - a[1]) * dy) / square for x, y in corners]
    distances = [((y - a[1]) * dx - (x - a[0]) * dy) / math.sqrt(square) for x, y in corners]
    return weights, distances


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


def _fitted(layers: list[list[int]], aspect: float) -> tuple[list[list[int]], int]:
    """The rows to draw, and how many go in a column, so that the drawing fills the canvas best.

    A layer is broken into several rows only where that makes the drawing a quarter larger.
    """
    best = layers
    rows, best_scale = _rows_per_column(layers, aspect)
    widest = max(map(len, layers))
    for limit in (12, 8, 6, 5, 4, 3):
        if limit >= widest:
            continue
        broken = [layer[i : i + limit] for layer in layers for i in range(0, len(layer), limit)]
        found, scale = _rows_per_column(broken, aspect)
        if scale > best_scale * 1.25:
            best, rows, best_scale = broken, found, scale
    return best, rows


def _rows_per_column(layers: list[list[int]], aspect: float) -> tuple[int, float]:
    """Rows a column for the largest drawing, and the scale it has when it fits the canvas."""
    best, best_scale = len(layers), 0.0
    for columns in range(1, min(len(layers), 40) + 1):
        rows = math.ceil(len(layers) / columns)
        widths = [max(map(len, layers[i : i + rows])) for i in range(0, len(layers), rows)]
        width = sum(w * (NODE_WIDTH + GAP_X) - GAP_X for w in widths) + COLUMN_GAP * (len(widths) - 1)
        height = rows * (NODE_HEIGHT + GAP_Y) - GAP_Y
        scale = min(aspect / width, 1.0 / height)
        if scale > best_scale * 1.02:
            best, best_scale = rows, scale
    return best, best_scale


def _spread(part: list[list[int]], before: list[list[int]], width: float) -> dict[int, float]:
    """x of each node: under its predecessors where there is room, in order, inside the column."""
    step = NODE_WIDTH + GAP_X
    centres: dict[int, float] = {}
    for layer in part:
        even = (width - (len(layer) * step - GAP_X)) / 2 + NODE_WIDTH / 2
        wanted = []
        for i, node in enumerate(layer):
            above = [centres[n] for n in before[node] if n in centres]
            wanted.append(sum(above) / len(above) if above else even + i * step)
        low = NODE_WIDTH / 2
        placed = []
        for x in wanted:
            placed.append(max(x, low))
            low = placed[-1] + step
        high = width - NODE_WIDTH / 2
        for i in range(len(layer) - 1, -1, -1):
            placed[i] = min(placed[i], high)
            high = placed[i] - step
        centres.update(zip(layer, placed, strict=True))
    return centres
