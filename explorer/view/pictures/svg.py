"""Shapes as SVG: text that is escaped, no script, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from explorer.view.graph.palette import Palette
from explorer.view.pictures.shapes import HATCH_WIDTH, HATCHES, TILE, Label, Point, Polygon, Rect, Shape, Stroke
from solvers.errors import printable_lines

FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


def svg(
    shapes: Sequence[Shape],
    width: float,
    height: float,
    title: str,
    colours: Palette | None = None,
    *,
    unique: str = "p",
) -> str:
    """The text of an SVG. colours: those to write; None writes CSS variables, which the page around it declares
    (`palette.css_variables`). unique: begins the ids in it, so that several fit into one page."""
    paint = (lambda name: f"var(--{name})") if colours is None else colours.__getitem__
    patterns: dict[tuple[str, str, float], str] = {}
    drawn = [_shape(shape, paint, patterns, unique) for shape in shapes]
    tiles = "".join(_pattern(name, key, paint) for key, name in patterns.items())
    whole = "" if colours is None else f'<rect width="100%" height="100%" fill="{colours["background"]}"/>'
    size = f'width="{_n(width)}" height="{_n(height)}" viewBox="0 0 {_n(width)} {_n(height)}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}">'
        f"<title>{plain(title)}</title>"
        f"{f'<defs>{tiles}</defs>' if tiles else ''}{whole}" + "\n".join(drawn) + "</svg>\n"
    )


def plain(text: str) -> str:
    """A text as XML and HTML show it literally; what they cannot contain is a blank."""
    return escape(printable_lines(text), quote=True)


def _shape(shape: Shape, paint: Callable[[str], str], patterns: dict[tuple[str, str, float], str], unique: str) -> str:
    if isinstance(shape, Rect):
        return _rect(shape, paint, patterns, unique)
    if isinstance(shape, Stroke):
        dash = ' stroke-dasharray="4 3"' if shape.dashed else ""
        line = (
            f'<polyline points="{_points(shape.points)}" style="fill:none;stroke:{paint(shape.colour)}"'
            f' stroke-width="{_n(shape.width)}" stroke-linejoin="round"{dash}'
        )
        return f"{line}><title>{plain(shape.title)}</title></polyline>" if shape.title else f"{line}/>"
    if isinstance(shape, Polygon):
        return f'<polygon points="{_points(shape.points)}" style="fill:{paint(shape.fill)}"/>'
    return _label(shape, paint)


def _rect(rect: Rect, paint: Callable[[str], str], patterns: dict[tuple[str, str, float], str], unique: str) -> str:
    edge = f";stroke:{paint(rect.stroke)};stroke-width:{_n(rect.stroke_width)}" if rect.stroke else ""
    place = f'x="{_n(rect.x)}" y="{_n(rect.y)}" width="{_n(rect.width)}" height="{_n(rect.height)}"'
    round_ = f' rx="{_n(rect.radius)}"' if rect.radius else ""
    tip = f"<title>{plain(rect.title)}</title>" if rect.title else ""
    box = f'<rect {place}{round_} style="fill:{paint(rect.fill) if rect.fill else "none"}{edge}">{tip}</rect>'
    if not rect.hatch:
        return box if tip else box.replace("></rect>", "/>")
    key = (rect.hatch, rect.ink, rect.hatch_opacity)
    name = patterns.setdefault(key, f"{unique}{len(patterns)}")
    return f'{box}<rect {place}{round_} fill="url(#{name})" pointer-events="none"/>'


def _pattern(name: str, key: tuple[str, str, float], paint: Callable[[str], str]) -> str:
    hatch, ink, opacity = key
    way = "".join(f"M{_n(a)} {_n(b)}L{_n(c)} {_n(d)}" for (a, b), (c, d) in HATCHES[hatch])
    return (
        f'<pattern id="{name}" width="{TILE}" height="{TILE}" patternUnits="userSpaceOnUse">'
        f'<path d="{way}" style="stroke:{paint(ink)}" stroke-width="{HATCH_WIDTH}" opacity="{_n(opacity)}"/></pattern>'
    )


def _label(label: Label, paint: Callable[[str], str]) -> str:
    anchor = f' text-anchor="{label.anchor}"' if label.anchor != "start" else ""
    bold = ' font-weight="600"' if label.bold else ""
    rim = f";stroke:{paint(label.halo)};stroke-width:3;paint-order:stroke;stroke-linejoin:round" if label.halo else ""
    return (
        f'<text x="{_n(label.x)}" y="{_n(label.y)}" dy="0.35em" font-size="{_n(label.size)}"{anchor}{bold}'
        f' style="fill:{paint(label.colour)}{rim};font-variant-numeric:tabular-nums">{plain(label.text)}</text>'
    )


def _points(points: Sequence[Point]) -> str:
    return " ".join(f"{_n(x)},{_n(y)}" for x, y in points)


def _n(value: float) -> str:
    """At most two decimals, no trailing zeros."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
