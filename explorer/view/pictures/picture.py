"""A picture: shapes of a size, described in a sentence, written in a theme or in both."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.view.graph.palette import Theme, palette
from explorer.view.pictures.png import png
from explorer.view.pictures.shapes import Shape
from explorer.view.pictures.svg import svg


@dataclass(frozen=True)
class Picture:
    """width, height: pixels. title: what it shows, for those who cannot see it. devices: how many colours of devices
    it may name. A notebook shows it as it is."""

    shapes: tuple[Shape, ...]
    width: float
    height: float
    title: str
    devices: int

    def svg(self, theme: Theme = "light") -> str:
        """The text of an SVG of its own."""
        return svg(self.shapes, self.width, self.height, self.title, palette(theme, self.devices))

    def inline_svg(self, unique: str) -> str:
        """An SVG inside a page that declares `palette.css_variables`, so that it follows the page's theme."""
        return svg(self.shapes, self.width, self.height, self.title, unique=unique)

    def png(self, theme: Theme = "light", scale: float = 2.0) -> bytes:
        """A PNG, ``scale`` times as large. Raises UnsupportedProblem without Pillow."""
        return png(self.shapes, self.width, self.height, palette(theme, self.devices), scale)

    def _repr_svg_(self) -> str:
        return self.svg()
