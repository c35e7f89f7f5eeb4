"""Traces of a run elsewhere, opened on the page: laid over the plan that ran, or refused."""

from __future__ import annotations

import shutil

import pytest

from solvers.formats.plan_json import write_plan
from tests.explorer.measured.traces.made import iterations, two_stages, write_ranks

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

START = "model=gpt-small&devices=2&micro_batches=4&effort=quick&time_limit=3&v=2"


def test_traces_are_laid_over_the_plan_that_was_opened(real, tmp_path):
    page = real.at(START)
    (tmp_path / "plan.json").write_text(write_plan(*two_stages()))
    archive = shutil.make_archive(str(tmp_path / "traces"), "zip", write_ranks(tmp_path / "run", iterations()))
    chosen = page.find("#open-input")
    chosen.send_keys(archive)  # of another model's plan
    page.until(lambda: "This file was not opened" in page.text("banner"))
    assert page.js("return document.body.dataset.run") != "measured"
    chosen.send_keys(str(tmp_path / "plan.json"))
    page.until(lambda: "plan of plan.json" in page.text("status"))
    chosen.send_keys(archive)
    page.until(lambda: page.js("return document.body.dataset.run") == "measured")
    assert page.text("status").find("plan of traces.zip") >= 0
    page.click("#run-open")
    page.until(lambda: "3 iterations of 2 ranks" in page.text("run-body"))
    assert "110 µs" in page.text("run-body")
    assert "Bundle" not in page.text("run-body")
