"""Both ends of a model hold what they share, where that is asked for."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import explorer
from explorer.cli.flags import add_phase, add_problem, settings_of
from explorer.costs.trained_in import assumed_notes, notes_of_model
from explorer.question.loading import load
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.reviews.review import review
from explorer.runner.bundles.bundle import write_bundle
from explorer.runner.bundles.outcome import RunStatus
from explorer.runner.bundles.reproduce import RANK_MODULE
from explorer.runner.bundles.request import RunRequest
from explorer.runner.targets.local import LocalTarget
from solvers.errors import InvalidProblem
from solvers.formats.plan_json import read_plan, write_plan
from solvers.formats.workload import Workload
from solvers.problem.problem import Contiguity


class Ends(nn.Module):
    """A language model of one layer, whose head is its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.layer, self.head = nn.Embedding(64, 8), nn.Linear(8, 8), nn.Linear(8, 64, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.layer(self.tokens(tokens)))


def make() -> tuple[nn.Module, tuple[Tensor]]:
    return Ends(), (torch.arange(8).reshape(4, 2),)


def workload(training: bool = False) -> Workload:
    return explorer.trace(*make(), training=training)


PINS = {"tokens": 0, "layer": 0, "head": 1}


def test_pins_may_take_the_ends_apart_and_the_plan_says_who_holds_what() -> None:
    result = explorer.plan(workload(), devices=2, micro_batches=2, copy_tied=True, pins=PINS)
    assert result.plan is not None
    assert result.plan.devices_used() == (0, 1)
    held = "tokens.weight = head.weight is held on GPU 0 and GPU 1: 2 KiB more"
    assert assumed_notes(result.problem, result.plan) == [held]
    findings = review(result.problem, result.plan, result)
    assert [line.reason for line in findings.lines if line.what == "tied parameters"] == [held]
    with pytest.raises(InvalidProblem, match=r"they share tokens\.weight"):
        explorer.plan(workload(), devices=2, pins=PINS)


def test_without_copies_a_note_says_that_they_could_be_had() -> None:
    result = explorer.plan(workload(), devices=2, micro_batches=2)
    shown = (
        "--copy-tied gives each reader of tokens.weight = head.weight a copy (2 KiB more), so that they need not share"
    )
    assert assumed_notes(result.problem, result.plan) == [f"{shown} a device"]
    alone = explorer.plan(workload(), devices=1, micro_batches=2)
    assert assumed_notes(alone.problem, alone.plan) == []


def test_a_note_of_the_trace_that_copies_make_untrue_is_left_out() -> None:
    shared = make_problem(workload(), Settings(devices=2))
    copied = make_problem(workload(), Settings(devices=2, copy_tied=True))
    assert any(note.startswith("tied parameter: ") for note in notes_of_model(shared, workload().notes))
    assert notes_of_model(copied, workload().notes) == []
    assert copied.contiguity is Contiguity.ACYCLIC


def test_a_flag_asks_for_copies_and_a_line_refuses_them() -> None:
    parser = argparse.ArgumentParser()
    add_problem(parser)
    add_phase(parser)
    assert settings_of(parser.parse_args(["--copy-tied"])).copy_tied
    assert not settings_of(parser.parse_args([])).copy_tied
    with pytest.raises(InvalidProblem, match="for inference: in training"):
        make_problem(workload(training=True), Settings(devices=2, copy_tied=True))
    with pytest.raises(InvalidProblem, match="leave one of them out"):
        make_problem(workload(), Settings(devices=2, copy_tied=True, together=(("tokens", "head"),)))


@pytest.mark.slow
def test_two_processes_with_a_copy_each_compute_what_the_whole_model_does(tmp_path: Path) -> None:
    workload = load(f"{__name__}:make", training=False)
    result = explorer.plan(workload, devices=2, micro_batches=2, copy_tied=True, pins=PINS)
    assert result.plan is not None
    text = write_plan(result.problem, result.plan, reference=workload.reference)
    assert read_plan(text).problem.copy_tied
    request = RunRequest(steps=1, warmup=0, verify=True, allow_model=True)
    folder = write_bundle(tmp_path / "run", text, request, "local").folder
    outcome = LocalTarget("local", module=RANK_MODULE).run(text, request, 2, folder, lambda _: None, lambda: False)
    assert outcome.status is RunStatus.DONE, outcome.reason
    assert outcome.agreement is not None
    assert outcome.agreement.holds
