"""The meanings every part leans on, frozen on instances a person can check by hand.

Each drawing above a test is its schedule; a dot is an idle second.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from solvers.errors import InvalidPlan
from solvers.evaluation.evaluate import evaluate, judge
from solvers.evaluation.simulation import simulate
from solvers.plan.drafts import Draft, DraftStage
from solvers.plan.plan import Action, Plan, Stage, parse_action
from solvers.planners.check import check
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import Contiguity, Execution, Objective, Pipeline, Transfers
from solvers.problem.static_sizes import static_sizes
from solvers.schedules.assemble import assemble
from solvers.schedules.realise import realise
from tests.instances import forward_graph, problem, training_graph
from tests.oracle.compare import disagreement

CHAIN4 = [(0, 1), (1, 2), (2, 3)]
DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3)]


def spans_of(schedule, resource):
    return [(s.action, s.start_s, s.end_s) for s in schedule.spans if s.resource == resource]


@pytest.mark.parametrize("pipeline", [Pipeline.GPIPE, Pipeline.ONE_F_ONE_B])
def test_a_balanced_chain_has_the_textbook_bubble(pipeline):
    """(S-1)/(M+S-1) of the device time is idle, for GPipe and 1F1B alike (GPipe, section 2.3)."""
    stages, micro_batches = 4, 8
    p = problem(training_graph(CHAIN4, 4), [1] * 4 + [2] * 4, 4, mini_batch=8, micro_batches=8, pipeline=pipeline)
    metrics = evaluate(p, assemble(p, [(i,) for i in range(4)] * 2, micro_batches))
    assert metrics.bubble == pytest.approx((stages - 1) / (micro_batches + stages - 1))
    assert metrics.iteration_s == pytest.approx((micro_batches + stages - 1) * 3)


def test_1f1b_keeps_as_many_micro_batches_as_stages_follow_and_gpipe_keeps_all():
    g = training_graph([(0, 1)], 2, saved=10.0, param_bytes=1.0)
    orders, peaks = {}, {}
    for pipeline in (Pipeline.ONE_F_ONE_B, Pipeline.GPIPE):
        p = problem(g, [1, 1, 1, 1], 2, mini_batch=4, micro_batches=4, pipeline=pipeline)
        plan = assemble(p, [(0,), (1,)] * 2, 4)
        orders[pipeline] = [" ".join(map(str, actions)) for actions in plan.order]
        peaks[pipeline] = simulate(p, plan).peak_bytes()
    assert orders[Pipeline.ONE_F_ONE_B] == ["0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3", "1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3"]
    assert orders[Pipeline.GPIPE] == ["0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3", "1F0 1F1 1F2 1F3 1B0 1B1 1B2 1B3"]
    # 4 copies of 1 parameter byte (Adam) + in flight x 10 saved bytes
    assert peaks[Pipeline.ONE_F_ONE_B] == (4 + 2 * 10, 4 + 1 * 10)
    assert peaks[Pipeline.GPIPE] == (4 + 4 * 10, 4 + 4 * 10)


def test_a_dag_of_stages_runs_its_branches_at_the_same_time():
    """a on 0, b on 1 (2 s), c on 2 (3 s), d on 3; every tensor takes 1 s on its own link.

    dev 0: a a' at 12;  0->1 1-2, 0->2 1-2;  b 2-4, c 2-5;  d after c's tensor: 6-7;
    backward mirrors it: d' 7-8, b' 9-11, c' 9-12, a' 13-14.
    """
    g = training_graph(DIAMOND, 4, nbytes=1.0)
    p = problem(g, [1, 2, 3, 1] * 2, 4, transfers=Transfers.LINKS)
    schedule = simulate(p, assemble(p, [(0,), (1,), (2,), (3,)] * 2, 1))
    assert spans_of(schedule, "device 1") == [("1F0", 2, 4), ("1B0", 9, 11)]
    assert spans_of(schedule, "device 2") == [("2F0", 2, 5), ("2B0", 9, 12)]
    assert spans_of(schedule, "device 3") == [("3F0", 6, 7), ("3B0", 7, 8)]
    assert spans_of(schedule, "device 0") == [("0F0", 0, 1), ("0B0", 13, 14)]
    assert schedule.makespan_s == 14


def test_the_gradient_of_a_tensor_with_two_readers_on_one_device_travels_once():
    """Stage 1 holds both readers of a: their partial gradients are added before they are sent."""
    g = training_graph([(0, 1), (0, 2), (1, 2)], 3, nbytes=1.0)
    p = problem(g, [1] * 6, 2)
    plan = assemble(p, [(0,), (1,), (1,)] * 2, 1)
    assert len(spans_of(simulate(p, plan), "1->0")) == 1
    assert evaluate(p, plan).cut_bytes == 2.0


def test_max_load_charges_sender_once_and_every_receiver_once():
    """a on 0 feeds b on 1 and c on 2 (w = 1): 0 pays 1 s once, 1 and 2 pay 1 s each."""
    g = forward_graph([(0, 1), (0, 2)], 3, nbytes=1.0)
    p = problem(g, [5, 3, 2], 3, transfers=Transfers.BLOCKING, objective=Objective.MAX_LOAD, training=False)
    metrics = evaluate(p, assemble(p, [(0,), (1,), (2,)], 1))
    assert metrics.load_s == (6, 4, 3)
    assert metrics.max_load_s == 6


@pytest.mark.parametrize(("transfers", "load"), [("blocking", 3 + 2 + 2), ("lane", 4), ("duplex", 3)])
def test_load_models_add_overlap_or_split_directions(transfers, load):
    """b receives w = 2 and sends w = 2 beside 3 s of compute."""
    g = forward_graph([(0, 1), (1, 2)], 3, nbytes=2.0)
    p = problem(g, [0, 3, 0], 3, transfers=Transfers(transfers), objective=Objective.MAX_LOAD, training=False)
    assert evaluate(p, assemble(p, [(0,), (1,), (2,)], 1)).load_s[1] == load


def test_a_cpu_pays_nothing_for_transfers():
    g = forward_graph([(0, 1)], 2, nbytes=4.0)
    p = problem(g, [1, 1], 1, cpus=1, transfers=Transfers.BLOCKING, objective=Objective.MAX_LOAD, training=False)
    assert evaluate(p, assemble(p, [(0,), (1,)], 1)).load_s == (5, 1)


def test_a_non_contiguous_plan_is_cut_into_stages_that_can_run():
    """a and c on 0, b on 1: 0 has two stages, and the pipeline interleaves them.

    One micro-batch: 0: a 0-1, 1: b 2-3, 0: c 4-5, transfers 1-2 and 3-4.
    """
    g = forward_graph([(0, 1), (1, 2)], 3, nbytes=1.0)
    p = problem(g, [1, 1, 1], 2, contiguity=Contiguity.NONE, training=False)
    plan = assemble(p, [(0,), (1,), (0,)], 1)
    assert [(stage.operators, stage.devices) for stage in plan.stages] == [((0,), (0,)), ((1,), (1,)), ((2,), (0,))]
    schedule = simulate(p, plan)
    assert spans_of(schedule, "device 0") == [("0F0", 0, 1), ("2F0", 4, 5)]
    assert spans_of(schedule, "device 1") == [("1F0", 2, 3)]
    assert check(p, plan) == ()


def test_a_non_contiguous_training_pipeline_never_deadlocks_and_is_verified():
    g = training_graph(CHAIN4, 4, nbytes=0.1, saved=1.0)
    p = problem(g, [1] * 8, 2, contiguity=Contiguity.NONE, mini_batch=8, micro_batches=8)
    plan = assemble(p, [(0,), (1,), (0,), (1,)] * 2, 8)
    assert check(p, plan) == ()
    assert simulate(p, plan).makespan_s >= 16


def test_an_operator_level_plan_starts_operators_as_their_inputs_arrive():
    """a, b on 0 and c (reads a) on 1: c starts when a's tensor is there, not when b is done.

    0: a 0-1, b 1-4; 0->1: 1-3; 1: c 3-5.
    """
    g = forward_graph([(0, 2)], 3, nbytes=2.0)
    stages = (Stage((0, 1), (0,)), Stage((2,), (1,)))
    order = ((Action(0, "F"),), (Action(1, "F"),))
    p = problem(g, [1, 3, 2], 2, objective=Objective.MAKESPAN, training=False)
    schedule = simulate(p, Plan(stages, order))
    assert [(s.operator, s.start_s, s.end_s) for s in schedule.spans if not s.is_transfer] == [
        (0, 0, 1),
        (1, 1, 4),
        (2, 3, 5),
    ]
    assert schedule.makespan_s == 5
    assert check(p, Plan(stages, order)) == ()


def test_operators_that_run_one_by_one_hand_tensors_on_in_memory():
    """device 0: 0 1 2   Each hands 4 bytes to the next, and 0 hands another 2 bytes to 2: while 1 runs, 6 bytes
    that 0 left are held beside the 4 that 1 writes, and with both freed, nothing at the end."""
    graph = OpGraph(
        tuple(Operator(f"o{i}") for i in range(3)),
        (
            Tensor(0, (1,), Amount(0.0, 4.0)),
            Tensor(0, (2,), Amount(0.0, 2.0)),
            Tensor(1, (2,), Amount(0.0, 4.0)),
        ),
    )
    p = problem(graph, [1, 1, 1], 1, objective=Objective.MAKESPAN, contiguity=Contiguity.NONE, training=False)
    stages = tuple(Stage((i,), (0,)) for i in range(3))
    schedule = simulate(p, Plan(stages, (tuple(Action(i, "F") for i in range(3)),)))
    curve = schedule.memory[0]
    assert dict(zip(curve.times_s, curve.nbytes, strict=True)) == {0.0: 6.0, 1.0: 10.0, 2.0: 6.0, 3.0: 0.0}


def test_an_operator_level_step_defers_the_gradient_of_parameters():
    """device 0: 0F .. .. 0I 0W 0U      The gradient of the weights of 1 waits until its device has sent what
    device 1: .. 1F 1I 1W 1U            device 0 waits for; all transfers take 0 s here."""
    operators = [Operator("a", param_bytes=1.0), Operator("b", param_bytes=1.0)]
    for home in (0, 1):
        operators += [
            Operator(f"{home}I", phase=Phase.BACKWARD_INPUT, forward_of=home),
            Operator(f"{home}W", phase=Phase.BACKWARD_WEIGHT, forward_of=home),
            Operator(f"{home}U", phase=Phase.UPDATE, forward_of=home),
        ]
    tensors = (Tensor(0, (1,)), Tensor(5, (2, 3)), Tensor(3, (4,)), Tensor(6, (7,)))
    p = problem(
        OpGraph(tuple(operators), tensors), [1.0] * 8, 2, objective=Objective.MAKESPAN, contiguity=Contiguity.NONE
    )
    stages = (Stage((0, 2, 3, 4), (0,)), Stage((1, 5, 6, 7), (1,)))
    order = tuple(tuple(Action(stage, kind) for kind in "FIWU") for stage in (0, 1))
    plan = Plan(stages, order)
    schedule = simulate(p, plan)
    assert check(p, plan) == ()
    assert spans_of(schedule, "device 0") == [("0F0", 0, 1), ("0I0", 3, 4), ("0W0", 4, 5), ("0U", 5, 6)]
    assert spans_of(schedule, "device 1") == [("1F0", 1, 2), ("1I0", 2, 3), ("1W0", 3, 4), ("1U", 4, 5)]


def test_a_call_takes_all_its_inputs_first_and_gives_all_its_outputs_last():
    """The same plan under CALL: stage 0 is one call 0-4 and sends 2 s; stage 1 fetches 2 s, runs 2 s."""
    g = forward_graph([(0, 2)], 3, nbytes=2.0)
    p = problem(
        g, [1, 3, 2], 2, objective=Objective.MAKESPAN, execution=Execution.CALL, transfers=Transfers.BLOCKING,
        training=False,
    )  # fmt: skip
    plan = Plan((Stage((0, 1), (0,)), Stage((2,), (1,))), ((Action(0, "F"),), (Action(1, "F"),)))
    assert [(s.action, s.start_s, s.end_s) for s in simulate(p, plan).spans] == [("0F0", 0, 6), ("1F0", 6, 10)]


def test_cpu_cores_are_unlimited_in_a_call_pass():
    g = forward_graph([(0, 2), (1, 2)], 3)
    p = problem(
        g, [9, 9, 9], 1, cpus=1, cpu_seconds=[4, 3, 1], objective=Objective.MAKESPAN, execution=Execution.CALL,
        transfers=Transfers.BLOCKING, training=False,
    )  # fmt: skip
    assert simulate(p, assemble(p, [(1,)] * 3, 1)).makespan_s == 5


def test_a_call_fetches_what_an_earlier_call_of_its_own_device_left_with_the_host():
    """a on the accelerator (1 s), b on the CPU (3 s), c on the accelerator (1 s); a's 2 s go to both, b's 1 s to c.

    a is one call: 0-1, sent until 3. b: 3-6. c is another: 6-10 with a's and b's outputs fetched.
    """
    from solvers.problem.graph import Amount, Operator, OpGraph, Tensor

    g = OpGraph(
        (Operator("a"), Operator("b"), Operator("c")),
        (Tensor(0, (1, 2), Amount(0, 2.0)), Tensor(1, (2,), Amount(0, 1.0))),
    )
    p = problem(
        g, [1, 9, 1], 1, cpus=1, cpu_seconds=[9, 3, 9], objective=Objective.MAKESPAN, execution=Execution.CALL,
        transfers=Transfers.BLOCKING, training=False,
    )  # fmt: skip
    plan = assemble(p, [(0,), (1,), (0,)], 1)
    assert simulate(p, plan).makespan_s == 10
    assert check(p, plan) == ()


def test_of_a_sum_that_calls_of_one_device_make_a_call_that_reads_it_fetches_what_the_others_make():
    """a feeds b, with it in one stage, and c, in another on the same device; the gradients of both are a sum for a.

    0F a b: 0-2, a's output sent until 3. 1F c: 3-5 with a second to fetch it. 1B c': 5-7, sent. 0B fetches that and
    runs b' a': 7-10; for its own part of the sum it waits for nobody.
    """
    p = problem(
        training_graph([(0, 1), (0, 2)], 3, nbytes=1.0), [1] * 6, 2, objective=Objective.MAKESPAN,
        execution=Execution.CALL, transfers=Transfers.BLOCKING, contiguity=Contiguity.NONE, mini_batch=1,
    )  # fmt: skip
    plan = realise(p, Draft((DraftStage((0, 1, 3, 4), 1), DraftStage((2, 5), 1, host=0))))
    assert simulate(p, plan).makespan_s == 10
    assert check(p, plan) == ()
    assert disagreement(p, plan, p.objective) == ""


def test_replicas_share_a_micro_batch_and_synchronise_their_gradients():
    """One operator, 2 s forward and 2 s backward per sample, 3 parameter bytes, 2 samples, 2 replicas.

    Each replica takes 1 sample: F 0-2, B 2-4; ring all-reduce of 2(r-1)/r * 3 = 3 bytes: 4-7.
    """
    g = training_graph([], 1, param_bytes=3.0)
    p = problem(g, [2, 2], 2, mini_batch=2, max_replicas=2)
    plan = assemble(p, [(0, 1), (0, 1)], 1)
    schedule = simulate(p, plan)
    assert spans_of(schedule, "device 0") == spans_of(schedule, "device 1") == [("0F0", 0, 2), ("0B0", 2, 4)]
    assert schedule.makespan_s == 7
    # per sample: 2 s + 2 s at half the samples each, and 3 s of synchronisation per 2 samples
    assert evaluate(p, plan).load_s == (2 + 1.5, 2 + 1.5)
    assert check(p, plan) == ()


def test_tensors_on_their_way_to_different_devices_are_all_held_by_the_sender():
    """a's tensors for b on 1 (3 bytes, 3 s) and for c on 2 (5 bytes, 5 s): 0 holds 8 bytes, then 5."""
    from solvers.problem.graph import Amount, Operator, OpGraph, Tensor

    operators = (Operator("a"), Operator("b"), Operator("c"))
    g = OpGraph(operators, (Tensor(0, (1,), Amount(0, 3.0)), Tensor(0, (2,), Amount(0, 5.0))))
    p = problem(g, [1, 1, 1], 3, training=False)
    curve = simulate(p, assemble(p, [(0,), (1,), (2,)], 1)).memory[0]
    held = dict(zip(curve.times_s, curve.nbytes, strict=True))
    assert (held[1.0], held[4.0], held[6.0]) == (8.0, 5.0, 0.0)


def test_a_replicated_stage_hands_each_reader_its_share():
    """a on 0 and 1 (1 sample each of 2), b on 2: two half transfers arrive on separate links."""
    g = forward_graph([(0, 1)], 2, nbytes=1.0)
    p = problem(g, [1, 1], 3, mini_batch=2, training=False)
    schedule = simulate(p, assemble(p, [(0, 1), (2,)], 1))
    assert spans_of(schedule, "0->2") == [("0F0>2", 1, 2)]
    assert spans_of(schedule, "1->2") == [("0F0>2", 1, 2)]
    assert spans_of(schedule, "device 2") == [("1F0", 2, 4)]


def test_stages_may_have_micro_batches_of_different_sizes():
    """a runs 4 samples one by one, b two at a time: b starts when two of a's have arrived."""
    g = forward_graph([(0, 1)], 2)
    p = problem(g, [1, 1], 2, mini_batch=4, training=False)
    stages = (Stage((0,), (0,), 1), Stage((1,), (1,), 2))
    order = (tuple(Action(0, "F", j) for j in range(4)), tuple(Action(1, "F", j) for j in range(2)))
    schedule = simulate(p, Plan(stages, order))
    assert spans_of(schedule, "device 1") == [("1F0", 2, 4), ("1F1", 4, 6)]


def test_the_simulated_interval_approaches_the_max_load_under_blocking():
    """Without flush, many micro-batches of a three-stage chain: one every max-load seconds."""
    g = forward_graph([(0, 1), (1, 2)], 3, nbytes=0.5)
    intervals = []
    for many in (32, 64):
        p = problem(g, [2, 3, 1], 3, transfers=Transfers.BLOCKING, mini_batch=many, micro_batches=many, training=False)
        plan = assemble(p, [(0,), (1,), (2,)], many)
        intervals.append(simulate(p, plan).makespan_s)
        max_load = evaluate(p, plan).max_load_s
    assert max_load == 4.0
    assert (intervals[1] - intervals[0]) / 32 == pytest.approx(max_load, rel=1e-9)


def test_an_update_runs_once_per_mini_batch_after_every_backward():
    g = training_graph([], 1)
    from solvers.problem.graph import Operator, OpGraph, Phase, Tensor

    g = OpGraph(
        (*g.operators, Operator("u", phase=Phase.UPDATE, forward_of=0)), (*g.tensors, Tensor(1, (2,)))
    )  # fmt: skip
    p = problem(g, [1, 1, 0.5], 1, mini_batch=2, micro_batches=2)
    schedule = simulate(p, assemble(p, [(0,)] * 3, 2))
    assert [s.action for s in schedule.spans] == ["0F0", "0B0", "0F1", "0B1", "0U"]
    # a cost table of one point scales with samples: the update takes 0.5 s per sample of the mini-batch
    assert schedule.makespan_s == 4 + 0.5 * 2


def test_actions_parse_back():
    for action in (Action(2, "F", 0), Action(13, "W", 7), Action(0, "U")):
        assert parse_action(str(action)) == action


def test_the_max_load_of_gpipe_adds_the_slowest_forward_and_the_slowest_backward():
    """Forward 5 s and 1 s, backward 2 s and 4 s, and 1 s for the tensor in each direction.

    1F1B: the busier device has 5 + 1 + 2 + 1 = 9 s. GPipe: forward 5 + 1, backward 4 + 1, together 11 s.
    """
    from solvers.problem.problem import Pipeline

    g = training_graph([(0, 1)], 2, nbytes=1.0)
    options = {"objective": Objective.MAX_LOAD, "transfers": Transfers.BLOCKING, "micro_batches": 1}
    for pipeline, expected in ((Pipeline.ONE_F_ONE_B, 9), (Pipeline.GPIPE, 11)):
        p = problem(g, [5, 1, 2, 4], 2, pipeline=pipeline, **options)
        plan = assemble(p, [(0,), (1,), (0,), (1,)], 1)
        assert judge(p, plan).objective_s == evaluate(p, plan).max_load_s == expected
        assert check(p, plan) == ()


def test_a_plan_may_not_have_more_replicas_or_subgraphs_than_allowed():
    p = problem(training_graph([], 1), [1, 1], 3, mini_batch=6, max_replicas=3, objective=Objective.MAX_LOAD)
    three = assemble(p, [(0, 1, 2)] * 2, 1)
    assert judge(p, three).feasible
    fewer = replace(p, max_replicas=2)
    assert "at most 2 are allowed" in judge(fewer, three).violation
    assert any("3 replicas" in line for line in check(fewer, three))

    # 0 and 2 on the accelerator, 1 between them on the CPU: two subgraphs
    chain = problem(
        forward_graph([(0, 1), (1, 2)], 3), [1] * 3, 1, cpus=1, objective=Objective.MAKESPAN,
        execution=Execution.CALL, training=False,
    )  # fmt: skip
    plan = assemble(chain, [(0,), (1,), (0,)], 1)
    assert judge(chain, plan).feasible
    assert check(replace(chain, subgraphs_per_device=2), plan) == ()
    once = replace(chain, subgraphs_per_device=1)
    assert "at most 1 are allowed" in judge(once, plan).violation
    assert any("2 subgraphs" in line for line in check(once, plan))


def test_replicas_of_two_stages_exchange_the_samples_that_they_share_out_differently():
    """a in micro-batches of 2 samples, b of 4, both on the same pair: device 0 has samples 0 and 2 of a and takes
    0 and 1 of b, so that sample 1 comes from device 1 and 2 goes there, a second each.

    dev 0: a 0-1, 1-2, b 2-4;  1->0 1-2 (sample 1);  dev 1: a 0-1, 1-2, b 3-5;  0->1 2-3 (sample 2)
    """
    p = problem(
        forward_graph([(0, 1)], 2, 1.0), [1, 1], 2, mini_batch=4, training=False, max_replicas=2,
        micro_batches=2, mixed_micro_batches=True,
    )  # fmt: skip
    draft = Draft((DraftStage((0,), 2, 2), DraftStage((1,), 4, 2, host=0)))
    plan = realise(p, draft)
    schedule = simulate(p, plan)
    assert spans_of(schedule, "1->0") == [("0F0>0", 1, 2)]
    assert spans_of(schedule, "0->1") == [("0F1>1", 2, 3)]
    assert spans_of(schedule, "device 0")[-1] == ("1F0", 2, 4)
    assert spans_of(schedule, "device 1")[-1] == ("1F0", 3, 5)
    assert check(p, plan) == ()


def test_static_memory_is_the_sum_of_what_operators_keep_whether_or_not_at_once():
    """Two micro-batches of 2 samples, one at a time on one device: the second is saved where the first was."""
    g = training_graph([(0, 1)], 2, saved=10.0, param_bytes=1.0)
    timed = problem(g, [1] * 4, 1, mini_batch=4, micro_batches=2)
    plan = assemble(timed, [(0,)] * 4, 2)
    assert simulate(timed, plan).peak_bytes() == (2 * 4 * 1 + 2 * 2 * 10,)
    counted = replace(timed, stated_bytes=static_sizes(timed))
    assert simulate(counted, plan).peak_bytes() == (2 * 4 * 1 + 2 * 4 * 10,)
    assert check(counted, plan) == ()


def test_a_lane_carries_one_transfer_of_its_device_at_a_time_the_senders_part_first():
    """a on 0 feeds c on 1, b on 1 feeds d on 0, w = 2: each lane sends 1-3, then receives 3-5."""
    g = forward_graph([(0, 2), (1, 3)], 4, nbytes=2.0)
    p = problem(g, [1] * 4, 2, objective=Objective.MAKESPAN, contiguity=Contiguity.NONE, transfers=Transfers.LANE,
                training=False)  # fmt: skip
    plan = assemble(p, [(0,), (1,), (1,), (0,)], 1)
    schedule = simulate(p, plan)
    for device in (0, 1):
        assert [(start, end) for _, start, end in spans_of(schedule, f"lane {device}")] == [(1, 3), (3, 5)]
    assert schedule.makespan_s == 6
    assert check(p, plan) == ()


def test_gradients_of_one_operator_may_come_in_any_order_under_every_objective():
    """a's parameters first (W), then its input (I): neither reads the other, whether a runs alone or as a stage."""
    operators = (
        Operator("a", param_bytes=1.0),
        Operator("a.I", phase=Phase.BACKWARD_INPUT, forward_of=0),
        Operator("a.W", phase=Phase.BACKWARD_WEIGHT, forward_of=0),
        Operator("a.U", phase=Phase.UPDATE, forward_of=0),
    )
    g = OpGraph(operators, (Tensor(0, (1, 2)), Tensor(2, (3,))))
    p = problem(g, [1, 2, 4, 8], 1, objective=Objective.MAKESPAN, contiguity=Contiguity.NONE)
    plan = Plan((Stage((0, 1, 2, 3), (0,)),), (tuple(Action(0, kind) for kind in "FWUI"),))
    for objective in (Objective.MAKESPAN, Objective.ITERATION):
        starts = {span.action: span.start_s for span in simulate(p, plan, objective).spans}
        assert starts == {"0F0": 0, "0W0": 1, "0U": 5, "0I0": 13}
    assert evaluate(p, plan).iteration_s == 15
    assert check(p, plan) == ()


def test_a_reader_that_is_one_of_the_makers_receives_nothing():
    """Of a on 0 and 1, b on 0 alone, device 1 alone sends; of a on 0 alone, b on both, device 1 alone receives."""
    g = forward_graph([(0, 1)], 2, nbytes=1.0)
    p = problem(g, [1, 1], 2, mini_batch=2, micro_batches=1, training=False, max_replicas=2)
    for places in ([(0, 1), (0,)], [(0,), (0, 1)]):
        load = evaluate(p, assemble(p, places, 2)).max_load_s
        assert math.isfinite(load)
        assert load > 0


def test_a_plan_that_leaves_an_operator_out_has_no_load() -> None:
    left_out = Plan((Stage((0,), (0,)),), ((Action(0, "F"),), ()), "none")
    with pytest.raises(InvalidPlan, match="operator 'b' is in no stage"):
        evaluate(problem(forward_graph([(0, 1)], 2, nbytes=8.0), [1.0, 1.0], training=False, mini_batch=1), left_out)
