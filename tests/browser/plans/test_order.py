"""1F1B is 1F1B, the best order stands beside it, and what launchers run is shown before a plan is exported to them."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

START = "model=gpt-small&devices=4&micro_batches=8&effort=quick&v=3"
ORDER = "return (document.querySelector('.order') || {innerText: ''}).innerText"


def test_the_best_order_says_what_launchers_run_in_its_place_and_1f1b_is_one_press_away(real):
    page = real.open(START)
    assert "own order, 8 in flight" in page.text("gantt-count")
    words = page.js(ORDER)
    assert "which launchers do not run: GPU 0 keeps 8 micro-batches in flight" in words
    assert "In 1F1B, as Megatron-LM and DeepSpeed run it, these stages take" in words
    page.click("#export-menu summary")
    assert "Megatron-LM, DeepSpeed and torchtitan run these stages in 1F1B" in page.text("export-note")
    page.js("document.getElementById('export-menu').open = false")
    page.change(lambda: page.js("document.querySelector('.order [data-act=set]').click()"))
    assert "pipeline=1f1b" in page.query
    assert "1F1B" in page.text("gantt-count")
    assert "own order" not in page.text("gantt-count")
    assert page.js(ORDER).startswith("1F1B, as Megatron-LM and DeepSpeed run it.")


def test_1f1b_in_an_old_link_is_what_it_was(real):
    page = real.open("model=gpt-small&devices=4&micro_batches=8&effort=quick&v=2&pipeline=1f1b")
    assert page.js("return document.getElementById('pipeline').value") == "kfkb"
    assert "own order" in page.text("gantt-count")


@pytest.mark.slow
def test_what_is_assumed_stands_in_the_header_one_press_from_being_changed(real):
    page = real.open()
    assert page.text("assumed").split("\n") == ["NVLink 450 GB/s", "bf16 mixed, Adam"]
    assert "dtype=bf16" in page.query
    assert "precision=mixed" in page.query
    page.click("#assumed [data-arg=wiring]")
    assert page.js("return document.activeElement.closest('[data-term]').dataset.term") == "wiring"
    page.change(lambda: page.put("wiring", "measured"))
    assert "NVLink 356 GB/s" in page.text("assumed")
    assert "wiring=measured" in page.query
    page.change(lambda: page.put("wiring", "plain"))
    assert "links of 25 GB/s" in page.text("assumed")
    page.change(lambda: page.put("dtype", "fp32"))
    assert "precision=mixed" not in page.query
    assert page.text("assumed").endswith("fp32, Adam")
    page.change(lambda: page.put("precision", "mixed"))
    assert "dtype=bf16" in page.query


def test_an_old_link_keeps_its_links_and_its_number_format(real):
    page = real.open("model=gpt-small&devices=4&micro_batches=8&effort=quick&v=2")
    assert page.text("assumed").split("\n") == ["links of 25 GB/s", "model's dtype, Adam"]
    assert "wiring" not in page.query
