"""Colours stay told apart and readable in both themes."""

import pytest

from explorer.view.graph.palette import DEVICES, SURFACES, THEMES, contrast, swatch


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
def test_all_32_devices_differ_in_hue_or_pattern(theme):
    assert len({(swatch(d, theme).fill, swatch(d, theme).pattern) for d in range(DEVICES)}) == DEVICES


def test_only_black_and_white_swap_with_the_theme():
    changed = [d for d in range(8) if swatch(d, "light").fill != swatch(d, "dark").fill]
    assert changed == [5]


def test_the_stylesheet_file_has_the_same_hues():
    from pathlib import Path

    css = (Path(__file__).parents[3] / "assets" / "page.css").read_text()
    for device in range(8):
        assert f"--d{device}: {swatch(device, 'light').fill}" in css
    assert f"--d5: {swatch(5, 'dark').fill}" in css
