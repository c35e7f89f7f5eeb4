"""The same page on the real engine: trace, solve, redraw."""

from __future__ import annotations

import re

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


def lanes(page):
    return {re.match(r"GPU \d+", name)[0] for name, _ in page.bars}


def test_a_traced_model_is_planned_and_replanned(real):
    real.open("model=gpt&devices=2&time_limit=3")
    assert real.state in ("optimal", "feasible")
    assert lanes(real) == {"GPU 0", "GPU 1"}
    two = real.boxes
    real.change(lambda: real.slide("devices", 2))
    assert real.state in ("optimal", "feasible")
    assert lanes(real) == {"GPU 0", "GPU 1", "GPU 2", "GPU 3"}
    assert real.boxes != two


def test_a_cap_too_small_for_the_model_is_infeasible_until_the_offered_cap_is_set(real):
    real.open("model=gpt&devices=2&memory=1073741824&time_limit=3")
    assert real.state == "infeasible"
    assert "No plan fits" in real.text("banner")
    real.change(lambda: real.click("[data-act=cap]"))
    assert real.state in ("optimal", "feasible")


def test_inference_has_no_backward(real):
    real.open("model=gpt-small&devices=2&training=false")
    assert not [name for name, _ in real.bars if "backward" in name]


def test_another_precision_is_traced_anew(real):
    real.open("model=gpt-small&devices=2")
    before = real.text("kpis")
    real.open("model=gpt-small&devices=2&dtype=bf16")
    assert real.state in ("optimal", "feasible")
    assert real.text("kpis") != before


def test_the_web_process_does_not_import_torch():
    import subprocess
    import sys

    script = "import sys, explorer.web.app, explorer.web.jobs_backend; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
