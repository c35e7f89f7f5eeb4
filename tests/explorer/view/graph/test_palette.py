"""Colours stay distinct and readable in both themes."""

import numpy as np
import pytest

from explorer.view.graph.palette import DEVICES, SURFACES, THEMES, contrast, swatch
from explorer.view.graph.stylesheet import stylesheet


@pytest.mark.parametrize("theme", THEMES)
def test_text_on_every_device_is_readable(theme):
    for device in range(DEVICES):
        paint = swatch(device, theme)
        assert contrast(paint.text, paint.fill) >= 4.5 or contrast("#14181d", paint.fill) < 4.5
        assert contrast(paint.text, paint.fill) >= 4.0


@pytest.mark.parametrize("theme", THEMES)
def test_text_on_the_page_is_readable(theme):
    surface = SURFACES[theme]
    assert contrast(surface.text, surface.background) >= 7
    assert contrast(surface.quiet, surface.background) >= 4.5


@pytest.mark.parametrize("theme", THEMES)
def test_all_64_devices_differ_in_hue_texture_or_rim(theme):
    looks: dict[str, dict[str, object]] = {}
    for rule in stylesheet(theme):
        for selector in rule["selector"].split(", "):
            looks[selector] = looks.get(selector, {}) | rule["style"]
    seen = {
        (look["background-color"], look.get("background-image"), look["border-width"])
        for look in (looks[f"node.d{device}"] for device in range(DEVICES))
    }
    assert DEVICES == 64
    assert len(seen) == DEVICES


@pytest.mark.parametrize("theme", THEMES)
def test_every_texture_is_sent_once(theme):
    images = [rule["style"]["background-image"] for rule in stylesheet(theme) if "background-image" in rule["style"]]
    assert images
    assert len(images) == len(set(images))


def test_only_black_and_white_swap_with_the_theme():
    changed = [d for d in range(8) if swatch(d, "light").fill != swatch(d, "dark").fill]
    assert changed == [5]


def test_the_stylesheet_file_has_the_same_hues():
    from pathlib import Path

    css = (Path(__file__).parents[4] / "assets" / "page.css").read_text()
    for device in range(8):
        assert f"--d{device}: {swatch(device, 'light').fill}" in css
    assert f"--d5: {swatch(5, 'dark').fill}" in css


SIGHTS = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
"""Machado, Oliveira and Fernandes 2009, table of severity 1: linear RGB as somebody sees it."""
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def lab(colour: str, sight: np.ndarray) -> np.ndarray:
    """CIELAB under D65 of a colour as somebody sees it."""
    encoded = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(sight @ linear, 0, 1) / np.array([0.95047, 1.0, 1.08883])
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("theme", THEMES)
def test_eight_devices_are_distinguished_by_everybody(theme, sight):
    """Neighbours in pipeline order by far; any two by more than is needed to see a difference (about 2.3)."""
    seen = [lab(swatch(d, theme).fill, SIGHTS[sight]) for d in range(8)]
    between = {(a, b): float(np.linalg.norm(seen[a] - seen[b])) for a in range(8) for b in range(a)}
    assert min(between[d + 1, d] for d in range(7)) >= (38 if theme == "light" else 29)
    assert min(between.values()) >= 16
