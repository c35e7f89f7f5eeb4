"""result.json comes back as it was, and nothing but a whole, limited one is read."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from explorer.runner.bundles import result_json
from explorer.runner.bundles.outcome import (
    Agreement,
    Environment,
    MeasuredAction,
    MeasuredMessage,
    Outcome,
    RunStatus,
    Way,
    judged,
)
from explorer.runner.bundles.request import RunRequest, read_request, request_json
from explorer.runner.bundles.result_json import outcome_text, read_outcome
from solvers.errors import InvalidProblem

FULL = Outcome(
    RunStatus.DONE,
    environment=Environment(("a", "b"), ("cpu", "cpu"), "gloo", "2.13.0", "3.11.7", 1, "2026-11-21T16:00:00Z", True),
    iterations_s=(0.5, 0.25),
    actions=(MeasuredAction(0, 0, "0F0", 0.0, 0.125), MeasuredAction(1, 1, "1U", -0.001, 0.25, 0.0625, 0.03125)),
    messages=(MeasuredMessage(0, 1, 0, 1, 0, "0SEND1", 4096, 0.125, 0.126, True),),
    segments=((0,), (1, 2)),
    rank_devices=(0, 3),
    peak_bytes=(1024.0, 0.0),
    losses=(2.5, 2.25),
    noise=0.01,
    agreement=Agreement(1e-12, 2e-12, 0.0, "head.weight", "float64", 12, Way.STAGES, 3),
    operators_s={"head": 0.001},
    notes=("fewer cores than ranks",),
)


def changed(**changes: Any) -> str:
    return json.dumps(json.loads(outcome_text(FULL)) | changes)


def test_an_outcome_comes_back_as_it_was() -> None:
    assert read_outcome(outcome_text(FULL)) == FULL
    failed = Outcome(RunStatus.FAILED, "rank 1 was killed", 1)
    assert read_outcome(outcome_text(failed)) == failed


def test_a_result_of_before_was_compared_with_the_whole_model() -> None:
    value = json.loads(outcome_text(FULL))
    del value["agreement"]["way"], value["agreement"]["undefined"]
    agreement = read_outcome(value).agreement
    assert agreement is not None
    assert (agreement.way, agreement.compared) == (Way.WHOLE, 12)


def test_what_a_run_differs_from_is_stated() -> None:
    wrong = Agreement(0.5, 0.0, 0.0, "w", "float32", 1, Way.STAGES)
    assert judged(Outcome(RunStatus.DONE, agreement=wrong)).reason == (
        "it differs from the model computed stage after stage, relative: losses by 5.0e-01 (worst: w)"
    )


@pytest.mark.parametrize("way", [None, *Way])
def test_a_request_comes_back_as_it_was(way: Way | None) -> None:
    request = RunRequest(verify=True, verify_by=way, samples=(1, 2))
    assert read_request(json.loads(json.dumps(request_json(request)))) == request


def test_a_request_for_an_unknown_comparison_is_refused() -> None:
    with pytest.raises(InvalidProblem, match="verify_by: expected one of whole, stages, found 'half'"):
        read_request({"verify": True, "verify_by": "half"})


def test_a_loss_that_is_not_a_number_and_a_gradient_without_end_are_reported_as_null() -> None:
    agreement = Agreement(math.inf, 0.0, 0.0, "w", "float32")
    text = outcome_text(Outcome(RunStatus.DONE, losses=(math.nan, 1.0), agreement=agreement))
    assert "NaN" not in text
    back = read_outcome(text)
    assert math.isnan(back.losses[0])
    assert back.losses[1] == 1.0
    assert back.agreement == agreement


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "ends too early"),
        (outcome_text(FULL)[:-20], "ends too early"),
        (changed(format="placement-explorer/plan"), '"format": "placement-explorer/run"'),
        (changed(version=2), "version 1"),
        (changed(status="fine"), "result.json: status: expected one of done, failed"),
        (changed(culprit=-2), "culprit"),
        (changed(surprise=1), "surprise: unknown field"),
        (changed(iterations_s=[0.5, -1]), "iterations_s[1]: expected a finite number >= 0"),
        (changed(iterations_s=[True]), "iterations_s[0]"),
        (outcome_text(FULL).replace("[0.5,0.25]", "[NaN]"), "NaN is not JSON"),
        (changed(actions={"fields": ["rank"], "rows": []}), "actions.fields: expected the fields rank, iteration"),
        (changed(segments=[[0], "1"]), "segments[1]: expected a list"),
        (changed(noise=-1), "noise"),
        (changed(operators_s={"head": "fast"}), "operators_s['head']"),
        (changed(environment={"hosts": []}), "environment.devices: missing"),
        (changed(notes=["x" * 20_000]), "notes[0]"),
    ],
)
def test_what_is_not_a_result_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(InvalidProblem) as refusal:
        read_outcome(text)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0, 0, "0F0", 0.0, 0.1], "a list of 7"),
        ([5000, 0, "0F0", 0.0, 0.1, 0.0, 0.0], "rows[0][0]"),
        ([0, 0, "F0", 0.0, 0.1, 0.0, 0.0], "'F0' is not a step"),
        ([0, 0, "0F0", 0.0, None, 0.0, 0.0], "rows[0][4]"),
    ],
)
def test_every_cell_of_a_row_is_looked_at(row: list[object], message: str) -> None:
    actions = json.loads(outcome_text(FULL))["actions"] | {"rows": [row]}
    with pytest.raises(InvalidProblem) as refusal:
        read_outcome(changed(actions=actions))
    assert message in str(refusal.value)


def test_of_a_long_run_whole_iterations_are_kept_and_a_note_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_json, "MAX_ROWS", 5)
    actions = tuple(MeasuredAction(rank, i, "0F0", 0.0, 1.0) for rank in (0, 1) for i in range(4))
    back = read_outcome(outcome_text(Outcome(RunStatus.DONE, actions=actions)))
    assert {action.iteration for action in back.actions} == {0, 1}
    assert len(back.actions) == 4
    assert back.notes == ("of 8 actions the times of the first 4 are kept",)


def test_words_for_people_hold_nothing_that_a_terminal_would_obey() -> None:
    escape = "\x1b]0;mine\x07\x1b[2J"
    environment = Environment((escape,), (escape,), escape, escape, escape, 1, escape)
    agreement = Agreement(0.0, 0.0, 0.0, escape, escape)
    back = read_outcome(
        outcome_text(
            Outcome(RunStatus.FAILED, f"a{escape}\nb", environment=environment, agreement=agreement, notes=(escape,))
        )
    )
    assert back.reason == "a ]0;mine [2J b"
    assert "\\x1b" not in repr(back)
