"""Predicted over published iterations, as SVG: before and after on a scale of ratios, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

LEFT, RIGHT, TOP, STEP = 150, 560, 44, 24
LOW, HIGH = 0.5, 1.5
STYLE = """<style>text{font:12px system-ui,sans-serif;fill:#57606a}.grid{stroke:#8b949e;stroke-opacity:.35}
.one{stroke:#57606a;stroke-width:1.5}.span{stroke:#2f81f7;stroke-width:3;stroke-opacity:.45}.after{fill:#2f81f7}
.before{fill:none;stroke:#8b949e;stroke-width:1.5}</style>"""


class Point(NamedTuple):
    """Ratios to what was published: before, after, and the ends of its interval."""

    name: str
    before: float
    after: float
    low: float
    high: float


def picture(points: Sequence[Point]) -> str:
    bottom = TOP + STEP * len(points)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {RIGHT + 30} {bottom + 30}" role="img"'
        f' aria-label="Estimated over published seconds of {len(points)} iterations">',
        STYLE,
        f'<text x="{LEFT}" y="16">estimated / published seconds;'
        " \u25cb as traced, \u25cf by its stack, with its interval</text>",
    ]
    for tenth in range(int(LOW * 10), int(HIGH * 10) + 1, 2 if int(LOW * 10) % 2 == 0 else 1):
        ratio = tenth / 10
        kind = "one" if tenth == 10 else "grid"
        parts.append(f'<line class="{kind}" x1="{_x(ratio)}" x2="{_x(ratio)}" y1="{TOP - 12}" y2="{bottom}"/>')
        parts.append(f'<text x="{_x(ratio)}" y="{bottom + 16}" text-anchor="middle">{ratio:.1f}</text>')
    for i, point in enumerate(points):
        y = TOP + STEP * i
        parts.append(f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{escape(point.name)}</text>')
        parts.append(f'<line class="span" x1="{_x(point.low)}" x2="{_x(point.high)}" y1="{y}" y2="{y}"/>')
        parts.append(f'<circle class="before" cx="{_x(point.before)}" cy="{y}" r="4"/>')
        parts.append(f'<circle class="after" cx="{_x(point.after)}" cy="{y}" r="4"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _x(ratio: float) -> float:
    return round(LEFT + (min(max(ratio, LOW), HIGH) - LOW) / (HIGH - LOW) * (RIGHT - LEFT), 1)
