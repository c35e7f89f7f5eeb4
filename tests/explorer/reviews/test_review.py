"""A review reports every fault that is planted, and nothing in a plan without one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.reviews.lines import Line, Verdict, worst
from explorer.reviews.plan_hash import plan_hash
from explorer.reviews.questions import waiting
from explorer.reviews.review import Review, review, review_object, view_of
from explorer.reviews.transfers import transfers
from explorer.view.timeline.bars import MAX_BARS
from solvers.evaluation.evaluate import cut_bytes
from solvers.evaluation.simulation import simulate
from solvers.plan.plan import Action, Plan, Stage
from solvers.plan.result import Result, Status, StopReason
from solvers.problem.cluster import Cluster
from solvers.problem.problem import Objective, Problem
from tests.explorer.view.small import MIB, branches_problem, chain_problem, drafted, even_plan, pair_plans


def line(checked: Review, what: str) -> Line:
    return next(line for line in checked.lines if line.what == what)


def capped(problem: Problem, nbytes: float) -> Problem:
    devices = tuple(replace(device, memory_bytes=nbytes) for device in problem.cluster.devices)
    return replace(problem, cluster=Cluster(devices, problem.cluster.links))


def result_of(problem: Problem, plan: Plan, objective_s: float, bound_s: float) -> Result:
    return Result(problem, plan, Status.FEASIBLE, StopReason.FINISHED, objective_s, bound_s, 0.0, "auto")


def test_a_good_plan_fails_nowhere() -> None:
    problem = chain_problem()
    findings = review(problem, even_plan(problem))
    assert findings.verdict is Verdict.WARN, "no result, so no bound"
    assert [line.what for line in findings.lines if line.verdict is not Verdict.PASS] == [
        "idle time", "distance to the best", "transfer times", "memory sizes",
    ]  # fmt: skip
    assert "all 192 (96 forward, 96 backward" in line(findings, "operators placed").reason
    # 96 operators of 8 MiB, 4 copies of each
    assert "3 GiB on the devices" in line(findings, "bytes held").reason
    # 3 cuts of 4 MiB a sample, there and back, 16 samples
    assert "384 MiB a mini-batch" in line(findings, "bytes sent").reason
    # 4 stages, 8 micro-batches, forward and backward; 6 messages a micro-batch
    assert line(findings, "no deadlock").reason.startswith(
        "64 actions ran in the plan's order, and 48 transfers arrived"
    )
    assert line(findings, "plan hash").reason == plan_hash(problem, even_plan(problem))


@pytest.mark.parametrize("objective", list(Objective))
def test_bytes_one_by_one_are_the_bytes_cut(objective: Objective) -> None:
    for problem in (chain_problem(), branches_problem()):
        question = replace(problem, objective=objective)
        plans = (even_plan(question),) if problem.graph.name == "chain" else pair_plans(question)
        for plan in plans:
            assert sum(sent.total_bytes for sent in transfers(question, plan)) == pytest.approx(
                cut_bytes(question, plan)
            )
            assert {line.verdict for line in review(question, plan).lines if line.what.startswith("bytes")} == {"pass"}


def test_an_operator_in_no_stage_or_in_two_is_a_fail_with_its_name() -> None:
    problem = chain_problem()
    plan = even_plan(problem)
    first, second, *rest = plan.stages
    fewer = replace(plan, stages=(replace(first, operators=first.operators[1:]), second, *rest))
    twice = replace(plan, stages=(first, replace(second, operators=(first.operators[0], *second.operators)), *rest))
    for broken, words in ((fewer, "1 operator in no stage: blocks.0"), (twice, "1 operator in several stages: blocks")):
        findings = review(problem, broken)
        assert line(findings, "operators placed").verdict is Verdict.FAIL
        assert words in line(findings, "operators placed").reason
        assert line(findings, "rules").verdict is Verdict.FAIL
        assert findings.verdict is Verdict.FAIL
        assert findings.view is None


def test_memory_passes_warns_and_fails_by_what_is_left() -> None:
    problem = chain_problem()
    plan = even_plan(problem)
    peak = max(review(problem, plan).metrics.peak_memory_bytes)  # type: ignore[union-attr]
    for cap, verdict, words in (
        (peak * 2, "pass", "50 % free"),
        (peak * 1.01, "warn", "only 1 % free"),
        (peak - MIB, "fail", "1 MiB too much"),
    ):
        findings = review(capped(problem, cap), plan)
        assert line(findings, "memory GPU 0").verdict == verdict
        assert words in line(findings, "memory GPU 0").reason
    assert findings.view is not None, "a plan that does not fit can still be drawn"


def test_a_circle_of_waits_is_a_fail() -> None:
    """Device 0 is to run a backward before the forward that it waits for."""
    problem = chain_problem(2)
    plan = even_plan(problem)
    row = list(plan.order[0])
    backward = next(i for i, action in enumerate(row) if action.kind == "B")
    row.insert(0, row.pop(backward))
    findings = review(problem, replace(plan, order=(tuple(row), *plan.order[1:])))
    assert findings.verdict is Verdict.FAIL
    assert line(findings, "no deadlock").verdict is Verdict.FAIL


def test_one_device_that_does_all_the_work_is_reported() -> None:
    problem = chain_problem(4)
    one = even_plan(chain_problem(1, micro_batches=8))
    plan = replace(one, order=(*one.order, (), (), ()))
    findings = review(problem, plan)
    assert line(findings, "devices in use").verdict is Verdict.WARN
    assert line(findings, "largest transfers").reason == "none: no tensor crosses devices"


def test_a_false_claim_of_the_file_is_a_fail() -> None:
    problem = chain_problem()
    plan = even_plan(problem)
    findings = review(problem, plan, result_of(problem, plan, 1e-3, 0.0))
    assert line(findings, "rules").verdict is Verdict.FAIL
    assert "the file says its objective is 0.001 s" in findings.broken[0]


def test_what_is_measured_passes_and_what_is_estimated_warns() -> None:
    problem = chain_problem()
    for source, verdict in (("roofline estimate, toy", "warn"), ("measured on 2 x toy", "pass"), ("given", "pass")):
        findings = review(replace(problem, costs_from=source), even_plan(problem))
        assert line(findings, "compute times").verdict == verdict
        assert source in line(findings, "compute times").reason


def test_the_hash_names_the_plan_and_not_the_search() -> None:
    problem = chain_problem()
    plan = even_plan(problem)
    same = plan_hash(problem, plan)
    assert plan_hash(problem, even_plan(problem)) == same
    stage: Stage = replace(plan.stages[0], in_flight=plan.stages[0].in_flight + 1)
    assert plan_hash(problem, replace(plan, stages=(stage, *plan.stages[1:]))) != same
    assert plan_hash(replace(problem, mini_batch=32), plan) != same


def test_the_worst_line_decides() -> None:
    lines = [Line("a", verdict, "") for verdict in (Verdict.PASS, Verdict.FAIL, Verdict.WARN)]
    assert worst(lines) is Verdict.FAIL
    assert worst(lines[:1]) is worst(()) is Verdict.PASS
    assert worst(lines[::2]) is Verdict.WARN


def test_a_review_as_json() -> None:
    problem = chain_problem()
    written = review_object(review(problem, even_plan(problem)), problem)
    assert written["verdict"] == "warn"
    assert {line["verdict"] for line in written["lines"]} == {"pass", "warn"}
    assert written["largest_transfers"][0]["bytes"] == 8 * MIB
    assert len(written["plan_sha256"]) == len(written["graph_sha256"]) == 64


def test_the_view_of_a_long_schedule_has_its_spans_one_by_one() -> None:
    """So that a drawing can leave out what repeats; the page's bars are at most 5,000."""
    problem = chain_problem(8, mini_batch=512, micro_batches=256, blocks=8, size=2)
    plan = even_plan(problem)
    view = view_of(problem, plan)
    assert view["spans"] > MAX_BARS
    assert len(view["bars"]["kind"]) == view["spans"]
    assert set(view["bars"]["spans"]) == {1}


def test_replicas_hold_their_bytes_each() -> None:
    """Two replicas of a branch's first half: 2 operators of 8 MiB, 4 copies of each, once more."""
    problem = branches_problem(8)
    members = [[2 * i, 2 * i + 1] for i in range(6)] + [[12]]
    alone, shared = drafted(problem, members), drafted(problem, members, replicas={0: 2})
    for plan, held in ((alone, "416 MiB"), (shared, "480 MiB")):
        row = line(review(problem, plan), "bytes held")
        assert row.verdict is Verdict.PASS
        assert f"{held} on the devices" in row.reason


def test_an_action_that_never_ran_is_a_fail() -> None:
    problem = chain_problem()
    plan = even_plan(problem)
    schedule = simulate(problem, plan)
    assert waiting(problem, plan, schedule).verdict is Verdict.PASS
    more = replace(plan, order=((*plan.order[0], Action(0, "F", 8)), *plan.order[1:]))
    verdict = waiting(problem, more, schedule)
    assert verdict == Line("no deadlock", Verdict.FAIL, "1 action never ran: 0F8 on device 0")


def test_what_stays_on_its_device_is_not_sent() -> None:
    """The join runs where the last branch ends, as a stage of its own."""
    problem = branches_problem()
    members = [[2 * i, 2 * i + 1] for i in range(6)] + [[12]]
    separate, shared = drafted(problem, members), drafted(problem, members, hosts={6: 5})
    for plan, count in ((separate, 12), (shared, 10)):
        assert len(transfers(problem, plan)) == count
        assert line(review(problem, plan), "bytes sent").verdict is Verdict.PASS
