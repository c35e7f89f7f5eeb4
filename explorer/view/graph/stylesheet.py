"""The graph's look in each theme. A plan only changes classes: d0..d63, mixed, cut, pinned, selected."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from explorer.view.graph import errors
from explorer.view.graph.layered_layout import FONT_PX, GAP_Y, NODE_HEIGHT
from explorer.view.graph.palette import DEVICES, SURFACES, Theme, mix, swatch

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9">'
TEXTURED = {
    "background-repeat": "repeat",
    "background-fit": "none",
    "background-width": 9,
    "background-height": 9,
    "background-position-x": 0,
    "background-position-y": 0,
}
"""How the texture of a device beyond the eighth fills its boxes."""
DESCENT_PX = 2.0
"""By which a name stands lower than the middle of its line, so that its letters are in the middle of its box."""
CUT_ARROW_PX = 6.0
"""By which the arrow of a cut is longer than others: what stands at its end stands so much nearer to the box."""
LABEL_BESIDE = 28.0
"""From an edge to the middle of its label, in the gap between two rows."""


def stylesheet(theme: Theme) -> list[dict[str, object]]:
    """A cytoscape stylesheet; later rules win."""
    return [*_plain(theme), *_devices(theme), *_marks(theme)]


def _plain(theme: Theme) -> list[dict[str, object]]:
    """Nodes and edges that nothing else says anything of."""
    surface = SURFACES[theme]
    return [
        _rule(
            "node",
            shape="round-rectangle",
            width="data(wide)",
            height=NODE_HEIGHT,
            label="data(label)",
            color=surface.text,
            **{
                "background-color": surface.lane,
                "border-width": 1,
                "border-color": surface.grid,
                "font-size": FONT_PX,
                "font-family": "system-ui, -apple-system, Segoe UI, sans-serif",
                "text-valign": "center",
                "text-halign": "center",
                "text-margin-y": DESCENT_PX,
                "min-zoomed-font-size": 9,
                "overlay-opacity": 0,
            },
        ),
        _rule("node.operator", shape="rectangle"),
        _rule(
            "edge",
            width=1.2,
            **{
                "curve-style": "bezier",
                "line-color": surface.quiet,
                "line-opacity": 0.55,
                "target-arrow-shape": "triangle",
                "target-arrow-color": surface.quiet,
                "arrow-scale": 0.7,
                "overlay-opacity": 0,
                "events": "no",
                "font-size": 13,
                "text-margin-x": LABEL_BESIDE,
                "color": surface.text,
                "text-background-color": surface.background,
                "text-background-opacity": 0.9,
                "text-background-padding": 1,
                "min-zoomed-font-size": 8,
                "z-index": 0,
            },
        ),
        _rule(
            "edge.wrapped",
            **{
                "curve-style": "segments",
                "edge-distances": "node-position",
                "segment-weights": "data(weights)",
                "segment-distances": "data(distances)",
                "line-opacity": 0.45,
                "text-margin-x": 0,
            },
        ),
    ]


def _devices(theme: Theme) -> list[dict[str, object]]:
    """Nodes by their device."""
    coloured: dict[tuple[str, str], list[str]] = {}  # by fill and ink, each of them once: a page gets all of them
    textured: dict[tuple[str, str], list[str]] = {}
    for device in range(DEVICES):
        paint = swatch(device, theme)
        coloured.setdefault((paint.fill, paint.text), []).append(f"node.d{device}")
        if paint.pattern:
            textured.setdefault((paint.pattern, paint.text), []).append(f"node.d{device}")
    rimmed = [f"node.d{device}" for device in range(DEVICES // 2, DEVICES)]
    return [
        *(
            _rule(", ".join(nodes), color=ink, **{
                "background-color": fill, "border-color": mix(fill, "#000000", 0.8), "border-width": 1,
            })
            for (fill, ink), nodes in coloured.items()
        ),
        _rule(", ".join(rimmed), **{"border-color": SURFACES[theme].text, "border-width": 2}),
        *(
            _rule(", ".join(nodes), **{"background-image": _texture(pattern, ink), **TEXTURED})
            for (pattern, ink), nodes in textured.items()
        ),
    ]  # fmt: skip


def _marks(theme: Theme) -> list[dict[str, object]]:
    """What stands out: errors, cuts, what is selected or near it."""
    surface = SURFACES[theme]
    return [
        # what many boxes read, rotary tables and masks, is drawn where it is pointed at
        _rule("edge.fan", **{"line-opacity": 0.0, "target-arrow-shape": "none"}),
        _rule("edge.plain", **{"target-arrow-shape": "none"}),
        _rule(
            "node.mixed",
            color=surface.text,
            **{
                "border-color": surface.quiet,
                "text-outline-width": 2,
                "text-outline-color": surface.background,
                "text-outline-opacity": 0.95,
            },
        ),
        *[
            _rule(
                f"node.{shade['class']}",
                color=shade["text"],
                **{
                    "background-color": shade["fill"],
                    "border-color": shade["border"],
                    "border-style": shade["border_style"],
                },
            )
            for shade in errors.shades(theme)
        ],
        # what members of a group have of a tensor, and what they exchange for that: small, to be read from near
        _rule("edge.chip[chip]", label="data(chip)", **{"font-size": 7, "z-compound-depth": "top"}),
        _rule("edge.exchanged", **{"line-style": "dashed", "line-opacity": 0.9}),
        _rule("edge.short.exchanged", **{"text-margin-x": LABEL_BESIDE + 14}),
        _rule("edge.wrapped.chip[chip]", label="", **{"target-label": "data(chip)", **_above(-LABEL_BESIDE)}),
        _rule("edge.fan.chip", label=""),
        _rule(
            "edge.cut",
            label="data(label)",
            width="data(width)",
            **{
                "line-color": surface.text,
                "target-arrow-color": surface.text,
                "line-opacity": 0.9,
                "line-style": "solid",
                "z-index": 5,
            },
        ),
        # from one row to the next there is no box in the way, and the bytes may stand before those beside them
        _rule("edge.short.cut", **{"z-compound-depth": "top"}),
        _rule("edge.fan.cut", label="", width=1.2, **{"line-opacity": 0.0}),
        # where a line bends, its bytes stand above the box that it ends at, on the side that it comes from
        _rule("edge.wrapped.cut", label="", **{"target-label": "data(label)", **_above(-LABEL_BESIDE)}),
        # the bytes of a box that is cut itself stand above it, at the end of an edge into it
        _rule("edge.inner", **{"target-label": "data(inside)", **_above(LABEL_BESIDE)}),
        _rule("edge.inner.cut", **{"target-text-margin-y": CUT_ARROW_PX - GAP_Y / 2}),
        _rule("node.pinned", **{"border-width": 3, "border-color": surface.text, "border-style": "double"}),
        _rule("node.selected", **{"border-width": 3, "border-color": surface.accent, "border-style": "solid"}),
    ]


def _texture(pattern: str, ink: str) -> str:
    """A tile of a device's pattern."""
    strokes = {"x": "M0 9L9 0", ".": "M4 4.5h1", "+": "M0 4.5h9M4.5 0v9"}[pattern]
    wide = 2.4 if pattern == "." else 1
    tile = f'<path d="{strokes}" stroke="{ink}" stroke-opacity="0.38" stroke-width="{wide}" fill="none"/>'
    return f"data:image/svg+xml;utf8,{quote(f'{SVG}{tile}</svg>')}"


def _above(aside: float) -> dict[str, Any]:
    """The place of a label in the gap above the box that an edge ends at."""
    return {
        "target-text-offset": 1,
        "target-text-margin-x": aside,
        "target-text-margin-y": -GAP_Y / 2,
        "z-compound-depth": "top",
    }


def _rule(selector: str, **style: Any) -> dict[str, Any]:
    return {"selector": selector, "style": style}
