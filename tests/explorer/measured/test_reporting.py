"""What is reported of a run: hardware, noise, tables, bars, rankings; and what is refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from explorer.measured import compare_run, comparison_object, rank_agreement, rows
from explorer.measured.notes import same_hardware
from explorer.measured.reporting import measured_bars
from explorer.runner.bundles.outcome import Agreement, Environment, MeasuredAction, MeasuredMessage, Outcome, RunStatus
from explorer.words.text import signed_share
from solvers.errors import InvalidPlan, InvalidProblem, RunError
from solvers.plan.drafts import Draft, DraftStage
from solvers.problem.problem import ComputeTable, Objective
from solvers.schedules.realise import realise
from tests.explorer.measured.measured_instances import one_operator, outcome, two_devices
from tests.explorer.measured.measured_runs import run_of, slowed
from tests.instances import GPU, problem, training_graph


def test_a_run_of_other_hardware_is_reported():
    given, plan = two_devices(costs_from="roofline estimate, H100-80GB, fp32")
    cluster = replace(given.cluster, devices=tuple(replace(d, kind="H100-80GB") for d in given.cluster.devices))
    given = replace(given, cluster=cluster, compute=ComputeTable((1,), {"H100-80GB": given.compute.seconds[GPU]}))
    run = run_of(given, plan)

    def notes(hardware: str, backend: str) -> str:
        where = Environment(("h", "h"), (hardware,) * 2, backend, "2.13.0", "3.11", 1, "2026-11-21")
        return " ".join(compare_run(given, plan, replace(run, environment=where)).notes)

    assert "of other hardware" in notes("AMD EPYC 9654", "gloo")
    assert "of other hardware" in notes("NVIDIA H200", "nccl")
    assert "of other hardware" not in notes("NVIDIA H100 80GB HBM3", "nccl")


@pytest.mark.parametrize(
    ("kind", "ran", "costs_from", "same"),
    [
        ("measured-intel-r-xeon-r", "Intel(R) Xeon(R)", "measured on 2 x Intel(R) Xeon(R), fp32", True),
        ("measured-amd-epyc", "Intel(R) Xeon(R)", "measured on 2 x AMD EPYC", False),
        ("cpu", "Intel(R) Xeon(R)", "roofline estimate, cpu, fp32", False),
        ("cpu", "Intel(R) Xeon(R)", "stated in the file", True),
        ("L4-24GB", "NVIDIA L40S", "roofline estimate, L4-24GB, bf16", False),
        ("gpu", "NVIDIA L4", "given", True),
    ],
)  # fmt: skip
def test_hardware_is_distinguished_by_name(kind, ran, costs_from, same):
    assert same_hardware(kind, ran, costs_from, "gloo") is same


@pytest.mark.parametrize(
    ("noise", "word"),
    [(None, "noise unknown"), (0.01, "quiet"), (0.02, "some noise"), (0.05, "some noise"), (0.06, "noisy")],
)
def test_noise_has_a_word(noise, word):
    given, plan = two_devices()
    compared = compare_run(given, plan, replace(run_of(given, plan), noise=noise))
    assert compared.noise_word == word
    assert any("was noisy" in note for note in compared.notes) is (word == "noisy")


def test_gradients_that_the_plan_has_apart_and_the_run_in_one_piece_are_reported():
    given, plan = one_operator([1, 2, 4, 1], 2)
    shown = compare_run(given, plan, outcome("0F0 1 0F1 1 0B0 6 0B1 6 0U 1")).notes
    assert any("in one piece" in note for note in shown)
    given, plan = one_operator([1, 2, 4, 1])
    assert not any("in one piece" in note for note in compare_run(given, plan, outcome("0F0 1 0B0 6 0U 1")).notes)


def test_what_a_run_says_about_itself_is_kept():
    given, plan = two_devices()
    agreement = Agreement(1e-12, 2e-10, 0.0, "b.weight", "float64")
    run = replace(run_of(given, plan), agreement=agreement, losses=(1.5,), notes=("dropout was off",))
    compared = compare_run(given, plan, run)
    assert (compared.agreement, compared.losses) == (agreement, (1.5,))
    assert compared.notes[-1] == "dropout was off"


def test_a_run_without_a_measured_iteration_is_refused():
    given, plan = two_devices()
    failed = Outcome(RunStatus.FAILED, reason="rank 1 was killed")
    with pytest.raises(RunError, match=r"failed.* measured no iteration: rank 1 was killed"):
        compare_run(given, plan, failed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"segments": ((0,), (7,))}, "stages \\[7\\], but the plan has 2"),
        ({"rank_devices": (0, 9)}, "rank 1 of the run is device 9"),
        ({"rank_devices": (0, 0)}, "device 1 of the plan has no rank"),
        ({"segments": ((0,),)}, "no action of its 1 segments"),
        ({"actions": (MeasuredAction(5, 0, "0F0", 0.0, 1.0),)}, "rank 5, but has 2 ranks"),
        ({"actions": (MeasuredAction(0, 0, "0SEND0", 0.0, 1.0),)}, "is no action"),
        ({"actions": (MeasuredAction(0, 0, "hello", 0.0, 1.0),)}, "'hello' is not a step"),
        ({"messages": (MeasuredMessage(0, 0, 0, 4, 0, "", 1, 0.0, 1.0, True),)}, "message"),
    ],
)
def test_a_run_of_another_plan_is_refused(change, message):
    given, plan = two_devices()
    with pytest.raises(InvalidPlan, match=message):
        compare_run(given, plan, replace(run_of(given, plan), **change))


def test_samples_that_cannot_be_split_cannot_have_been_run():
    given = problem(training_graph([], 1), [1, 2], 2, objective=Objective.ITERATION, max_replicas=2)
    plan = realise(given, Draft((DraftStage((0, 1), 1, 2),)))
    with pytest.raises(InvalidProblem, match=r"cannot have run 0\.5 samples"):
        compare_run(given, plan, run_of(given, plan))


def test_transfers_that_a_workload_states_are_no_links():
    given, plan = two_devices(transfer_s=(1.0,) * 4)
    run = run_of(slowed(given, {(1, 1): 2.0}, {}), plan)
    compared = compare_run(given, plan, run)
    assert (compared.links, compared.links_error_s) == ((), 0.0)
    assert compared.schedule_error_s == pytest.approx(0)


def test_the_table_tells_the_errors_in_order_and_adds_up():
    given, plan = two_devices()
    slow = slowed(given, {(1, 1): 2.0, (1, 3): 2.0}, {(0, 1): 3.0})
    compared = compare_run(given, plan, replace(run_of(slow, plan, more_s=1.0), noise=0.013))
    assert rows(compared) == [
        ["predicted", "11 s", ""],
        ["operator costs", "+6 s", "+30 %"],
        ["links", "+2 s", "+10 %"],
        ["schedule model", "+1 s", "+5 %"],
        ["measured", "20 s", "median of 1 iteration, fastest 20 s"],
        ["prediction off by", "−9 s", "−45 %"],
        ["fed with measured times", "19 s", "−5 %"],
        ["each iteration with its own", "", "−5 %"],
        ["bubble", "45.5 % predicted", "55 % measured"],
        ["machine", "quiet", "1.3 %"],
    ]


@pytest.mark.parametrize(
    ("share", "message"), [(0.08, "+8 %"), (-0.004, "−0.4 %"), (-0.0004, "< 0.1 %"), (0.0, "0 %"), (-2.5, "−250 %")]
)
def test_a_share_has_a_sign_unless_it_is_next_to_nothing(share, message):
    assert signed_share(share) == message


def test_the_object_is_json_and_has_both_schedules():
    given, plan = two_devices()
    run = replace(
        run_of(slowed(given, {(1, 1): 2.0}, {}), plan), agreement=Agreement(math.inf, math.nan, 0, "", "float32")
    )
    shown = comparison_object(compare_run(given, plan, run))
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
    assert shown["errors"]["total"]["s"] == pytest.approx(shown["measured_s"] - shown["predicted_s"])
    assert len(shown["bars"]["measured"]["device"]) == 8
    assert shown["agreement"]["gradient"] is None
    first = {name: column[0] for name, column in shown["bars"]["measured"].items()}
    assert (first["kind"], first["segment"], first["predicted_s"], first["wait_s"]) == ("F", 0, 1.0, 0.0)


@pytest.mark.parametrize("limit", [8, 7, 3, 1])
def test_of_many_bars_neighbours_melt_and_no_action_is_lost(limit):
    given, plan = two_devices()
    spans = compare_run(given, plan, run_of(given, plan)).spans
    bars = measured_bars(spans, limit)
    assert len(bars["device"]) <= max(limit, 2)  # one a device at least
    assert sum(bars["spans"]) == len(spans) == 8
    assert sum(bars["predicted_s"]) == sum(span.predicted_s for span in spans) == 12
    assert max(bars["end_s"]) == 11
    if limit == 7:  # of one kind only the forwards of device 0 touch
        assert [n for n in bars["spans"] if n > 1] == [2]


def test_a_ranking_is_spearmans_with_ties_averaged():
    assert rank_agreement([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert rank_agreement([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    # ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: covariance 4.5, spreads 4.5 and 5
    assert rank_agreement([1, 2, 2, 4], [1, 2, 3, 4]) == pytest.approx(4.5 / math.sqrt(4.5 * 5))
    assert math.isnan(rank_agreement([1, 1], [1, 2]))


@pytest.mark.parametrize("values", [([1.0], [1.0]), ([1.0, 2.0], [1.0]), ([1.0, math.inf], [1.0, 2.0])])
def test_a_ranking_needs_two_plans_with_both_values(values):
    with pytest.raises(InvalidProblem, match="a ranking needs"):
        rank_agreement(*values)
