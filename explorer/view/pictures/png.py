"""Shapes painted as PNG through Pillow, with the font that it brings along."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from unicodedata import normalize

from explorer.view.graph.palette import Palette
from explorer.view.pictures.shapes import HATCH_WIDTH, HATCHES, TILE, Label, Point, Polygon, Rect, Shape, Stroke
from solvers.errors import UnsupportedProblem

FINER = 2
"""Painted so many times finer than the picture, then scaled down: lines and letters without steps."""
MAX_PIXELS = 60_000_000
"""Of the finer painting: 180 MB."""
SPELLED = str.maketrans({"→": "->", "←": "<-", "–": "-", "−": "-", "…": "...", "×": "x", "µ": "u", "·": "-"})
"""What the font may not have, in letters that it has."""


def png(shapes: Sequence[Shape], width: float, height: float, colours: Palette, scale: float = 2.0) -> bytes:
    """The bytes of a PNG of ``width`` x ``height`` pixels times ``scale``, which is made smaller for a picture that
    would be too large. Raises UnsupportedProblem, in one line, without Pillow."""
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise UnsupportedProblem(
            "a PNG is painted by Pillow, which is not installed; pip install 'placement-explorer[png]', or take the SVG"
        ) from None
    fine = min(scale * FINER, (MAX_PIXELS / (width * height)) ** 0.5)
    size = (max(1, round(width * fine)), max(1, round(height * fine)))
    image = Image.new("RGB", size, colours["background"])
    canvas = _Canvas(image, ImageDraw.Draw(image), fine, colours)
    for shape in shapes:
        canvas.paint(shape)
    small = image.resize((max(1, size[0] // FINER), max(1, size[1] // FINER)), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    small.save(out, "PNG", optimize=True)
    return out.getvalue()


class _Canvas:
    """Pillow's image, with a painting for each kind of shape. fine: its pixels for one of the shapes'."""

    def __init__(self, image: Any, draw: Any, fine: float, colours: Palette) -> None:
        self.image = image
        self.draw = draw
        self.fine = fine
        self.colours = colours
        self.fonts: dict[float, Any] = {}
        self.letters: dict[str, bool] = {}

    def paint(self, shape: Shape) -> None:
        if isinstance(shape, Rect):
            self._rect(shape)
        elif isinstance(shape, Stroke):
            self._stroke(shape)
        elif isinstance(shape, Polygon):
            self.draw.polygon([self._at(point) for point in shape.points], fill=self.colours[shape.fill])
        else:
            self._label(shape)

    def _at(self, point: Point) -> tuple[float, float]:
        return point[0] * self.fine, point[1] * self.fine

    def _rect(self, rect: Rect) -> None:
        left, top = self._at((rect.x, rect.y))
        right, bottom = self._at((rect.x + rect.width, rect.y + rect.height))
        right, bottom = max(left, right - 1), max(top, bottom - 1)
        edge = {} if not rect.stroke else {
            "outline": self.colours[rect.stroke], "width": max(1, round(rect.stroke_width * self.fine))}  # fmt: skip
        fill = self.colours[rect.fill] if rect.fill else None
        if rect.hatch:
            self._hatched(rect, (left, top, right, bottom))
            fill = None
        if rect.radius:
            self.draw.rounded_rectangle((left, top, right, bottom), rect.radius * self.fine, fill=fill, **edge)
        elif fill or edge:
            self.draw.rectangle((left, top, right, bottom), fill=fill, **edge)

    def _hatched(self, rect: Rect, box: tuple[float, float, float, float]) -> None:
        from PIL import Image, ImageDraw

        left, top, right, bottom = (round(side) for side in box)
        size = (max(1, right - left + 1), max(1, bottom - top + 1))
        part = Image.new("RGB", size, self.colours[rect.fill])
        draw = ImageDraw.Draw(part)
        step = TILE * self.fine
        ink = _between(self.colours[rect.ink], self.colours[rect.fill], rect.hatch_opacity)
        width = max(1, round(HATCH_WIDTH * self.fine))
        first = (-(left % step), -(top % step))  # tiles meet across bars, as in the SVG
        y = first[1]
        while y < size[1]:
            x = first[0]
            while x < size[0]:
                for (a, b), (c, d) in HATCHES[rect.hatch]:
                    ends = (x + a * self.fine, y + b * self.fine, x + c * self.fine, y + d * self.fine)
                    draw.line(ends, fill=ink, width=width)
                x += step
            y += step
        mask = None
        if rect.radius:
            mask = Image.new("L", size, 0)
            ends = (0, 0, size[0] - 1, size[1] - 1)
            ImageDraw.Draw(mask).rounded_rectangle(ends, rect.radius * self.fine, fill=255)
        self.image.paste(part, (left, top), mask)

    def _stroke(self, stroke: Stroke) -> None:
        points = [self._at(point) for point in stroke.points]
        width = max(1, round(stroke.width * self.fine))
        colour = self.colours[stroke.colour]
        if not stroke.dashed:
            self.draw.line(points, fill=colour, width=width, joint="curve")
            return
        on, off = 4 * self.fine, 3 * self.fine
        for a, b in pairwise(points):
            length = max(1e-9, ((b[0] - a[0]) ** 2 + (b[1] - a[1]) ** 2) ** 0.5)
            place = 0.0
            while place < length:
                end = min(length, place + on)
                ends = [(a[0] + (b[0] - a[0]) * s / length, a[1] + (b[1] - a[1]) * s / length) for s in (place, end)]
                self.draw.line(ends, fill=colour, width=width)
                place += on + off

    def _label(self, label: Label) -> None:
        from PIL import ImageFont

        font = self.fonts.get(label.size)
        if font is None:
            font = self.fonts[label.size] = ImageFont.load_default(label.size * self.fine)
        anchor = {"start": "lm", "middle": "mm", "end": "rm"}[label.anchor]
        rim: dict[str, Any] = {}
        if label.halo:
            rim = {"stroke_width": round(1.5 * self.fine), "stroke_fill": self.colours[label.halo]}
        elif label.bold:
            rim = {"stroke_width": max(1, round(0.25 * self.fine)), "stroke_fill": self.colours[label.colour]}
        text = self._spelled(label.text, font)
        self.draw.text(self._at((label.x, label.y)), text, self.colours[label.colour], font, anchor, **rim)

    def _spelled(self, text: str, font: Any) -> str:
        """The text in letters that the font has, "?" for others."""
        return "".join(letter if self._has(letter, font) else self._other(letter) for letter in text)

    def _has(self, letter: str, font: Any) -> bool:
        if letter not in self.letters:
            missing = font.getmask("\uffff").getbbox(), bytes(font.getmask("\uffff"))
            mask = font.getmask(letter)
            self.letters[letter] = letter.isprintable() and (mask.getbbox(), bytes(mask)) != missing
        return self.letters[letter]

    def _other(self, letter: str) -> str:
        base = normalize("NFKD", letter)[0]
        return letter.translate(SPELLED) if ord(letter) in SPELLED else base if base.isascii() else "?"


def _between(colour: str, other: str, share: float) -> str:
    a, b = (tuple(int(c[i : i + 2], 16) for i in (1, 3, 5)) for c in (colour, other))
    return "#" + "".join(f"{round(x * share + y * (1 - share)):02x}" for x, y in zip(a, b, strict=True))
