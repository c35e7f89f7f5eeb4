"""Every plan that the simulator runs becomes a script that cannot deadlock and moves what the plan moves."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest

from explorer.runner.scripts.channels import channels_of, gradients_of
from explorer.runner.scripts.lowering import make_script, run_events, text
from explorer.runner.scripts.replay import replay
from explorer.runner.scripts.script import MESSAGES, Do, Script, parse_step
from explorer.runner.scripts.segments import lay_out
from explorer.runner.scripts.waits import Waits
from solvers.errors import InvalidPlan, NoLink, RunError
from solvers.evaluation.simulation import simulate
from solvers.plan.plan import PHASES_OF, Action, Plan, Stage, parse_action
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import Execution, Objective, Problem
from tests.explorer.runner.scripts.random_plans import Traced, of_operators, random_plan
from tests.instances import forward_graph, problem, training_graph

SEEDS = range(640)
LEAST = 500
CHAIN = [(0, 1), (1, 2), (2, 3)]


@cache
def cases() -> tuple[tuple[int, Problem, Plan, Traced, Script], ...]:
    drawn = [(seed, plan) for seed in SEEDS if (plan := random_plan(seed)) is not None]
    return tuple((seed, p, plan, traced, make_script(p, plan)) for seed, (p, plan, traced) in drawn)


# -- random plans ---------------------------------------------------------------------------------


def test_there_are_enough_plans_of_every_sort() -> None:
    assert len(cases()) >= LEAST
    sorts = Counter(seed % 4 for seed, *_ in cases())
    assert min(sorts.values()) >= 80, sorts
    plans = [plan for _, _, plan, _, _ in cases()]
    assert sum(any(len(stage.devices) > 1 for stage in plan.stages) for plan in plans) >= 50
    assert sum(len({stage.micro_batch_size for stage in plan.stages}) > 1 for plan in plans) >= 20
    assert sum(any(a.kind == "W" for actions in plan.order for a in actions) for plan in plans) >= 50
    assert sum(len(script.segments) < len(plan.stages) for _, _, plan, _, script in cases()) >= 50


def test_no_script_deadlocks_where_sends_and_receives_block_in_order() -> None:
    for _, _, _, _, script in cases():
        replay(script)


def test_scripts_move_the_bytes_that_the_simulator_moves() -> None:
    for seed, p, plan, _, script in cases():
        spans = simulate(p, plan).spans
        moved = sum(span.nbytes for span in spans if span.is_transfer and "S" not in span.action)
        sent = sum(
            p.graph.tensors[t].nbytes.at(piece.samples) * (2 if back else 1)
            for channel in script.channels
            if not channel.is_local
            for piece in channel.pieces
            for t, back in zip(channel.tensors, channel.gradient, strict=True)
        )
        assert sent == pytest.approx(moved), seed


def test_a_reader_gets_every_sample_of_every_tensor_once() -> None:
    for seed, p, _, _, script in cases():
        arrived: Counter[tuple[int, int, int, int]] = Counter()
        for channel in script.channels:
            for reader in channel.readers:
                for piece in channel.pieces:
                    for t in channel.tensors:
                        for sample in range(piece.first, piece.first + piece.samples):
                            arrived[reader, channel.dst_device, t, sample] += 1
        assert arrived == _needed(p, script), seed


def _needed(p: Problem, script: Script) -> Counter[tuple[int, int, int, int]]:
    """(segment, device, tensor, sample) of all that a segment reads and does not make itself."""
    needed: Counter[tuple[int, int, int, int]] = Counter()
    for index, segment in enumerate(script.segments):
        members = set(segment.operators)
        for t, tensor in enumerate(p.graph.tensors):
            if tensor.nbytes.per_sample and tensor.producer not in members and members & set(tensor.consumers):
                for sample in range(p.mini_batch):
                    replica = sample % segment.micro_batch_size // segment.share
                    needed[index, segment.devices[replica], t, sample] += 1
    return needed


def test_a_tensor_goes_to_a_device_once_however_many_readers_it_has_there() -> None:
    checked = 0
    for seed, _, plan, _, script in cases():
        if len({stage.micro_batch_size for stage in plan.stages}) > 1 or any(len(s.devices) > 1 for s in plan.stages):
            continue
        checked += 1
        sent = [
            (t, channel.source, channel.dst_device)
            for channel in script.channels
            if not channel.is_local
            for t in channel.tensors
        ]
        assert len(sent) == len(set(sent)), seed
    assert checked >= 200


def test_compute_keeps_the_order_of_the_plan() -> None:
    """Forwards, and the first step of every backward, stand as the plan has them; what is made of several of its
    actions stands where the first of them stood."""
    separate = 0
    for seed, p, plan, _, script in cases():
        for rank, device in enumerate(script.devices):
            planned, moved = _planned(p, plan, script, device)
            order = [
                (step.do is Do.FORWARD, step.index, step.number)
                for step in script.steps[rank]
                if step.do in (Do.FORWARD, Do.BACKWARD, Do.BACKWARD_INPUT)
            ]
            if order != planned:  # a gradient for parameters alone comes too late to make both at the first
                separate += 1
                assert Counter(order) == Counter(planned), seed
                assert moved, seed
    assert separate <= 2


Planned = list[tuple[bool, int, int]]


def _planned(p: Problem, plan: Plan, script: Script, device: int) -> tuple[Planned, bool]:
    """(forward?, segment, micro-batch) as a device comes upon them in the plan, and whether it has gradients of
    parameters apart."""
    segment_of = {(stage, o): i for i, s in enumerate(script.segments) for stage in s.stages for o in s.operators}
    order: dict[tuple[bool, int, int], None] = {}
    split = False
    for action in _of(p, plan, device):
        split |= action.kind == "W"
        for o in _operators(p, plan, action):
            operator = p.graph.operators[o]
            home = o if operator.forward_of is None else operator.forward_of
            if operator.phase is not Phase.UPDATE:
                order[operator.phase is Phase.FORWARD, segment_of[action.stage, home], action.micro_batch] = None
    return list(order), split


def _of(p: Problem, plan: Plan, device: int) -> Iterator[Action]:
    for action in plan.order[device]:
        if p.objective is not Objective.MAKESPAN or action.micro_batch == 0:
            yield action


def _operators(p: Problem, plan: Plan, action: Action) -> list[int]:
    phases = PHASES_OF[action.kind]
    return [o for o in plan.stages[action.stage].operators if p.graph.operators[o].phase in phases]


def length_s(p: Problem, plan: Plan) -> float:
    """What the event simulation says of the whole."""
    gradients = gradients_of(p.graph)
    layout = lay_out(p, plan, gradients)
    channels = channels_of(p.graph, layout.segments, gradients, p.mini_batch, by_operator=layout.by_operator)
    return run_events(Waits(p, layout, channels, plan.devices_used()), layout.unordered).length_s


def test_joined_operators_take_as_long_as_the_simulator_says_of_single_ones() -> None:
    """Nothing is sent later. (Gradients of parameters, which are made with those of inputs, would be.)"""
    fewer = 0
    for seed in range(150):
        rng = random.Random(seed)
        count = rng.randint(4, 12)
        edges = [(u, v) for v in range(1, count) for u in rng.sample(range(v), min(v, rng.choice([1, 1, 2])))]
        graph = training_graph(sorted(edges), count, nbytes=1.0)
        seconds = [rng.uniform(0.5, 4.0) for _ in graph.operators]
        p = problem(graph, seconds, 3, bandwidth=rng.choice([0.5, 4.0]), latency=0.25, objective=Objective.MAKESPAN)
        plan = of_operators(rng, p)
        fewer += len(lay_out(p, plan, gradients_of(graph)).segments) < len(plan.stages)
        assert length_s(p, plan) == pytest.approx(simulate(p, plan).makespan_s), seed
    assert fewer >= 80


def test_pipelines_take_as_long_as_the_simulator_says() -> None:
    checked = recomputed = 0
    for seed, p, plan, _, _ in cases():
        whole = all(action.kind not in "IW" for actions in plan.order for action in actions)
        if p.objective is Objective.ITERATION and whole and all(len(stage.devices) == 1 for stage in plan.stages):
            checked += 1
            recomputed += any(stage.recompute for stage in plan.stages)
            assert length_s(p, plan) == pytest.approx(simulate(p, plan).makespan_s), seed
    assert checked >= 100
    assert recomputed >= 10


# -- plans made by hand ---------------------------------------------------------------------------


def hand_made(p: Problem, stages: list[tuple[str, int]], order: list[str], size: int) -> Plan:
    """stages: names of operators and the device; their mirrors come along."""
    position = p.graph.index_of()
    made = []
    for names, device in stages:
        forward = [position[name] for name in names]
        mirrors = [o for o, operator in enumerate(p.graph.operators) if operator.forward_of in forward]
        made.append(Stage((*forward, *mirrors), (device,), size))
    return Plan(tuple(made), tuple(tuple(map(parse_action, row.split())) for row in order))


def grid(script: Script) -> list[str]:
    replay(script)
    return text(script).splitlines()


def test_a_chain_of_two_stages_receives_before_it_computes_what_runs_meanwhile() -> None:
    p = problem(training_graph(CHAIN, 4, nbytes=1.0), [1.0] * 8, 2, bandwidth=10.0, mini_batch=2, micro_batches=2)
    order = ["0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"]
    assert grid(make_script(p, hand_made(p, [("ab", 0), ("cd", 1)], order, 1))) == [
        "rank 0 on device 0: 0F0 0SEND0 0F1 0SEND1 0RECV_GRADIENT0 0B0 0RECV_GRADIENT1 0B1",
        "rank 1 on device 1: 0RECV0 0RECV1 1F0 1B0 0SEND_GRADIENT0 1F1 1B1 0SEND_GRADIENT1",
    ]


def test_a_skip_connection_goes_straight_to_its_reader_and_its_gradient_back() -> None:
    p = problem(training_graph([(0, 1), (1, 2), (0, 2)], 3, nbytes=1.0), [1.0] * 6, 3, bandwidth=10.0)
    order = ["0F0 0B0", "1F0 1B0", "2F0 2B0"]
    assert grid(make_script(p, hand_made(p, [("a", 0), ("b", 1), ("c", 2)], order, 1))) == [
        "rank 0 on device 0: 0F0 0SEND0 1SEND0 1RECV_GRADIENT0 0RECV_GRADIENT0 0B0",
        "rank 1 on device 1: 0RECV0 1F0 2SEND0 2RECV_GRADIENT0 1B0 0SEND_GRADIENT0",
        "rank 2 on device 2: 1RECV0 2RECV0 2F0 2B0 1SEND_GRADIENT0 2SEND_GRADIENT0",
    ]


def test_stages_of_one_device_hand_over_without_a_message() -> None:
    p = problem(training_graph([(0, 1), (1, 2), (0, 2)], 3, nbytes=1.0), [1.0] * 6, 2, bandwidth=10.0)
    order = ["0F0 2F0 2B0 0B0", "1F0 1B0"]
    script = make_script(p, hand_made(p, [("a", 0), ("b", 1), ("c", 0)], order, 1))
    assert [(c.source, c.readers) for c in script.channels if c.is_local] == [(0, (2,))]
    assert grid(script) == [
        "rank 0 on device 0: 0F0 1SEND0 2RECV0 2F0 2B0 2SEND_GRADIENT0 1RECV_GRADIENT0 0B0",
        "rank 1 on device 1: 1RECV0 1F0 2SEND0 2RECV_GRADIENT0 1B0 1SEND_GRADIENT0",
    ]


def test_single_operators_are_joined_where_nothing_crosses() -> None:
    p = problem(
        training_graph(CHAIN, 4, nbytes=1.0), [1.0] * 8, 2, bandwidth=10.0, objective=Objective.MAKESPAN, mini_batch=2
    )
    order = ["0F0 1F0 3F0 3I0 1I0 0I0", "2F0 2I0"]
    script = make_script(p, hand_made(p, [("a", 0), ("b", 0), ("c", 1), ("d", 0)], order, 2))
    assert [segment.stages for segment in script.segments] == [(0, 1), (2,), (3,)]
    assert grid(script) == [
        "rank 0 on device 0: 0F0 0SEND0 1RECV0 2F0 2B0 1SEND_GRADIENT0 0RECV_GRADIENT0 0B0",
        "rank 1 on device 1: 0RECV0 1F0 1SEND0 1RECV_GRADIENT0 1B0 0SEND_GRADIENT0",
    ]


def test_inference_has_no_way_back() -> None:
    p = problem(forward_graph(CHAIN, 4, nbytes=1.0), [1.0] * 4, 2, mini_batch=2, training=False)
    script = make_script(p, hand_made(p, [("ab", 0), ("cd", 1)], ["0F0 0F1", "1F0 1F1"], 1))
    assert not script.training
    assert grid(script) == [
        "rank 0 on device 0: 0F0 0SEND0 0F1 0SEND1",
        "rank 1 on device 1: 0RECV0 0RECV1 1F0 1F1",
    ]


def test_an_order_that_deadlocks_is_refused_with_the_whole_picture() -> None:
    p = problem(training_graph(CHAIN, 4, nbytes=1.0), [1.0] * 8, 2, mini_batch=2, micro_batches=2)
    plan = hand_made(p, [("ab", 0), ("cd", 1)], ["0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"], 1)
    with pytest.raises(InvalidPlan) as refused:
        make_script(p, plan)
    assert str(refused.value) == (
        "the order deadlocks: 0B0 on device 0 waits for 1B0 on device 1; 1F1 on device 1 waits for 0F1 on device 0"
        "; device 0: 0F0 >0B0< 0F1 0B1; device 1: 1F0 >1F1< 1B0 1B1"
    )


def test_an_order_without_an_action_is_refused() -> None:
    p = problem(training_graph(CHAIN, 4, nbytes=1.0), [1.0] * 8, 2, mini_batch=2, micro_batches=2)
    with pytest.raises(InvalidPlan, match=r"order\[1\]: 1B1 is missing"):
        make_script(p, hand_made(p, [("ab", 0), ("cd", 1)], ["0F0 0F1 0B0 0B1", "1F0 1F1 1B0"], 1))


def test_a_plan_that_sends_where_no_link_is_is_refused() -> None:
    p = problem(training_graph(CHAIN, 4, nbytes=1.0), [1.0] * 8, 2)
    plan = hand_made(p, [("ab", 0), ("cd", 1)], ["0F0 0B0", "1F0 1B0"], 1)
    with pytest.raises(NoLink, match="no link from device 0 to device 1"):
        make_script(replace(p, cluster=replace(p.cluster, links=())), plan)


def test_a_graph_whose_backward_is_no_mirror_is_refused() -> None:
    g = training_graph(CHAIN, 4, nbytes=1.0)
    operators = tuple(replace(o, forward_of=None) if o.name == "c'" else o for o in g.operators)
    p = problem(replace(g, operators=operators), [1.0] * 8, 2)
    with pytest.raises(RunError, match='"c\'" belongs to no forward operator'):
        make_script(p, hand_made(p, [("ab", 0), ("cd", 1)], ["0F0 0B0", "1F0 1B0"], 1))


# -- replicas, ties, calls ------------------------------------------------------------------------


def trained(edges: list[tuple[int, int]], owners: dict[int, int], count: int) -> OpGraph:
    """`training_graph` whose operators read parameters, each that of its owner (co-located with it), with
    gradients of parameters "a.W" and updates "a.U"."""
    fused = training_graph(edges, count, nbytes=1.0)
    operators = [
        replace(
            o,
            param_bytes=8.0 if owners.get(i) == i else 0.0,
            colocation=f"owner {owners[i % count]}" if i % count in owners else None,
        )
        for i, o in enumerate(fused.operators)
    ]
    tensors = list(fused.tensors)
    updates = {}
    for owner in sorted(set(owners.values())):
        updates[owner] = len(operators)
        operators.append(Operator(f"{operators[owner].name}.U", phase=Phase.UPDATE, forward_of=owner))
    for o, owner in owners.items():
        weight = len(operators)
        operators.append(Operator(f"{operators[o].name}.W", phase=Phase.BACKWARD_WEIGHT, forward_of=o))
        tensors = [replace(t, consumers=(*t.consumers, weight)) if count + o in t.consumers else t for t in tensors]
        tensors += [Tensor(weight, (updates[owner],), Amount(8.0)), Tensor(count + o, (updates[owner],))]
    return OpGraph(tuple(operators), tuple(tensors))


def test_replicas_average_their_gradients_before_the_update() -> None:
    graph = trained([(0, 1)], {0: 0, 1: 1}, 2)
    p = problem(graph, [1.0] * len(graph), 3, bandwidth=10.0, mini_batch=4, micro_batches=2, max_replicas=2)
    plan = hand_made(p, [("a", 0), ("b", 1)], ["0F0 0F1 0B0 0B1 0U", "1F0 1B0 1F1 1B1 1U", "1F0 1B0 1F1 1B1 1U"], 2)
    plan = replace(plan, stages=(plan.stages[0], replace(plan.stages[1], devices=(1, 2))))
    assert grid(make_script(p, plan)) == [
        "rank 0 on device 0: 0F0 0SEND0 1SEND0 0F1 0SEND1 1SEND1 0RECV_GRADIENT0 1RECV_GRADIENT0"
        " 0RECV_GRADIENT1 1RECV_GRADIENT1 0B0 0B1 0U",
        "rank 1 on device 1: 0RECV0 1F0 0RECV1 1B0 0SEND_GRADIENT0 1F1 1B1 0SEND_GRADIENT1 1S 1U",
        "rank 2 on device 2: 1RECV0 1F0 1RECV1 1B0 1SEND_GRADIENT0 1F1 1B1 1SEND_GRADIENT1 1S 1U",
    ]
    assert length_s(p, plan) == pytest.approx(simulate(p, plan).makespan_s)


def test_an_update_waits_for_the_average() -> None:
    graph = trained([(0, 1)], {0: 0, 1: 1}, 2)
    p = problem(graph, [1.0] * len(graph), 2, bandwidth=2.0, latency=0.5, mini_batch=2, max_replicas=2)
    (stage,) = hand_made(p, [("ab", 0)], ["0F0 0B0 0U", ""], 2).stages
    order = tuple(map(parse_action, ("0F0", "0B0", "0U")))
    plan = Plan((replace(stage, devices=(0, 1)),), (order, order))
    assert grid(make_script(p, plan)) == ["rank 0 on device 0: 0F0 0B0 0S 0U", "rank 1 on device 1: 0F0 0B0 0S 0U"]
    # a sample each: 2 s forward, 4 s backward; a ring of 2 x 0.5 s and 16 bytes at 2 bytes/s; 2 s of updates
    assert length_s(p, plan) == pytest.approx(2 + 4 + 1 + 8 + 2)


def test_a_tied_parameter_is_averaged_when_all_that_read_it_are_done() -> None:
    """c owns the parameter that a reads too; its own backward is done long before."""
    graph = trained(CHAIN[:2], {0: 2, 2: 2}, 3)
    p = problem(graph, [1.0] * len(graph), 3, bandwidth=10.0, mini_batch=2, max_replicas=2)
    both = "0F0 2F0 2B0 0B0 2U"
    plan = hand_made(p, [("a", 0), ("b", 2), ("c", 0)], [both, both, "1F0 1B0"], 2)
    first, second, third = plan.stages
    plan = replace(plan, stages=(replace(first, devices=(0, 1)), second, replace(third, devices=(0, 1))))
    script = make_script(p, plan)
    replay(script)
    for rank in (0, 1):
        compute = [str(step) for step in script.steps[rank] if step.do not in MESSAGES]
        assert compute == ["0F0", "2F0", "2B0", "0B0", "2S", "2U"]


def test_an_update_before_the_last_gradient_of_its_parameter_deadlocks() -> None:
    graph = trained(CHAIN[:2], {0: 2, 2: 2}, 3)
    p = problem(graph, [1.0] * len(graph), 2, bandwidth=10.0)
    plan = hand_made(p, [("a", 0), ("b", 1), ("c", 0)], ["0F0 2F0 2B0 2U 0B0", "1F0 1B0"], 1)
    with pytest.raises(InvalidPlan, match=r"2U on device 0 waits for 0B0 on device 0"):
        make_script(p, plan)


def test_the_cpu_of_a_latency_plan_takes_an_order_and_joins_neighbours_in_it() -> None:
    """a | b c | d e: the CPU's stage is cut round the accelerator's call."""
    graph = forward_graph([(0, 1), (1, 2), (2, 3), (3, 4)], 5, nbytes=1.0)
    p = problem(graph, [1.0] * 5, 1, cpus=1, training=False, objective=Objective.MAKESPAN, execution=Execution.CALL)
    script = make_script(p, hand_made(p, [("bc", 0), ("aed", 1)], ["0F0", "1F0"], 1))
    assert [segment.operators for segment in script.segments] == [(1, 2), (0,), (3, 4)]
    assert grid(script) == [
        "rank 0 on device 0: 1RECV0 0F0 0SEND0",
        "rank 1 on device 1: 1F0 1SEND0 0RECV0 2F0",
    ]


def test_one_pass_is_the_first_micro_batch_with_all_samples() -> None:
    p = problem(
        forward_graph([(0, 1)], 2, nbytes=1.0), [1.0, 1.0], 2, mini_batch=4, training=False,
        objective=Objective.MAKESPAN, micro_batches=2,
    )  # fmt: skip
    script = make_script(p, hand_made(p, [("a", 0), ("b", 1)], ["0F1 0F0", "1F1 1F0"], 2))
    assert [segment.micro_batch_size for segment in script.segments] == [4, 4]
    assert [piece.samples for piece in script.channels[0].pieces] == [4]
    assert grid(script) == ["rank 0 on device 0: 0F0 0SEND0", "rank 1 on device 1: 0RECV0 1F0"]


def test_gradients_of_another_source_are_taken_as_stated() -> None:
    p = problem(training_graph(CHAIN, 4, nbytes=1.0), [1.0] * 8, 2)
    plan = hand_made(p, [("ab", 0), ("cd", 1)], ["0F0 0B0", "1F0 1B0"], 1)
    assert make_script(p, plan).channels[0].senders == (1,)
    assert make_script(p, plan, gradients=()).channels[0].senders == ()


# -- the replay itself ----------------------------------------------------------------------------


CHAIN_STEPS = (
    "0F0 0SEND0 0F1 0SEND1 0RECV_GRADIENT0 0B0 0RECV_GRADIENT1 0B1",
    "0RECV0 0RECV1 1F0 1B0 0SEND_GRADIENT0 1F1 1B1 0SEND_GRADIENT1",
)


@pytest.mark.parametrize(
    ("rank", "steps", "message"),
    [
        (1, "0RECV1 0RECV0 1F0 1B0 0SEND_GRADIENT0 1F1 1B1 0SEND_GRADIENT1", "their messages do not match"),
        (1, "0RECV0 1F0 1B0 0SEND_GRADIENT0 0RECV1 1F1 1B1 0SEND_GRADIENT1", "their messages do not match"),
        (0, "0F0 0SEND0 0F1 0SEND1 0B0 0RECV_GRADIENT0 0RECV_GRADIENT1 0B1", "0B0 comes before 0RECV_GRADIENT0"),
        (0, "0SEND0 0F0 0F1 0SEND1 0RECV_GRADIENT0 0B0 0RECV_GRADIENT1 0B1", "0SEND0 comes before 0F0"),
        (1, "0RECV0 0RECV1 1F0 1B0 0SEND_GRADIENT0 1F1 0SEND_GRADIENT1 1B1", "0SEND_GRADIENT1 comes before 1B1"),
        (0, "0F0 0SEND0 0F1 0SEND1 0RECV_GRADIENT0 0B0 0RECV_GRADIENT1", "step 0B1 is missing"),
        (0, CHAIN_STEPS[0] + " 0F1", "step 0F1 is there twice or does not belong there"),
        (1, CHAIN_STEPS[1] + " 0SEND0", "step 0SEND0 is there twice or does not belong there"),
    ],
)
def test_replay_refuses(rank: int, steps: str, message: str) -> None:
    script = chain_script()
    rows = list(script.steps)
    rows[rank] = tuple(map(parse_step, steps.split()))
    with pytest.raises(InvalidPlan, match=message):
        replay(replace(script, steps=tuple(rows)))


def chain_script() -> Script:
    p = problem(training_graph(CHAIN, 4, nbytes=1.0), [1.0] * 8, 2, bandwidth=10.0, mini_batch=2, micro_batches=2)
    script = make_script(p, hand_made(p, [("ab", 0), ("cd", 1)], ["0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"], 1))
    assert tuple(" ".join(map(str, steps)) for steps in script.steps) == CHAIN_STEPS
    return script


def test_replay_refuses_a_ring_of_ranks_that_wait_for_each_other() -> None:
    """Three ranks, each of which first sends to the next: nobody is ready to receive."""
    p = problem(forward_graph([(0, 3), (1, 4), (2, 5)], 6, nbytes=1.0), [1.0] * 6, 3, training=False)
    stages = [("a", 0), ("b", 1), ("c", 2), ("d", 1), ("e", 2), ("f", 0)]
    script = make_script(p, hand_made(p, stages, ["0F0 5F0", "1F0 3F0", "2F0 4F0"], 1))
    replay(script)
    rows = ("0F0 0SEND0 2RECV0 5F0", "1F0 1SEND0 0RECV0 3F0", "2F0 2SEND0 1RECV0 4F0")
    with pytest.raises(InvalidPlan, match="deadlocks: rank 0 at 0SEND0; rank 1 at 1SEND0; rank 2 at 2SEND0"):
        replay(replace(script, steps=tuple(tuple(map(parse_step, row.split())) for row in rows)))


def test_replay_refuses_pieces_that_overlap() -> None:
    script = chain_script()
    channel = replace(script.channels[0], pieces=(script.channels[0].pieces[0],) * 2)
    with pytest.raises(InvalidPlan, match="does not arrive once for every sample"):
        replay(replace(script, channels=(channel,)))
