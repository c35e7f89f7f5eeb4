"""How the Gantt chart's bars and backgrounds are painted. Kinds differ by hatch, not by hue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from explorer.view.graph.palette import SURFACES, Theme, mix, swatch
from explorer.view.timeline.gantt_rows import Row
from explorer.words.actions import REPEATED

BAR, LINK_BAR, LINK_OFFSET = 0.6, 0.085, 0.40
HATCHES = {"B": "/", "I": "-", "W": "\\", "R": "x", "U": "."}
"""Plotly pattern of a kind; forwards are plain (devices from the ninth on have a pattern of their own)."""


def marker(
    device: int, kind: str, theme: Theme, edge_width: float | list[float], of_sender: bool = False
) -> dict[str, Any]:
    """The marker of all bars of a kind on a device. of_sender: whether transfers are in its colour, where
    nothing else tells who sends."""
    paint, surface = swatch(device, theme), SURFACES[theme]
    if kind == "T":
        return {"color": paint.fill if of_sender else surface.quiet, "line": {"width": 0}}
    edge = {"width": edge_width, "color": surface.background}
    if kind == "F":
        found: dict[str, Any] = {"color": paint.fill, "line": edge}
        if paint.pattern:
            found["pattern"] = _pattern(paint.pattern, paint.fill, paint.text, 0.35)
        return found
    if kind == REPEATED:
        return {"color": paint.soft, "line": {"width": 1, "color": paint.fill}}
    return {"color": paint.soft, "line": edge, "pattern": _pattern(HATCHES[kind], paint.soft, paint.fill, 0.9)}


def text_colour(device: int, kind: str, theme: Theme) -> str:
    """A colour that can be read on a bar."""
    paint = swatch(device, theme)
    return paint.text if kind == "F" else paint.soft_text


def tint(phase: int, theme: Theme) -> str:
    """The quiet background of a phase (0 warm-up, 1 steady, 2 drain)."""
    surface = SURFACES[theme]
    if phase == 1:
        return surface.lane
    share = 0.16 if theme == "light" else 0.22 if phase == 0 else 0.17
    return mix(surface.accent if phase == 0 else surface.warm, surface.background, share)


def backgrounds(
    rows: Sequence[Row], middles: Sequence[float], span: float, scale: float, theme: Theme
) -> list[dict[str, Any]]:
    """Shapes below the bars, one a tone: the lanes, and the phases as bands that meet those of the next
    row, so that a pipeline's filling and emptying is a staircase. span: in units of ``scale`` seconds."""
    lanes = [(0.0, span, i, BAR / 2 * row.height) for i, row in zip(middles, rows, strict=True) if row.phases is None]
    bands: dict[int, list[tuple[float, float, float, float]]] = {0: [], 2: []}
    steady = []
    for i, row in zip(middles, rows, strict=True):
        if row.phases is None:
            continue
        warm, drain = row.phases[0] / scale, row.phases[1] / scale
        bands[0].append((0.0, warm, i, 0.5))
        bands[2].append((drain, span, i, 0.5))
        steady.append((warm, drain, i, 0.5))
    drawn = [_path(lanes + steady, tint(1, theme))] if lanes or steady else []
    return drawn + [_path(cells, tint(phase, theme)) for phase, cells in bands.items() if cells]


def _path(cells: Sequence[tuple[float, float, float, float]], colour: str) -> dict[str, Any]:
    """Rectangles (from, to, row, half its height) as one shape."""
    parts = [
        f"M{a:.6g},{row - half:.6g}L{b:.6g},{row - half:.6g}L{b:.6g},{row + half:.6g}L{a:.6g},{row + half:.6g}Z"
        for a, b, row, half in cells
        if b > a
    ]
    return {"type": "path", "layer": "below", "path": "".join(parts) or "M0,0Z", "fillcolor": colour,
            "line": {"width": 0}}  # fmt: skip


def _pattern(shape: str, under: str, over: str, opacity: float) -> dict[str, Any]:
    return {"shape": shape, "bgcolor": under, "fgcolor": over, "fgopacity": opacity, "size": 6, "solidity": 0.22}
