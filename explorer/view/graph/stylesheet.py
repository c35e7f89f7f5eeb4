"""The graph's look in each theme. A plan only changes classes: d0..d31, mixed, cut, pinned, selected."""

from __future__ import annotations

from typing import Any

from explorer.view.graph import errors
from explorer.view.graph.layered_layout import FONT_PX, NODE_HEIGHT, NODE_WIDTH
from explorer.view.graph.palette import DEVICES, SURFACES, Theme, mix, swatch

LABEL_ASIDE = NODE_WIDTH / 2 + 24.0
"""From the middle of an edge to that of its label, which stands beside the boxes."""


def stylesheet(theme: Theme) -> list[dict[str, Any]]:
    """A cytoscape stylesheet; later rules win."""
    return [*_plain(theme), *_devices(theme), *_marks(theme)]


def _plain(theme: Theme) -> list[dict[str, Any]]:
    """Nodes and edges that nothing else says anything of."""
    surface = SURFACES[theme]
    return [
        _rule(
            "node",
            shape="round-rectangle",
            width=NODE_WIDTH,
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
                "min-zoomed-font-size": 10,
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
                "target-arrow-shape": "none",
                "overlay-opacity": 0,
                "events": "no",
                "font-size": 11.5,
                "text-margin-x": LABEL_ASIDE,
                "color": surface.quiet,
                "text-background-color": surface.background,
                "text-background-opacity": 0.9,
                "text-background-padding": 1.5,
                "min-zoomed-font-size": 9,
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
                "line-opacity": 0.4,
                "text-margin-x": 0,
            },
        ),
    ]


def _devices(theme: Theme) -> list[dict[str, Any]]:
    """Nodes by their device."""
    rules = []
    for device in range(DEVICES):
        paint = swatch(device, theme)
        edge = mix(paint.fill, "#000000", 0.8)
        rules.append(
            _rule(
                f"node.d{device}",
                color=paint.text,
                **{
                    "background-color": paint.fill,
                    "border-color": edge,
                    "border-style": "solid" if device < 8 else "dashed" if device < 16 else "double",
                    "border-width": 1 if device < 8 else 2.5,
                },
            )
        )
    return rules


def _marks(theme: Theme) -> list[dict[str, Any]]:
    """What stands out: errors, cuts, what is selected or near it."""
    surface = SURFACES[theme]
    return [
        _rule(
            "node.mixed",
            color=surface.text,
            **{
                "border-color": surface.quiet,
                "text-background-opacity": 0.9,
                "text-background-color": surface.background,
                "text-background-padding": 2,
                "text-background-shape": "round-rectangle",
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
        _rule(
            "edge.cut",
            label="data(label)",
            width="data(width)",
            **{"line-color": surface.text, "line-opacity": 0.9, "line-style": "solid", "z-index": 5},
        ),
        # from one row to the next there is no box in the way, and the bytes may stand before those beside them
        _rule("edge.short.cut", **{"z-compound-depth": "top"}),
        _rule("edge.before", **{"text-margin-x": -LABEL_ASIDE}),
        # the bytes of a box that is cut itself stand beside it, at the end of an edge into it
        _rule(
            "edge.inner",
            **{
                "target-label": "data(inside)",
                "target-text-offset": 1,
                "target-text-margin-x": LABEL_ASIDE,
                "target-text-margin-y": NODE_HEIGHT / 2,
                "z-compound-depth": "top",
            },
        ),
        *[_rule(f"edge.{way}.inner", **{"target-text-margin-x": -LABEL_ASIDE}) for way in ("before", "wrapped")],
        _rule("node.pinned", **{"border-width": 3, "border-color": surface.text, "border-style": "double"}),
        _rule("node.selected", **{"border-width": 3, "border-color": surface.accent, "border-style": "solid"}),
    ]


def _rule(selector: str, **style: Any) -> dict[str, Any]:
    return {"selector": selector, "style": style}
