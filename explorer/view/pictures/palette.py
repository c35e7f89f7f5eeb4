"""The colours that shapes name, for each theme, as hex and as CSS variables."""

from __future__ import annotations

from explorer.view.graph.palette import SURFACES, THEMES, Theme, mix, swatch

Palette = dict[str, str]
"""Name -> "#rrggbb"."""

VERDICTS: dict[Theme, Palette] = {
    "light": {"pass": "#1a7f37", "warn": "#9a6700", "fail": "#b42318"},
    "dark": {"pass": "#57ab5a", "warn": "#d4a72c", "fail": "#f47067"},
}


def device(index: int, part: str = "") -> str:
    """The name of a device's colour: "device-3"; part: "text" (readable on it), "soft" or "soft-text"."""
    return f"device-{index}" + (f"-{part}" if part else "")


def palette(theme: Theme, devices: int) -> Palette:
    """All colours of a theme for that many devices. warm-up, drain: the backgrounds of a pipeline's phases."""
    surface = SURFACES[theme]
    found = {
        "background": surface.background,
        "text": surface.text,
        "quiet": surface.quiet,
        "grid": surface.grid,
        "lane": surface.lane,
        "accent": surface.accent,
        "warm": surface.warm,
        "warm-up": mix(surface.accent, surface.background, 0.16 if theme == "light" else 0.22),
        "drain": mix(surface.warm, surface.background, 0.16 if theme == "light" else 0.17),
    } | VERDICTS[theme]
    for index in range(devices):
        paint = swatch(index, theme)
        found |= {
            device(index): paint.fill,
            device(index, "text"): paint.text,
            device(index, "soft"): paint.soft,
            device(index, "soft-text"): paint.soft_text,
        }
    return found


def css_variables(devices: int) -> str:
    """The colours as CSS variables, those of the theme that the reader's system prefers."""
    light, dark = (_declared(palette(theme, devices)) for theme in THEMES)
    return (
        f":root{{color-scheme:light dark;{light}}}\n"
        f"@media (prefers-color-scheme: dark){{:root{{{dark}}}}}"
    )  # fmt: skip


def _declared(colours: Palette) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


def pattern_of(index: int) -> str:
    """The hatch that tells a device from the one eight before it; "" for the first eight."""
    return swatch(index, "light").pattern
