"""The same page on the real engine: trace, solve, redraw."""

from __future__ import annotations

import re

import pytest

ROW_NAMES = "return [...document.querySelectorAll('.gantt-card .row-name')].map((name) => name.innerText.trim())"
pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

SMALL = "model=gpt-small&devices=2&time_limit=2"


def lanes(page):
    return {re.match(r"GPU \d+", name)[0] for name, _ in page.bars}


def test_a_traced_model_is_planned_and_replanned(real):
    real.open("model=gpt&devices=2&time_limit=2")
    assert real.state in ("optimal", "feasible")
    assert lanes(real) == {"GPU 0", "GPU 1"}
    two = real.boxes
    real.change(lambda: real.slide("devices", 2))
    assert real.state in ("optimal", "feasible")
    assert lanes(real) == {"GPU 0", "GPU 1", "GPU 2", "GPU 3"}
    assert real.boxes != two


@pytest.mark.slow
def test_a_link_of_the_first_version_keeps_its_mini_batch(real):
    real.open(SMALL)
    assert "mini-batch 32" in real.text("kpis")
    assert "mini_batch=32" in real.query
    real.open(SMALL + "&v=2")
    assert "mini-batch 64" in real.text("kpis")
    assert re.search(r"Iteration time\n\S+ .?s\n\S+ to \S+ .?s", real.text("kpis"))
    assert "mini_batch" not in real.query
    assert "v=3" in real.query


def test_a_cap_too_small_for_the_model_is_infeasible_until_the_offered_cap_is_set(real):
    real.open("model=gpt&devices=2&memory=1073741824&time_limit=2")
    assert real.state == "infeasible"
    assert "No plan fits" in real.text("banner")
    real.change(lambda: real.click("[data-act=cap]"))
    assert real.state in ("optimal", "feasible")


@pytest.mark.slow
def test_ways_out_of_an_infeasible_question_are_solved_and_one_click_away(real):
    real.open("model=gpt&devices=2&memory=4294967296&micro_batches=8&time_limit=5")
    assert real.state == "infeasible"
    ways = real.until(lambda: real.browser.find_elements("css selector", "#banner [data-act=go-way]"))
    assert "activations" in real.text("banner")
    taken = ways[0].get_attribute("aria-label")
    assert taken.startswith("Go to: all 74.5 GiB of each H100-80GB, ")
    real.change(lambda: real.click("#banner [data-act=go-way]"))
    assert real.state in ("optimal", "feasible")
    assert "memory" not in real.query


@pytest.mark.slow
def test_inference_has_no_backward(real):
    real.at(SMALL)
    assert [name for name, _ in real.bars if "backward" in name]
    real.change(lambda: real.put("phase", "false"))
    assert not [name for name, _ in real.bars if "backward" in name]
    real.change(lambda: real.put("phase", "true"))


def test_another_precision_is_traced_anew(real):
    real.at(SMALL)
    before = real.text("kpis")
    real.change(lambda: real.put("dtype", "bf16"))
    assert real.state in ("optimal", "feasible")
    assert real.text("kpis") != before
    real.change(lambda: real.put("dtype", "auto"))


def test_planners_are_compared_and_the_plan_of_any_can_be_shown(real):
    real.open("model=gpt-small&devices=2&time_limit=0.5")
    real.js("[...document.querySelectorAll('[role=tab]')].find((tab) => tab.innerText === 'Compare').click()")
    real.js("document.getElementById('compare').click()")
    real.until(lambda: "proved" in real.text("compare-note"))
    real.until(lambda: real.js("return document.getElementById('compare-stop').disabled"))
    real.settle()
    assert real.state in ("optimal", "feasible")
    text = real.text("comparison")
    assert "internal error" not in text
    assert {"auto", "linear-dp", "equal", "single", "latency-dp"} <= set(re.findall(r"[a-z][a-z-]+", text))
    row = "[...document.querySelectorAll('#comparison .row-link')].find((link) => link.innerText === 'equal')"
    real.change(lambda: real.js(f"{row}.click()"))
    assert "planner=equal" in real.query
    assert "equal" in real.text("status")
    assert lanes(real) == {"GPU 0", "GPU 1"}


def test_single_operators_are_placed_while_the_curve_of_the_search_grows(real):
    real.open("model=rnnlm-small&objective=makespan&planner=joint&devices=2&time_limit=1")
    assert real.state in ("optimal", "feasible")
    assert "Step " in real.text("why")
    assert "plan" in real.text("search-mini")
    real.click("#gantt-path")
    path = "return window.explorer.gantt.drawn().over.some((shape) => shape.name === 'path')"
    real.until(lambda: real.js(path))


def test_the_web_process_does_not_import_torch():
    import subprocess
    import sys

    script = "import sys, explorer.web.app, explorer.web.serving.jobs_backend; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.slow
def test_interleaved_gives_devices_several_stages_with_any_planner(real):
    for planner in ("auto", "interleaved"):
        real.open(f"model=gpt-small&devices=2&micro_batches=8&pipeline=interleaved&planner={planner}&effort=quick&v=3")
        real.js("document.querySelector('#gantt-rows [data-value=stages]').click()")
        real.until(lambda: len(real.js(ROW_NAMES)) >= 4)


def test_cores_are_not_called_gpus(real):
    real.open("model=gpt-small&devices=2&device_kind=cpu-core&micro_batches=4&effort=quick&v=3")
    assert "GPU" not in real.text("memory-cards")
    assert "GPU" not in real.text("why").partition("\n")[2].partition("\n")[0]
    assert not [name for name in real.js(ROW_NAMES) if "GPU" in name]


@pytest.mark.slow
def test_every_level_of_modules_shows_more_than_the_one_before(real):
    real.open(SMALL + "&v=3")
    for _ in range(8):
        real.js("document.getElementById('shallower').click()")
    real.settle()
    counts = [len(real.boxes)]
    while real.js("return !document.getElementById('deeper').disabled") and len(counts) < 9:
        depth = real.text("graph-depth")
        real.js("document.getElementById('deeper').click()")
        try:
            real.until(lambda depth=depth: real.text("graph-depth") != depth, 5)
        except AssertionError:  # the last one
            break
        real.settle()
        counts.append(len(real.boxes))
    assert len(counts) > 2
    assert counts == sorted(set(counts)), counts
