"""Device colours: Okabe and Ito's eight hues, safe for the colour-blind; then the same with patterns.

The order is the one, of all 5,040, in which neighbours in pipeline order differ most on a light page: at least 38
CIELAB units (on a dark one 29) for normal, protanopic, deuteranopic and tritanopic sight (Machado et al. 2009); any two
of the eight at least 16.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Literal

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")

BLUE, ORANGE, GREEN, YELLOW = "#0072B2", "#E69F00", "#009E73", "#F0E442"
PINK, SKY, VERMILLION = "#CC79A7", "#56B4E9", "#D55E00"
INK, PAPER = "#14181d", "#e8eaee"

PATTERNS = ("", "x", ".", "+")
"""Pattern of devices 0-7, 8-15, 16-23 and 24-31; later devices start over."""

DEVICES = 64
"""From the 33rd on, devices have a rim besides; later ones start over."""


@dataclass(frozen=True, slots=True)
class Swatch:
    """How one device is painted. text is readable on fill; light and dark variants are for backwards."""

    fill: str
    text: str
    soft: str
    soft_text: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Surface:
    """The colours of a theme that a drawing needs."""

    background: str
    text: str
    quiet: str
    grid: str
    lane: str
    accent: str
    warm: str


SURFACES: dict[Theme, Surface] = {
    "light": Surface("#ffffff", "#14181d", "#5c646e", "#e3e6ea", "#f3f5f7", "#2457d6", "#b45309"),
    "dark": Surface("#161b21", "#e8eaee", "#9aa4af", "#2a3038", "#1c2229", "#7aa2ff", "#f0a73c"),
}


Palette = dict[str, str]
"""Name -> "#rrggbb"."""
VERDICTS: dict[Theme, Palette] = {
    "light": {"pass": "#1a7f37", "warn": "#9a6700", "fail": "#b42318"},
    "dark": {"pass": "#57ab5a", "warn": "#d4a72c", "fail": "#f47067"},
}
_DEVICE = re.compile("device-([0-9]+)(?:-(.+))?")


def device(index: int, part: str = "") -> str:
    """The name of a device's colour: "device-3"; part: "text" (readable on it), "soft" or "soft-text"."""
    return f"device-{index}" + (f"-{part}" if part else "")


@lru_cache(maxsize=65536)
def colour(name: str, theme: Theme) -> str:
    """A colour by its name: of `Surface`, VERDICTS or a `device`, or "warm-up" and "drain", phases of a pipeline."""
    surface = SURFACES[theme]
    if match := _DEVICE.fullmatch(name):
        paint = swatch(int(match[1]), theme)
        return {None: paint.fill, "text": paint.text, "soft": paint.soft, "soft-text": paint.soft_text}[match[2]]
    if name == "warm-up":
        return mix(surface.accent, surface.background, 0.16 if theme == "light" else 0.22)
    if name == "drain":
        return mix(surface.warm, surface.background, 0.16 if theme == "light" else 0.17)
    if name in VERDICTS[theme]:
        return VERDICTS[theme][name]
    value: str = getattr(surface, name)
    return value


def palette(theme: Theme, devices: int) -> Palette:
    """All colours of a theme for that many devices."""
    names = [*asdict(SURFACES[theme]), "warm-up", "drain", *VERDICTS[theme]]
    names += [device(index, part) for index in range(devices) for part in ("", "text", "soft", "soft-text")]
    return {name: colour(name, theme) for name in names}


def css_variables(devices: int) -> str:
    """The colours as CSS variables, those of the theme that the reader's system prefers."""
    light, dark = ("".join(f"--{n}:{v};" for n, v in palette(theme, devices).items()) for theme in THEMES)
    return (
        f":root{{color-scheme:light dark;{light}}}\n"
        f"@media (prefers-color-scheme: dark){{:root{{{dark}}}}}"
    )  # fmt: skip


def pattern_of(index: int) -> str:
    """The hatch that distinguishes a device from the one eight before it; "" for the first eight."""
    return PATTERNS[index // 8 % 4]


def hues(theme: Theme) -> tuple[str, ...]:
    """The eight hues in device order; black becomes white on a dark page."""
    return (BLUE, ORANGE, GREEN, YELLOW, PINK, INK if theme == "light" else PAPER, SKY, VERMILLION)


def swatch(device: int, theme: Theme) -> Swatch:
    """The paint of a device. Raises ValueError below 0."""
    if device < 0:
        raise ValueError(f"a device index is at least 0, found {device}")
    fill = hues(theme)[device % 8]
    # Yellow on white and blue on black need their share of the hue to stay visible.
    soft = mix(fill, SURFACES[theme].background, 0.58 if theme == "light" else 0.5)
    return Swatch(fill, text_on(fill), soft, text_on(soft), pattern_of(device))


def mix(colour: str, other: str, share: float) -> str:
    """``share`` of the first colour, the rest of the second."""
    a, b = _channels(colour), _channels(other)
    return "#" + "".join(f"{round(x * share + y * (1 - share)):02x}" for x, y in zip(a, b, strict=True))


def text_on(colour: str) -> str:
    """Black or white, whichever has more contrast (WCAG 2.2, relative luminance)."""
    luminance = _luminance(colour)
    ink = (luminance + 0.05) / (_luminance(INK) + 0.05)
    white = 1.05 / (luminance + 0.05)
    return INK if ink >= white else "#ffffff"


def contrast(a: str, b: str) -> float:
    """WCAG contrast ratio, 1 to 21."""
    high, low = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _luminance(colour: str) -> float:
    parts = [c / 255 for c in _channels(colour)]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
