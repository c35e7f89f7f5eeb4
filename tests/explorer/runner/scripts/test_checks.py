"""Everything that is wrong with a plan is found before it is launched, and nothing with a sound one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.runner.scripts.checks import Level, check
from explorer.runner.scripts.executable import OPTIMIZERS, not_run
from solvers.plan.plan import Plan, Stage, parse_action
from solvers.problem.engine import EngineCosts
from solvers.problem.graph import OpGraph
from solvers.problem.problem import Objective, Optimizer, Precision, Problem
from solvers.problem.regions import recomputing
from tests.explorer.runner.scripts.random_plans import random_plan
from tests.instances import problem, training_graph

CHAIN = [(0, 1), (1, 2), (2, 3)]
GRAPH = training_graph(CHAIN, 4, nbytes=1.0, param_bytes=8.0, saved=1.0)
ORDER = ("0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1")


def sound(graph: OpGraph = GRAPH, gpus: int = 2, **options: object) -> Problem:
    return problem(graph, [1.0] * 8, gpus, mini_batch=2, micro_batches=2, **options)


def planned(*forward: tuple[int, ...], order: tuple[str, ...] = ORDER, devices: tuple[int, ...] = (0, 1)) -> Plan:
    stages = tuple(
        Stage((*own, *(4 + o for o in own)), (device,)) for own, device in zip(forward, devices, strict=True)
    )
    return Plan(stages, tuple(tuple(map(parse_action, row.split())) for row in order))


PLAN = planned((0, 1), (2, 3))


def findings_of(p: Problem, plan: Plan, **options: object) -> list[tuple[str, str]]:
    return [(finding.level.value, finding.message) for finding in check(p, plan, **options)]  # type: ignore[arg-type]


def only(findings: list[tuple[str, str]], level: Level, *parts: str) -> None:
    assert len(findings) == 1, findings
    assert findings[0][0] == level
    for part in parts:
        assert part in findings[0][1], findings[0][1]
    assert "\n" not in findings[0][1]


def test_a_sound_plan_has_no_findings() -> None:
    assert check(sound(memory=100.0), PLAN, ranks_available=2, memory=[100.0, 100.0]) == []


def test_random_plans_that_the_simulator_runs_have_no_errors() -> None:
    for seed in range(80):
        drawn = random_plan(seed)
        if drawn is not None:
            assert [f for f in check(drawn[0], drawn[1]) if f.level is Level.ERROR] == [], seed


def test_operators_and_parameters_on_no_device() -> None:
    only(findings_of(sound(), planned((0, 1), (2,))), Level.ERROR, "parameters of 'd'", "on no device")
    plain = replace(GRAPH, operators=tuple(replace(o, param_bytes=0.0) for o in GRAPH.operators))
    only(findings_of(sound(plain), planned((0, 1), (2,))), Level.ERROR, "'d': on no device")


def test_operators_in_two_stages() -> None:
    only(findings_of(sound(), planned((0, 1, 2), (2, 3))), Level.ERROR, "parameters of 'c'", "in several stages")


def test_copies_of_replicable_operators_are_fine() -> None:
    source = replace(GRAPH.operators[0], replicable=True, param_bytes=0.0)
    graph = replace(GRAPH, operators=(source, *GRAPH.operators[1:]))
    plan = planned((0, 1), (2, 3))
    first, second = plan.stages
    plan = replace(plan, stages=(first, replace(second, operators=(0, *second.operators))))
    assert findings_of(sound(graph), plan) == []


def test_a_device_without_a_stage() -> None:
    order = (*ORDER, "")
    only(
        findings_of(sound(gpus=3), planned((0, 1), (2, 3), order=order)),
        Level.WARNING,
        "no stage is on device 2 (GPU 2)",
    )


def test_fewer_ranks_than_devices() -> None:
    only(findings_of(sound(), PLAN, ranks_available=1), Level.ERROR, "needs 2 ranks, the target has 1")


def test_tied_parameters_on_two_devices() -> None:
    tied = tuple(replace(o, colocation="tie") if o.name in "ad" else o for o in GRAPH.operators)
    only(
        findings_of(sound(replace(GRAPH, operators=tied)), PLAN),
        Level.ERROR,
        "'a', 'd' must share a device (tie)",
        "[0], [1]",
    )


def test_stages_that_wait_for_each_other() -> None:
    only(findings_of(sound(), planned((0, 2), (1, 3))), Level.ERROR, "stages 0 -> 1 -> 0 wait for each other")


def test_an_order_that_deadlocks_is_reported_in_one_line() -> None:
    plan = planned((0, 1), (2, 3), order=("0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"))
    only(findings_of(sound(), plan), Level.ERROR, "the order deadlocks: 0B0 on device 0 waits for 1B0 on device 1")


def test_memory_over_the_devices_cap_or_what_a_rank_has() -> None:
    findings = findings_of(sound(memory=68.0), PLAN)
    only(findings, Level.ERROR, "rank 0 (device 0) is predicted to hold 69 bytes", "more than the 68")
    findings = findings_of(sound(), PLAN, memory=[1000.0, 65.0])
    only(findings, Level.ERROR, "rank 1 (device 1) is predicted to hold", "more than the 65")


def test_steps_that_cost_more_than_they_compute() -> None:
    quick = replace(sound(bandwidth=1e6), compute=problem(GRAPH, [1e-4] * 8, 2).compute)
    only(
        findings_of(quick, PLAN),
        Level.WARNING,
        "does 4 steps",
        "about 100 microseconds",
        "0.4 ms more than the predicted",
    )


def test_a_calibration_says_what_a_step_costs() -> None:
    """Two forwards of 20 us and two backwards of 60: 0.16 ms, 40 us on average. Of a fast engine nothing is said."""
    quick = replace(sound(bandwidth=1e6), compute=problem(GRAPH, [1e-4] * 8, 2).compute)
    slow, fast = (EngineCosts(1.0, step / 3, step, sent_s=1.0) for step in (60e-6, 6e-6))
    assert check(replace(quick, engine=fast), PLAN) == []
    findings = findings_of(replace(quick, engine=slow), PLAN)
    only(
        findings,
        Level.WARNING,
        "does 4 steps",
        "costs as calibrated 40 microseconds",
        "0.16 ms more than the predicted",
    )


def test_replicas_that_would_split_a_sample() -> None:
    plan = Plan((Stage(tuple(range(8)), (0, 1)),), tuple(tuple(map(parse_action, ORDER[0].split())) for _ in "ab"))
    only(
        findings_of(sound(max_replicas=2), plan),
        Level.ERROR,
        "stage 0: 2 replicas cannot share micro-batches of 1 sample",
    )


def test_micro_batches_that_do_not_divide_the_mini_batch() -> None:
    plan = replace(PLAN, stages=tuple(replace(stage, micro_batch_size=3) for stage in PLAN.stages))
    findings = findings_of(sound(), plan)
    assert [level for level, _ in findings] == ["error", "error"]
    assert "micro-batches of 3 samples do not divide the mini-batch of 2" in findings[0][1]


def test_gradients_of_parameters_that_cannot_wait_as_planned() -> None:
    from tests.explorer.runner.scripts.test_segments import ZERO_BUBBLE, apart_graph, mirrored

    graph = apart_graph(CHAIN, 4)
    p = problem(graph, [1.0] * len(graph), 2, mini_batch=2, micro_batches=2, recompute=True)
    stages = tuple(Stage(mirrored(graph, pair), (d,), 1, 2, d == 0) for d, pair in enumerate([(0, 1), (2, 3)]))
    plan = Plan(stages, tuple(tuple(map(parse_action, row.split())) for row in ZERO_BUBBLE))
    only(findings_of(p, plan), Level.WARNING, "stage 0 recomputes its forward", "do not wait, as planned")


def test_a_plan_of_another_model_or_cluster() -> None:
    plan = replace(PLAN, stages=(PLAN.stages[0], Stage((2, 3, 40), (1,))))
    only(findings_of(sound(), plan), Level.ERROR, "stage 1 holds operators that the graph does not have")
    findings = findings_of(sound(gpus=1), PLAN)
    assert ("error", "stage 1 is on [1], but there are 1 devices: plan again") in findings
    assert all(level == "error" for level, _ in findings)


def test_a_plan_of_single_operators_may_go_back_and_forth() -> None:
    p = sound(objective=Objective.MAKESPAN)
    plan = planned((0,), (1,), (2,), (3,), order=("0F0 2F0 2B0 0B0", "1F0 3F0 3B0 1B0"), devices=(0, 1, 0, 1))
    assert findings_of(p, plan) == []


@pytest.mark.parametrize("optimizer", ["adafactor", *OPTIMIZERS])
def test_an_optimizer_that_is_not_run_is_refused_unless_another_is_requested(optimizer: str) -> None:
    p = sound(optimizer=Optimizer(optimizer))
    if optimizer in OPTIMIZERS:
        assert findings_of(p, PLAN) == []
    else:
        only(
            findings_of(p, PLAN),
            Level.ERROR,
            "optimizer adafactor is planned for and not run",
            "--optimizer sgd, momentum",
        )
        assert findings_of(p, PLAN, optimizer="adamw") == []


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_replicas_share_out_states_and_nothing_else(zero: int) -> None:
    p = sound(zero=zero, max_replicas=2)
    assert findings_of(p, PLAN) == []  # nobody to share with
    pair = replace(PLAN, stages=(replace(PLAN.stages[0], devices=(0, 1)), PLAN.stages[1]))
    lines = list(not_run(p, pair, None))
    assert len(lines) == (zero > 1)
    assert all(line.startswith(f"ZeRO-{zero} is planned for and not run") for line in lines)
    assert all(line.endswith("plan with --zero 1") for line in lines)


def test_regions_that_run_again_are_run() -> None:
    graph = replace(GRAPH, operators=tuple(replace(o, checkpoint="layer") for o in GRAPH.operators))
    assert findings_of(recomputing(sound(graph)), PLAN) == []


def test_a_precision_that_is_not_run_is_refused() -> None:
    only(findings_of(sound(precision=Precision.MIXED), PLAN), Level.ERROR, "precision mixed is planned for and not run")
