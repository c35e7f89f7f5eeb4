"""Traces that were handed in are laid over a plan where files of other people are read."""

from __future__ import annotations

import shutil

import pytest

from explorer.jobs.held_plans import packed_text, unpacked_text
from explorer.jobs.read_kind import opened
from explorer.jobs.requests import LayTracesRequest, PlanSource
from explorer.jobs.traces_kind import lay_traces_job
from explorer.jobs.workers import worker
from explorer.view.events import unpacked
from solvers.formats.plan_json import read_plan, write_plan
from tests.explorer.measured.traces.made import iterations, two_stages, write_ranks


@pytest.fixture
def archive(tmp_path):
    folder = write_ranks(tmp_path / "run", iterations())
    return shutil.make_archive(str(tmp_path / "kept"), "zip", folder)


def laid(path, name="run.zip"):
    problem, plan = two_stages()
    source = PlanSource(text=packed_text(write_plan(problem, plan)))
    events = []
    worker.run(lay_traces_job, LayTracesRequest(source, path, name), events.append, lambda: False)
    return events


def test_they_are_known_by_what_is_in_them(archive, tmp_path):
    assert opened(archive, "run.zip")["what"] == "traces"
    assert opened(str(tmp_path / "run" / "trace0.json.gz"), "trace0.json.gz")["what"] == "traces"


def test_they_are_a_run_of_the_plan_without_a_bundle(archive):
    loading, event = laid(archive)
    assert loading["text"] == "laying run.zip over the plan"
    run = event["run"]
    assert run["report"]["measured_s"] == pytest.approx(110e-6)
    assert (run["folder"], run["bundle"], run["command"]) == ("", "", "")
    assert unpacked(run["plan"])["held"] == run["held"]
    assert read_plan(unpacked_text(run["text"])).plan == two_stages()[1]


def test_those_of_another_plan_are_refused_under_their_name(tmp_path):
    path = write_ranks(tmp_path / "run", iterations()[:1]) / "trace0.json.gz"
    _, event = laid(str(path), "mine.json.gz")
    assert event["kind"] == "failed"
    assert "that of rank 1 is missing" in event["message"]
    assert str(tmp_path) not in event["message"]
