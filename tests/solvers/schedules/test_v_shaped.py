"""Two stages a device in a V: what the papers say of memory and bubbles, where F, I and W take equally long."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import pytest

from solvers.evaluation.evaluate import judge
from solvers.evaluation.simulation import simulate
from solvers.plan.drafts import Draft, DraftStage
from solvers.plan.plan import Plan
from solvers.planners.check import check
from solvers.problem.problem import IN_A_V, Pipeline, Problem
from solvers.schedules.ordering.v_patterns import Step, v_orders
from solvers.schedules.realise import realise
from tests.instances import problem
from tests.solvers.pipelines.test_pipelines import chain

SHARES = {Pipeline.ZB_V: 1.0, Pipeline.V_HALF: 1 / 2, Pipeline.V_MIN: 1 / 3}
"""What is held, as a share of what 1F1B holds, with ever more devices (Qi et al., NeurIPS 2024, section 3.3)."""


def vee(devices: int, micro_batches: int, pipeline: Pipeline, **options: float) -> tuple[Problem, Plan]:
    """A chain of 2 x devices operators, each of whose parts takes a second and saves a byte, in a V."""
    count = 2 * devices
    p = problem(
        chain(count), [1.0] * 3 * count, devices, mini_batch=micro_batches, micro_batches=micro_batches,
        pipeline=pipeline, bandwidth=1e9, **options,
    )  # fmt: skip
    return p, in_v(p, devices)


def in_v(p: Problem, devices: int, replicas: int = 1) -> Plan:
    """The plan with operator i and its backward on device i, then back."""
    count = len(p.graph) // 3
    stages = tuple(DraftStage((i, count + i, 2 * count + i), replicas, replicas) for i in range(count))
    ends = [min(i, count - 1 - i) for i in range(count)]
    pairs = [(i, count - 1 - i) for i in range(count)]
    return realise(p, Draft(stages), [(end,) for end in ends] if replicas == 1 else pairs)


def most_held(order: tuple[Step, ...]) -> int:
    return max(itertools.accumulate((step.kind == "F") - (step.kind == "W") for step in order))


@pytest.mark.parametrize("pipeline", IN_A_V)
@pytest.mark.parametrize(("devices", "micro_batches"), [(1, 3), (2, 1), (2, 8), (3, 4), (5, 20), (6, 24)])
def test_every_part_of_every_micro_batch_runs_once_and_in_order(
    pipeline: Pipeline, devices: int, micro_batches: int
) -> None:
    for order in v_orders(pipeline, devices, micro_batches):
        assert Counter(order) == Counter(
            Step(leg, kind, j) for leg in (0, 1) for kind in "FIW" for j in range(micro_batches)
        )
        assert sorted(order, key=lambda step: step.micro_batch) == sorted(
            order, key=lambda step: (step.micro_batch, order.index(step))
        )
    p, plan = vee(devices, micro_batches, pipeline)
    assert check(p, plan) == ()


@pytest.mark.parametrize("devices", [2, 4, 8, 16])
def test_zb_v_holds_what_1f1b_does_and_idles_only_until_work_comes(devices: int) -> None:
    """Qi et al., ICLR 2024, section 6: the first device of 1F1B holds ``devices`` micro-batches, two halves each."""
    orders = v_orders(Pipeline.ZB_V, devices, 3 * devices)
    assert {most_held(order) for order in orders} == {2 * devices}
    p, plan = vee(devices, 3 * devices, Pipeline.ZB_V)
    assert judge(p, plan).objective_s == 6 * 3 * devices + devices - 1
    assert plan.pipeline == "zb-v"


@pytest.mark.parametrize(("pipeline", "share"), SHARES.items())
def test_what_is_held_comes_to_the_papers_share_of_1f1b(pipeline: Pipeline, share: float) -> None:
    held = {}
    for devices in (6, 12, 24, 48):
        most = max(map(most_held, v_orders(pipeline, devices, 2 * devices)))
        held[devices] = most / (2 * devices)
        assert share <= held[devices] <= share + 2 / devices
    assert held[48] <= held[6]


@pytest.mark.parametrize("devices", [4, 6, 9])
def test_less_memory_is_a_longer_bubble_and_always_a_shorter_one_than_that_of_1f1b(devices: int) -> None:
    bubble = {}
    for pipeline in IN_A_V:
        p, plan = vee(devices, 4 * devices, pipeline)
        bubble[pipeline] = judge(p, plan).objective_s - 6 * 4 * devices
    one_f_one_b = 6 * (devices - 1)
    assert bubble[Pipeline.ZB_V] == bubble[Pipeline.DUAL_PIPE_V] == devices - 1
    assert devices - 1 < bubble[Pipeline.V_HALF] < bubble[Pipeline.V_MIN] < one_f_one_b


def test_less_memory_is_answered_with_the_pattern_that_fits() -> None:
    """zero-bubble takes of all the shortest order that memory allows, down to a third of what ZB-V holds."""
    _, unlimited = vee(6, 24, Pipeline.ZERO_BUBBLE, memory=1e9)
    before = 0.0
    for pipeline in SHARES:
        p, plan = vee(6, 24, pipeline, memory=1e9)
        needs = max(simulate(p, plan).peak_bytes())
        tight, plan = vee(6, 24, Pipeline.ZERO_BUBBLE, memory=needs)
        judged = judge(tight, plan)
        assert judged.feasible
        assert judged.objective_s >= before
        assert judged.objective_s <= judge(*vee(6, 24, pipeline, memory=needs)).objective_s
        before = judged.objective_s
    assert unlimited.pipeline == "zero-bubble"


def test_dualpipe_is_dualpipe_v_on_half_the_devices_with_a_copy_that_runs_the_other_way() -> None:
    p = problem(chain(4), [1.0] * 12, 4, mini_batch=16, micro_batches=8, pipeline=Pipeline.DUAL_PIPE, bandwidth=1e9)
    p = replace(p, max_replicas=2)
    plan = in_v(p, 4, replicas=2)
    assert check(p, plan) == ()
    assert plan.pipeline == "dualpipe"
    half, folded = vee(2, 8, Pipeline.DUAL_PIPE_V)
    assert plan.order[0] == plan.order[3] == folded.order[0]
    assert plan.order[1] == plan.order[2] == folded.order[1]
    assert judge(p, plan).objective_s == judge(half, folded).objective_s


def test_stages_that_make_no_v_run_as_1f1b() -> None:
    p, _ = vee(2, 4, Pipeline.ZB_V)
    count = len(p.graph) // 3
    stages = tuple(DraftStage((i, count + i, 2 * count + i), 1) for i in range(count))
    assert realise(p, Draft(stages), [(0,), (1,), (0,), (1,)]).pipeline == "1f1b"


@pytest.mark.parametrize("most", [2, 3, 4])
@pytest.mark.parametrize("micro_batches", [1, 2])
def test_small_ones_are_as_short_as_any_order(micro_batches: int, most: int) -> None:
    """Against every order of two devices that holds at most so much."""
    best = shortest(micro_batches, most)
    held = {}
    for pipeline in IN_A_V:
        p, plan = vee(2, micro_batches, pipeline)
        order = v_orders(pipeline, 2, micro_batches)
        if max(map(most_held, order)) <= most:
            held[pipeline] = judge(p, plan).objective_s
    assert all(seconds >= best for seconds in held.values())
    if held:
        assert min(held.values()) == best


def shortest(micro_batches: int, most: int) -> int:
    """Steps that two devices with two stages each need at least, in a V, F, I and W a step each; by breadth-first
    search. A state: how many are done of every kind of the stages, [stages][F, I, W]."""
    start = ((0, 0, 0),) * 4
    end = ((micro_batches,) * 3,) * 4
    states, steps = {start}, 0
    while end not in states:
        after = set()
        for state in states:
            choices = [_ready(state, device, micro_batches, most) for device in (0, 1)]
            for changes in itertools.product(*choices):
                rows = [list(row) for row in state]
                for change in changes:
                    if change is not None:
                        rows[change[0]][change[1]] += 1
                after.add(tuple(map(tuple, rows)))
        states, steps = after, steps + 1
    return steps


def _ready(
    state: tuple[tuple[int, ...], ...], device: int, micro_batches: int, most: int
) -> list[tuple[int, int] | None]:
    own = (device, 3 - device)
    ready: list[tuple[int, int] | None] = [None]
    room = sum(state[s][0] - state[s][2] for s in own) < most
    for s in own:
        forward, inputs, weights = state[s]
        if forward < micro_batches and room and (s == 0 or state[s - 1][0] > forward):
            ready.append((s, 0))
        if inputs < forward and (s == 3 or state[s + 1][1] > inputs):
            ready.append((s, 1))
        if weights < inputs:
            ready.append((s, 2))
    return ready
