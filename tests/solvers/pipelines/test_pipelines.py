"""Interleaved and zero-bubble pipelines, and the planner's orders: lengths as published, rules that hold."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from solvers.errors import InvalidPlan
from solvers.evaluation.evaluate import judge
from solvers.evaluation.simulation import simulate
from solvers.formats.chrome_trace import chrome_trace
from solvers.formats.plan_json import read_plan, write_plan
from solvers.pipelines.planners.interleaved import Interleaved
from solvers.plan.drafts import Draft, DraftStage
from solvers.plan.result import Status, StopReason
from solvers.planners.check import check
from solvers.planners.registry import PLANNERS
from solvers.planners.solve import solve
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import Contiguity, Objective, Pipeline, Transfers
from solvers.schedules.assemble import assemble
from solvers.schedules.ordering.own_order import own_orders
from solvers.schedules.ordering.patterns import interleave
from solvers.schedules.ordering.stage_actions import splits
from solvers.schedules.realise import realise
from solvers.search.monitor import Monitor
from tests.instances import problem, training_graph
from tests.random_problems import random_placement, random_problem


def chain(count, nbytes=0.0, saved=1.0, param_bytes=0.0):
    """Operators f0, f1, ...; then the gradients of their inputs; then those of their parameters."""
    forward = [Operator(f"f{i}", saved_bytes=Amount(0, saved), param_bytes=param_bytes) for i in range(count)]
    inputs = [Operator(f"i{i}", phase=Phase.BACKWARD_INPUT, forward_of=i) for i in range(count)]
    weights = [Operator(f"w{i}", phase=Phase.BACKWARD_WEIGHT, forward_of=i) for i in range(count)]
    tensors = [Tensor(i, (i + 1,), Amount(0, nbytes)) for i in range(count - 1)]
    tensors += [Tensor(count + i, (count + i - 1, 2 * count + i - 1), Amount(0, nbytes)) for i in range(1, count)]
    tensors += [Tensor(i, (count + i, 2 * count + i)) for i in range(count)]
    return OpGraph((*forward, *inputs, *weights), tuple(tensors))


def uniform(stages, devices, micro_batches, seconds=(1.0, 1.0, 1.0), nbytes=0.0, **options):
    """A chain of equal operators and micro-batches of one sample, without transfers; and its plan with
    operator i on device i modulo devices."""
    graph = chain(stages, nbytes)
    times = [s for s in seconds for _ in range(stages)]
    p = problem(
        graph, times, devices, mini_batch=micro_batches, micro_batches=micro_batches, **({"bandwidth": 1e9} | options)
    )
    draft = Draft(tuple(DraftStage((i, stages + i, 2 * stages + i), 1) for i in range(stages)))
    return p, realise(p, draft, [(i % devices,) for i in range(stages)])


def text(plan, device):
    return " ".join(str(action) for action in plan.order[device])


def counted(plan):
    """Most micro-batches of each stage with a forward and without the last part of its backward."""
    most = []
    for index, stage in enumerate(plan.stages):
        kinds = [action.kind for action in plan.order[stage.devices[0]] if action.stage == index]
        last = next((kind for kind in "WIB" if kind in kinds), None)
        held = peak = 0
        for kind in kinds:
            held += (kind == "F") - (kind == last)
            peak = max(peak, held)
        most.append(peak if last and "F" in kinds else 0)
    return most


# -- zero-bubble --------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [(1, 1, 1), (1, 2, 1), (2, 1, 1), (1, 1.5, 0.5)])
@pytest.mark.parametrize(("devices", "micro_batches"), [(4, 8), (4, 16), (8, 16)])
def test_with_the_memory_of_1f1b_the_bubble_is_that_of_zb_h1(devices, micro_batches, seconds):
    """(p - 1)(F + I - W) where 1F1B has (p - 1)(F + I + W) (Qi et al., ICLR 2024, table 2)."""
    f, i, w = seconds
    work = micro_batches * (f + i + w)
    options = {"memory": float(devices)}
    p, plan = uniform(devices, devices, micro_batches, seconds, pipeline=Pipeline.ONE_F_ONE_B, **options)
    assert judge(p, plan).objective_s - work == pytest.approx((devices - 1) * (f + i + w))
    p, plan = uniform(devices, devices, micro_batches, seconds, pipeline=Pipeline.ZERO_BUBBLE, **options)
    assert plan.pipeline == "zero-bubble"
    assert judge(p, plan).feasible
    assert judge(p, plan).objective_s - work == pytest.approx((devices - 1) * (f + i - w))
    assert simulate(p, plan).peak_bytes() == (devices,) * devices
    assert check(p, plan) == ()


@pytest.mark.parametrize("seconds", [(1, 2, 1), (1, 1.5, 0.5)])
def test_with_twice_the_memory_the_bubble_is_shorter(seconds):
    f, i, w = seconds
    p, plan = uniform(4, 4, 16, seconds, pipeline=Pipeline.ZERO_BUBBLE, memory=8.0)
    assert judge(p, plan).objective_s - 16 * (f + i + w) < 3 * (f + i - w)
    assert 4 < max(stage.in_flight for stage in plan.stages) <= 8


def test_without_need_no_stage_keeps_more_than_the_first_of_1f1b():
    _, plan = uniform(4, 4, 8, pipeline=Pipeline.ZERO_BUBBLE)
    assert [stage.in_flight for stage in plan.stages] == [4, 4, 4, 4]
    assert text(plan, 3).startswith("3F0 3I0 3F1 3I1 3F2 3I2 3F3 3I3 3W0 3F4")


def test_a_graph_whose_backward_is_in_one_piece_has_1f1b():
    graph = training_graph([(0, 1)], 2)
    p = problem(graph, [1] * 4, 2, mini_batch=4, micro_batches=4, pipeline=Pipeline.ZERO_BUBBLE)
    plan = assemble(p, [(0,), (1,)] * 2, 4)
    assert plan.pipeline == "1f1b"
    assert {action.kind for order in plan.order for action in order} == {"F", "B"}


def test_gradients_of_parameters_that_others_read_do_not_wait():
    operators = chain(2).operators
    reads = OpGraph(operators, (*chain(2).tensors, Tensor(5, (2,))))  # w1 -> i0
    assert splits(chain(2))
    assert not splits(reads)
    p = problem(reads, [1] * 6, 2, mini_batch=4, micro_batches=4, pipeline=Pipeline.ZERO_BUBBLE)
    assert judge(p, assemble(p, [(0,), (1,)] * 3, 4)).feasible


def test_stages_have_the_parts_that_they_have_operators_for():
    """Stage 0 sends no gradient on, stage 2 has no parameters."""
    full = chain(3)
    remaining = [o for o in range(9) if o not in (3, 8)]
    number = {o: n for n, o in enumerate(remaining)}
    tensors = [
        Tensor(number[t.producer], tuple(number[c] for c in t.consumers if c in number), t.nbytes)
        for t in full.tensors
        if t.producer in number
    ]
    graph = OpGraph(tuple(full.operators[o] for o in remaining), tuple(tensors))
    p = problem(graph, [1] * 7, 3, mini_batch=6, micro_batches=6, pipeline=Pipeline.ZERO_BUBBLE)
    plan = assemble(p, [(o % 3,) for o in remaining], 6)
    kinds = [{action.kind for action in order} for order in plan.order]
    assert kinds == [{"F", "W"}, {"F", "I", "W"}, {"F", "I"}]
    assert check(p, plan) == ()


def test_activations_are_released_when_the_gradients_of_parameters_are_done():
    p, plan = uniform(1, 1, 1, pipeline=Pipeline.ZERO_BUBBLE)
    assert text(plan, 0) == "0F0 0I0 0W0"
    curve = simulate(p, plan).memory[0]
    assert list(zip(curve.times_s, curve.nbytes, strict=True)) == [(0.0, 1.0), (3.0, 0.0)]


# -- interleaved --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("devices", "chunks", "micro_batches"), [(4, 2, 8), (4, 4, 8), (2, 2, 4), (4, 2, 4), (8, 2, 32)]
)
def test_the_bubble_of_interleaving_is_that_of_the_paper(devices, chunks, micro_batches):
    """(p - 1) / (v m) of the time without bubbles (Narayanan et al., SC 2021, section 2.2.2)."""
    p, plan = uniform(devices * chunks, devices, micro_batches, pipeline=Pipeline.INTERLEAVED)
    ideal = micro_batches * chunks * 3.0
    assert plan.pipeline == "interleaved"
    assert judge(p, plan).objective_s / ideal - 1 == pytest.approx((devices - 1) / (chunks * micro_batches))
    textbook = [interleave(r, devices, range(r, devices * chunks, devices), micro_batches) for r in range(devices)]
    assert [list(order) for order in plan.order] == textbook
    assert check(p, plan) == ()


def test_the_textbook_of_two_devices_with_two_stages_each():
    """Figure 4 of the paper for two devices: warm-up of 2 (p - r - 1) + (v - 1) p forwards."""
    _, plan = uniform(4, 2, 4, pipeline=Pipeline.INTERLEAVED)
    assert text(plan, 0) == "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3"
    assert text(plan, 1) == "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3"


@pytest.mark.parametrize(("devices", "chunks", "micro_batches"), [(4, 2, 6), (4, 2, 7), (4, 3, 10), (3, 2, 4)])
def test_other_numbers_of_micro_batches_interleave_too(devices, chunks, micro_batches):
    p, plan = uniform(devices * chunks, devices, micro_batches, pipeline=Pipeline.INTERLEAVED)
    bubble = judge(p, plan).objective_s - micro_batches * chunks * 3.0
    assert bubble < (devices - 1) * chunks * 3.0  # what 1F1B has
    assert check(p, plan) == ()


def test_interleaving_gives_way_to_memory():
    p, plan = uniform(8, 4, 8, pipeline=Pipeline.INTERLEAVED)
    most = max(simulate(p, plan).peak_bytes())
    tight, plan = uniform(8, 4, 8, pipeline=Pipeline.INTERLEAVED, memory=most - 1)
    assert judge(tight, plan).feasible


# -- the planner --------------------------------------------------------------------------------


def test_the_planner_asks_for_the_pipeline():
    p, _ = uniform(4, 2, 4)
    assert "--pipeline interleaved" in (Interleaved().unsupported(p) or "")
    assert Interleaved().unsupported(replace(p, pipeline=Pipeline.INTERLEAVED)) is None


def test_the_planner_gives_every_device_several_stages_where_that_is_shorter():
    p, _ = uniform(8, 2, 4, pipeline=Pipeline.INTERLEAVED)
    result = solve(p, "interleaved", time_limit_s=20)
    assert result.status is Status.FEASIBLE
    assert len(result.plan.stages) == 8
    assert result.objective_s == pytest.approx(4 * 4 * 3 + 3)
    assert solve(p, Interleaved(chunks=1)).objective_s == pytest.approx(4 * 4 * 3 + 12)
    assert solve(p, Interleaved(chunks=2, improve=False)).objective_s == pytest.approx(4 * 4 * 3 + 6)
    assert solve(p, "auto", time_limit_s=20).objective_s <= result.objective_s


@pytest.mark.parametrize("limit", ["cancel", "time"])
def test_the_planner_stops_when_cancelled(limit):
    p, _ = uniform(8, 2, 4, pipeline=Pipeline.INTERLEAVED)
    requests = []

    def should_stop():
        requests.append(1)
        return limit == "cancel" and len(requests) > 3

    seconds = iter(range(10**6))
    result = solve(
        p, "interleaved", should_stop=should_stop, time_limit_s=5 if limit == "time" else 20,
        clock=(lambda: float(next(seconds))) if limit == "time" else (lambda: 0.0),
    )  # fmt: skip
    assert result.stop_reason is (StopReason.CANCELLED if limit == "cancel" else StopReason.TIME_LIMIT)
    assert limit == "time" or len(requests) == 4


def test_the_planner_keeps_within_memory():
    p, _ = uniform(8, 2, 8, pipeline=Pipeline.INTERLEAVED, memory=12.0)
    result = solve(p, "interleaved", time_limit_s=20)
    assert result.plan is not None
    assert check(p, result.plan) == ()


# -- the planner's orders -----------------------------------------------------------------------


@pytest.mark.parametrize("split", [False, True])
def test_orders_of_its_own_hide_transfers_that_1f1b_waits_for(split):
    graph = chain(4, nbytes=1.0) if split else training_graph([(0, 1), (1, 2), (2, 3)], 4, nbytes=1.0)
    parts = 3 if split else 2
    p = problem(graph, [2.0] * 4 * parts, 4, mini_batch=16, micro_batches=16, bandwidth=1.0)
    plan = assemble(p, [(i,) for i in range(4)] * parts, 16)
    free, others = replace(p, pipeline=Pipeline.PLANNER), list(own_orders(p, plan))
    assert min(judge(free, other).objective_s for other in others) < judge(p, plan).objective_s
    assert all(check(free, other) == () for other in others)


@pytest.mark.parametrize("seed", range(12))
def test_left_to_the_planner_a_plan_is_never_worse_than_1f1b(seed):
    p = random_problem(
        seed, largest=5, training=True, objective=Objective.ITERATION, pipeline=Pipeline.ONE_F_ONE_B,
        contiguity=Contiguity.ACYCLIC,
    )  # fmt: skip
    if PLANNERS["linear-dp"]().unsupported(p):
        return
    textbook, free = solve(p, "linear-dp"), solve(replace(p, pipeline=Pipeline.PLANNER), "linear-dp")
    assert free.objective_s <= textbook.objective_s


# -- what holds for any plan --------------------------------------------------------------------


@pytest.mark.parametrize("pipeline", [Pipeline.ZERO_BUBBLE, Pipeline.INTERLEAVED, Pipeline.PLANNER])
@pytest.mark.parametrize("seed", range(60))
def test_any_plan_runs_and_holds_what_it_says(seed, pipeline):
    """The judge and `verify` agree, nothing deadlocks, and no stage has more in flight than it states."""
    rng = random.Random(seed)
    p = random_problem(
        seed, largest=7, pipeline=pipeline, training=True, objective=rng.choice(list(Objective)), mini_batch=8,
        micro_batches=rng.choice([2, 4, 8]), contiguity=rng.choice([Contiguity.ACYCLIC, Contiguity.NONE]),
    )  # fmt: skip
    placement = random_placement(rng, p)
    try:
        plan = assemble(p, placement, p.micro_batches)
    except InvalidPlan:
        return
    assert bool(check(p, plan)) == bool(judge(p, plan).violation)
    assert all(held <= stage.in_flight for held, stage in zip(counted(plan), plan.stages, strict=True))
    for other in own_orders(p, plan) if p.objective is Objective.ITERATION else ():
        assert bool(check(p, other)) == bool(judge(p, other).violation)
        assert all(held <= stage.in_flight for held, stage in zip(counted(other), other.stages, strict=True))


@pytest.mark.parametrize("seed", range(40))
def test_replicas_recomputation_and_mixed_sizes_run_without_bubbles_too(seed):
    rng = random.Random(seed)
    count = rng.randint(2, 4)
    p = problem(
        chain(count, nbytes=1.0), [rng.randint(1, 4) for _ in range(3 * count)], 2 * count, mini_batch=16,
        micro_batches=None, max_replicas=2, recompute=True, mixed_micro_batches=True, pipeline=Pipeline.ZERO_BUBBLE,
        memory=rng.choice([float("inf"), 60.0]), transfers=rng.choice(list(Transfers)),
    )  # fmt: skip
    draft = Draft(
        tuple(
            DraftStage((i, count + i, 2 * count + i), rng.choice([2, 4, 8]), rng.randint(1, 2), rng.random() < 0.3)
            for i in range(count)
        )
    )
    plan = realise(p, draft)
    assert bool(check(p, plan)) == bool(judge(p, plan).violation)
    assert all(held <= stage.in_flight for held, stage in zip(counted(plan), plan.stages, strict=True))


@pytest.mark.parametrize("seed", range(60))
def test_where_1f1b_fits_so_does_a_pipeline_that_keeps_more_by_choice(seed):
    """Under a cap that is 1F1B's own peak zero-bubble takes no longer, and interleaving still fits."""
    rng = random.Random(seed)
    p = random_problem(
        seed, largest=6, pipeline=Pipeline.ONE_F_ONE_B, training=True, objective=Objective.ITERATION,
        mini_batch=8, micro_batches=8, contiguity=Contiguity.NONE, memory=float("inf"), transfers=Transfers.LINKS,
    )  # fmt: skip
    placement = random_placement(rng, p)
    try:
        plan = assemble(p, placement, 8)
    except InvalidPlan:
        return
    cap = max(simulate(p, plan).peak_bytes())
    cluster = replace(p.cluster, devices=tuple(replace(d, memory_bytes=cap) for d in p.cluster.devices))
    for pipeline in (Pipeline.ZERO_BUBBLE, Pipeline.INTERLEAVED):
        capped = replace(p, pipeline=pipeline, cluster=cluster)
        other = assemble(capped, placement, 8)
        assert judge(capped, other).feasible
        if pipeline is Pipeline.ZERO_BUBBLE:
            assert judge(capped, other).objective_s <= judge(p, plan).objective_s * (1 + 1e-9)


@pytest.mark.first(3)
@pytest.mark.parametrize("pipeline", [Pipeline.ZERO_BUBBLE, Pipeline.INTERLEAVED, Pipeline.PLANNER])
@pytest.mark.parametrize("name", ["brute-force", "downset-dp", "max-load-ip", "linear-dp"])
def test_nothing_is_called_optimal_or_impossible_that_is_not(name, pipeline):
    """Against every placement that a pipeline can run, in its orders and in the planner's."""
    for seed in range(1, 6, 2) if name == "max-load-ip" else range(8):
        p = random_problem(
            seed, largest=4, pipeline=pipeline, training=True, contiguity=Contiguity.ACYCLIC, cpus=0,
            objective=Objective.MAX_LOAD if seed % 2 else Objective.ITERATION,
            memory=[float("inf"), 90.0][seed % 3 > 1],
        )  # fmt: skip
        planner = PLANNERS[name]()
        if planner.unsupported(p):
            continue
        best_s = _best_of_all(p)
        result = solve(p, planner, time_limit_s=2)
        assert result.bound_s <= best_s * (1 + 1e-6)
        if result.status is Status.INFEASIBLE:
            assert best_s == float("inf")
        if result.status is Status.OPTIMAL:
            assert result.objective_s <= best_s * (1 + 1e-6)


def _best_of_all(p):
    """Least objective of what brute force looks at, each plan also in other orders."""
    offered = []

    class Keeping(Monitor):
        def offer(self, plan):
            offered.append(plan)
            return super().offer(plan)

    monitor = Keeping(p)
    PLANNERS["brute-force"]()(p, monitor)
    least_s = monitor.objective_s
    for plan in offered[:40]:
        for other in own_orders(p, plan):
            judged = judge(p, other)
            least_s = min(least_s, judged.objective_s if judged.feasible else float("inf"))
    return least_s


# -- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("pipeline", [Pipeline.ZERO_BUBBLE, Pipeline.INTERLEAVED])
def test_plan_files_and_traces_tell_every_action(pipeline):
    p, plan = uniform(4, 2, 4, pipeline=pipeline, contiguity=Contiguity.NONE)
    assert read_plan(write_plan(p, plan)).plan == plan
    schedule = simulate(p, plan)
    events = chrome_trace(schedule, p.graph, p.cluster)["traceEvents"]
    fields = {event["name"] for event in events if event.get("cat") == "compute"}
    assert fields == {str(action) for order in plan.order for action in order}
