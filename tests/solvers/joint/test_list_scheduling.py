"""List schedulers of single operators, on instances that a person can check by hand, and in general."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from solvers.evaluation.evaluate import judge
from solvers.evaluation.simulation import simulate
from solvers.joint.lists.draft_kernel import Rule, draft_of
from solvers.joint.lists.earliest_first_kernel import DONE, schedule, waiting_of
from solvers.joint.lists.grouping import co_placed, heavy, singletons
from solvers.joint.lists.heft_kernel import schedule_ranked, upward_s
from solvers.joint.lists.jobs import jobs_of
from solvers.joint.lists.jobs_kernel import NONE
from solvers.joint.lists.layers import layer_split
from solvers.joint.lists.layers_kernel import balanced_cuts
from solvers.joint.lists.schedulers import CHANNELS, earliest_first, heft, m_topo
from solvers.joint.lists.seeds import seeds
from solvers.joint.lists.within_memory import within_memory
from solvers.joint.passes.model import pass_model
from solvers.joint.passes.plans import plan_of
from solvers.joint.passes.simulator import Simulator
from solvers.pipelines.planners.gpipe import balanced_cut
from solvers.problem.cluster import Device, Wires, uniform_cluster
from solvers.problem.graph import Amount, Operator, OpGraph, Tensor
from solvers.problem.problem import ComputeTable, Contiguity, Execution, Objective, Problem, Transfers
from tests.instances import forward_graph, problem
from tests.random_problems import random_problem
from tests.solvers.joint.test_operator_pass import random_pass

PASS = {"objective": Objective.MAKESPAN, "execution": Execution.OPERATOR, "contiguity": Contiguity.NONE}


def never():
    return None


def graph_of(count, edges):
    """Operators "0", "1", ... and a tensor of its own for every (producer, consumer, bytes)."""
    tensors = tuple(Tensor(u, (v,), Amount(0.0, nbytes)) for u, v, nbytes in edges)
    return OpGraph(tuple(Operator(str(i)) for i in range(count)), tensors)


def model_of(graph, seconds, gpus=2, **options):
    return pass_model(problem(graph, seconds, gpus, **({"training": False} | PASS | options)))


def earliest(model, *, channel="device", favourite=None):
    """(device, start in seconds) of every operator as m-ETF plans it, nothing grouped."""
    jobs = jobs_of(model, singletons(model), contract=False)
    state, rule = draft_of(jobs.arrays), Rule(CHANNELS[channel], False)
    waiting = waiting_of(jobs.arrays)
    children = np.full(len(jobs), NONE) if favourite is None else np.array(favourite)
    assert schedule(jobs.arrays, state, waiting, model.memory_bytes, children, rule, 10**6) == DONE
    device, start_s = [0] * len(jobs), [0.0] * len(jobs)
    for job, (operator,) in enumerate(jobs.clusters.members):
        device[operator], start_s[operator] = int(state.device[job]), float(state.start_s[job])
    return device, start_s


# Rules of m-ETF


def test_of_equal_starts_the_first_in_topological_order_goes_to_the_first_device():
    model = model_of(graph_of(5, []), [3, 3, 2, 2, 2])
    assert earliest(model) == ([0, 1, 0, 1, 0], [0, 0, 3, 3, 5])


def test_a_chain_stays_where_it_is_when_links_are_slow_and_spreads_when_they_cost_nothing():
    edges = [(0, 1, 1.0), (0, 2, 1.0), (1, 3, 1.0), (2, 3, 1.0)]
    slow = model_of(graph_of(4, edges), [1, 1, 1, 1], bandwidth=0.01)
    assert earliest(slow) == ([0, 0, 0, 0], [0, 1, 2, 3])
    quick = model_of(graph_of(4, edges), [1, 1, 1, 1], bandwidth=1e9)
    assert earliest(quick)[0] == [0, 0, 1, 1]


def test_a_device_has_one_channel_for_all_that_it_sends():
    """Two tensors of 4 s from device 0 to devices 1 and 2."""
    graph = graph_of(3, [(0, 1, 4.0), (0, 2, 4.0)])
    model = model_of(graph, [1, 1, 1], 3, pins={0: 0, 1: 1, 2: 2})
    assert earliest(model, channel="device")[1] == [0, 5, 9]
    assert earliest(model, channel="link")[1] == [0, 5, 5]


def test_a_receiver_with_a_busy_channel_begins_later_than_the_sender():
    """Devices 0 and 1 each send 4 s to device 2, where one operator reads both."""
    graph = graph_of(3, [(0, 2, 4.0), (1, 2, 4.0)])
    model = model_of(graph, [1, 1, 1], 3, pins={0: 0, 1: 1, 2: 2})
    assert earliest(model, channel="device")[1][2] == 9
    assert earliest(model, channel="link")[1][2] == 5


def test_a_tensor_is_sent_once_to_a_device():
    """Both readers of one tensor are on device 1, the second after the first."""
    graph = forward_graph([(0, 1), (0, 2)], 3, nbytes=4.0)
    model = model_of(graph, [1, 1, 1], pins={0: 0, 1: 1, 2: 1})
    assert earliest(model) == ([0, 1, 1], [0, 5, 6])


def test_the_first_operator_of_a_group_takes_it_to_its_device():
    graph = graph_of(3, [])
    named = [replace(o, colocation="x") if i != 1 else o for i, o in enumerate(graph.operators)]
    model = model_of(replace(graph, operators=tuple(named)), [1, 1, 1])
    assert earliest(model) == ([0, 1, 0], [0, 0, 1])


def test_a_device_without_room_is_left_out():
    """Four operators of 10 bytes and 1, 1, 1 and 9 s, one after the other, on devices of 20 bytes."""
    graph = forward_graph([(0, 1), (1, 2), (2, 3)], 4, nbytes=1.0, param_bytes=10.0)
    model = model_of(graph, [1, 1, 1, 9], memory=20.0)
    assert earliest(model) == ([0, 0, 1, 1], [0, 1, 3, 4])


def test_nothing_is_scheduled_where_an_operator_fits_nowhere():
    model = model_of(forward_graph([], 3, param_bytes=10.0), [1, 1, 1], memory=10.0)
    jobs = jobs_of(model, singletons(model), contract=False)
    caps = model.memory_bytes
    assert earliest_first(jobs, caps, "device", never) is None
    assert heft(jobs, caps, "link", never) is None
    assert m_topo(jobs, caps) is None
    assert layer_split(model, model.groups, caps, [0, 1], transfers=False) is None


# Favourite children


def test_a_device_waits_for_its_favourite_child_and_runs_only_urgent_operators():
    """0 and 1 end at 1. Operator 3 reads both, and can start on device 0 at 1.5; 2 reads a tensor of 0 that takes
    3 s, so it is not urgent before 4 and has to wait on device 0, where it could start at 1."""
    graph = graph_of(4, [(0, 2, 3.0), (0, 3, 8.0), (1, 3, 0.5)])
    model = model_of(graph, [1, 1, 10, 1])
    assert earliest(model)[1][2] == 1
    device, start_s = earliest(model, favourite=[3, NONE, NONE, NONE])
    assert (device, start_s) == ([0, 1, 0, 0], [0, 0, 2.5, 1.5])


def test_an_urgent_operator_runs_while_a_device_waits():
    """As above, but operator 2 reads nothing: it can start anywhere at any time."""
    graph = graph_of(4, [(0, 3, 8.0), (1, 3, 0.5)])
    model = model_of(graph, [1, 1, 10, 1], pins={1: 1})
    device, start_s = earliest(model, favourite=[3, NONE, NONE, NONE])
    assert (device[2], start_s[2]) == (0, 1)


# m-TOPO


def test_m_topo_fills_a_device_to_its_share_and_the_largest_group():
    """Four of 10 bytes: 40/2 + 10 is three on the first device; with caps of 25, two."""
    for memory, expected in ((float("inf"), [0, 0, 0, 1]), (25.0, [0, 0, 1, 1])):
        model = model_of(forward_graph([], 4, param_bytes=10.0), [1, 1, 1, 1], memory=memory)
        schedule = m_topo(jobs_of(model, singletons(model), contract=False), model.memory_bytes)
        assert schedule is not None
        assert schedule.place.tolist() == expected


# Pre-processing


def test_an_operator_with_one_consumer_joins_its_group():
    """Of the diamond 0 -> (1, 2) -> 3, operator 0 has two consumers."""
    model = model_of(forward_graph([(0, 1), (0, 2), (1, 3), (2, 3)], 4, nbytes=1.0), [1, 1, 1, 1])
    units = co_placed(model, model.memory_bytes)
    assert units.tolist() == [0, 1, 1, 1]
    assert [sorted(job) for job in jobs_of(model, units, contract=True).clusters.members] == [[0], [1, 2, 3]]


def test_an_edge_that_could_close_a_cycle_is_not_contracted():
    """0 and 3 are to share a device, but 0 -> 1 -> 3 leads round: 0 has two successors, 3 two predecessors."""
    model = model_of(forward_graph([(0, 1), (0, 3), (1, 3)], 4, nbytes=1.0), [1, 1, 1, 1])
    jobs = jobs_of(model, np.array([0, 1, 2, 0]), contract=True)
    assert len(jobs) == 4


def test_units_grow_no_larger_than_a_device():
    model = model_of(forward_graph([(0, 1), (1, 2), (2, 3)], 4, param_bytes=10.0), [1, 1, 1, 1], memory=25.0)
    assert co_placed(model, model.memory_bytes).tolist() == [0, 0, 1, 1]


def test_pins_to_two_devices_are_never_joined():
    model = model_of(forward_graph([(0, 1)], 2), [1, 1], pins={0: 0, 1: 1})
    assert co_placed(model, model.memory_bytes).tolist() == [0, 1]


def test_contraction_keeps_every_operator_and_no_cycle():
    for seed in range(120):
        _, model, _, _ = random_pass(seed)
        rng = random.Random(seed)
        units = np.array([rng.randrange(3) for _ in model.groups])
        units = np.unique(units, return_inverse=True)[1]
        jobs = jobs_of(model, units, contract=True)
        assert sorted(o for job in jobs.clusters.members for o in job) == list(range(model.operators))
        number = {operator: job for job, members in enumerate(jobs.clusters.members) for operator in members}
        for job, members in enumerate(jobs.clusters.members):
            assert {int(units[model.group_of[o]]) for o in members} == {int(jobs.arrays.unit_of[job])}
        for operator, targets in enumerate(model.successors):
            assert all(number[operator] <= number[target] for target in targets)


# HEFT

HEFT_SECONDS = [
    (14, 16, 9), (13, 19, 18), (11, 13, 19), (13, 8, 17), (12, 13, 10),
    (13, 16, 9), (7, 15, 11), (5, 11, 14), (18, 12, 20), (21, 7, 16),
]  # fmt: skip
HEFT_EDGES = [
    (0, 1, 18), (0, 2, 12), (0, 3, 9), (0, 4, 11), (0, 5, 14), (1, 7, 19), (1, 8, 16), (2, 6, 23),
    (3, 7, 27), (3, 8, 23), (4, 8, 13), (5, 7, 15), (6, 9, 17), (7, 9, 11), (8, 9, 13),
]  # fmt: skip
"""Figure 2 and table 1 of Topcuoglu et al. 2002."""


def heft_example():
    graph = graph_of(10, HEFT_EDGES)
    cluster = uniform_cluster(tuple(Device(f"P{i}", f"kind {i}") for i in range(3)), 1.0)
    seconds = {f"kind {i}": np.array([[row[i]] for row in HEFT_SECONDS], float) for i in range(3)}
    return pass_model(Problem(graph, cluster, ComputeTable((1,), seconds), training=False, **PASS))


def test_heft_gives_the_ranks_and_the_schedule_of_its_paper():
    """Figure 3 (a): a schedule of length 80."""
    model = heft_example()
    jobs = jobs_of(model, singletons(model), contract=False)
    rank = np.zeros(10)
    upward_s(jobs.arrays, rank)
    published = [108, 77, 80, 80, 69, 63.333, 42.667, 35.667, 44.333, 14.667]
    ranks = dict(zip([members[0] for members in jobs.clusters.members], rank, strict=True))
    assert [ranks[operator] for operator in range(10)] == pytest.approx(published, abs=1e-3)
    state = draft_of(jobs.arrays)
    order = np.lexsort((np.arange(10), -rank))
    assert schedule_ranked(jobs.arrays, state, model.memory_bytes, order, Rule(CHANNELS["free"], True), 10)
    assert state.end_s.max() == 80
    schedule = heft(jobs, model.memory_bytes, "free", never)
    assert schedule is not None
    assert schedule.sequences == [[1, 7], [3, 5, 8, 9], [0, 2, 4, 6]]


def test_heft_fills_a_gap():
    """Operator 2 waits 5 s on device 0 for the tensor of 1; meanwhile 3 runs there, though it is ranked last."""
    graph = graph_of(4, [(0, 2, 9.0), (1, 2, 5.0)])
    model = model_of(graph, [1, 1, 9, 2], pins={0: 0, 1: 1, 2: 0, 3: 0})
    schedule = heft(jobs_of(model, singletons(model), contract=False), model.memory_bytes, "link", never)
    assert schedule is not None
    assert schedule.sequences[0] == [0, 3, 2]


# The split of layers


def cuts(total_s, caps, cut_s=None, limit_s=np.inf):
    """`balanced_cuts` of seconds [devices, count] that are bytes, too."""
    totals = np.concatenate([np.zeros((len(total_s), 1)), np.cumsum(total_s, axis=1)], axis=1)
    cut = np.zeros(totals.shape[1]) if cut_s is None else np.array(cut_s, float)
    return balanced_cuts(totals, totals, np.zeros(len(totals)), np.array(caps, float), cut, limit_s).tolist()


def test_parts_are_as_even_as_they_can_be():
    rng = random.Random(1)
    for _ in range(60):
        weights = [float(rng.randint(0, 9)) for _ in range(rng.randint(3, 12))]
        parts = rng.randint(1, 3)
        model = model_of(graph_of(len(weights), []), weights, parts)
        place = layer_split(model, model.groups, np.full(parts, np.inf), range(parts), transfers=False)
        assert place is not None
        assert (np.diff(place) >= 0).all()
        ends, _ = balanced_cut(weights, parts)
        sums = [sum(weights[a:b]) for a, b in zip((0, *ends), ends, strict=False)]
        loads = np.bincount(place, weights, parts)
        assert loads.max() == max(sums)
        assert (loads**2).sum() == pytest.approx(sum(s * s for s in sums))


def test_cuts_of_unequal_devices_are_the_best_of_all():
    rng = random.Random(2)
    for _ in range(60):
        count, devices = rng.randint(1, 6), rng.randint(1, 3)
        seconds = np.array([[float(rng.randint(1, 9)) for _ in range(count)] for _ in range(devices)])
        caps = [rng.choice([9.0, 20.0, 99.0]) for _ in range(devices)]
        cut_s = [0.0, *(float(rng.randint(0, 4)) for _ in range(count - 1)), 0.0]
        best = np.inf
        for inner in itertools.combinations_with_replacement(range(count + 1), devices - 1):
            loads = []
            for d, (low, high) in enumerate(zip((0, *inner), (*inner, count), strict=True)):
                held = seconds[d, low:high].sum()
                crossing = cut_s[low] + cut_s[high] if high > low else 0.0
                loads.append(held + crossing if held <= caps[d] else np.inf)
            best = min(best, max(loads))
        ends = cuts(seconds, caps, cut_s)
        if np.isinf(best):
            assert ends[-1] == -1
            continue
        loads = [
            seconds[d, low:high].sum() + (cut_s[low] + cut_s[high] if high > low else 0.0)
            for d, (low, high) in enumerate(zip([0, *ends[:-1]], ends, strict=True))
        ]
        assert max(loads) == best


def test_a_split_with_transfers_cuts_where_little_crosses():
    """Six layers of 1 s; the tensor after the third takes 9 s, that after the second none."""
    edges = [(0, 1, 1.0), (1, 2, 0.0), (2, 3, 9.0), (3, 4, 1.0), (4, 5, 1.0)]
    model = model_of(graph_of(6, edges), [1] * 6)
    free = np.full(2, np.inf)
    without = layer_split(model, model.groups, free, [0, 1], transfers=False)
    within = layer_split(model, model.groups, free, [0, 1], transfers=True)
    assert without is not None
    assert within is not None
    assert without.tolist() == [0, 0, 0, 1, 1, 1]
    assert within.tolist() == [0, 0, 1, 1, 1, 1]


# All of them


def test_every_schedule_keeps_groups_together_where_they_are_allowed_and_is_no_deadlock():
    scheduled = 0
    for seed in range(150):
        _, model, _, _ = random_pass(seed, pins={0: 0} if seed % 3 == 0 else {})
        caps = model.memory_bytes
        simulator = Simulator(model)
        held = model.held_bytes
        units = [(singletons(model), False), (co_placed(model, caps), True), (heavy(model, caps, 3), True)]
        for unit_of, contract in units:
            jobs = jobs_of(model, unit_of, contract=contract)
            schedules = [m_topo(jobs, caps)]
            for channel in CHANNELS:
                schedules += [earliest_first(jobs, caps, channel, never), heft(jobs, caps, channel, never)]
            for answer in schedules:
                if answer is None:
                    continue
                scheduled += 1
                assert model.allowed[np.arange(len(model.groups)), answer.place].all()
                assert (np.bincount(answer.place, held, model.devices) <= caps * (1 + 1e-9)).all()
                assert simulator.in_order_s(answer.place, answer.sequences) < np.inf
    assert scheduled > 2000


def test_what_is_timed_is_what_the_plan_is_judged_by():
    """On a wire that all share, a plan's transfers go by their readers' places in the orders, not by ranks."""
    by_rank_differs = 0
    for seed in range(40):
        p = random_problem(seed, 12, max_replicas=1, training=True, **PASS)
        if seed % 2:
            wire = uniform_cluster(p.cluster.devices, 1.0, 0.0, Wires.SHARED)
            p = replace(p, cluster=wire, transfers=Transfers.LINKS)
        model = pass_model(p)
        simulator = Simulator(model)
        jobs = jobs_of(model, singletons(model), contract=False)
        split = partial(layer_split, model, model.groups, devices=range(model.devices), transfers=False)
        for scheduler, order in ((partial(heft, jobs, channel="free", check=never), "own"), (split, "rank")):
            timed = within_memory(simulator, scheduler, order, never)
            if timed is not None:
                plan = plan_of(model, timed.place, timed.sequences)
                assert timed.makespan_s == pytest.approx(simulate(p, plan).makespan_s, rel=1e-12)
                assert timed.fits == (judge(p, plan).violation == "")
                by_rank_differs += order == "rank" and simulator.by_rank_s(timed.place, timed.rank) != timed.makespan_s
    assert by_rank_differs, "no instance told them apart"


def test_seeds_are_placements_that_run_and_fit_where_memory_is_plenty():
    names = set()
    for seed in range(40):
        p = random_problem(seed, 7, memory=float("inf"), max_replicas=1, **PASS)
        model = pass_model(p)
        simulator = Simulator(model)
        for name, start in seeds(model, never):
            names.add(name.removesuffix(", own order"))
            assert model.allowed[np.arange(len(start.place)), start.place].all()
            assert simulator.by_rank_s(start.place, start.rank) < np.inf
            assert simulator.in_order_s(start.place, start.sequences) < np.inf
            assert simulator.fits()
    assert {"single device", "layer split", "m-topo", "m-etf", "heft", "heft of heavy groups"} <= names


def test_seeds_come_even_without_room_and_again_the_same():
    for seed in range(20):
        p = random_problem(seed, 7, memory=60.0, max_replicas=1, training=True, **PASS)
        first = list(seeds(pass_model(p), never))
        again = list(seeds(pass_model(p), never))
        assert first, "even without room there is a placement to repair"
        assert [name for name, _ in first] == [name for name, _ in again]
        for (_, start), (_, other) in zip(first, again, strict=True):
            assert (start.place == other.place).all()
            assert (start.rank == other.rank).all()
            assert start.sequences == other.sequences


def test_what_no_link_joins_is_kept_on_one_device():
    """b and c are pinned apart, and a, which all list schedulers begin with on the first device, feeds b and d."""
    p = problem(
        forward_graph([(0, 1), (0, 3)], 4, 1.0), [10, 1, 1, 10], 2, objective=Objective.MAKESPAN,
        execution=Execution.OPERATOR, contiguity=Contiguity.NONE, training=False, pins={1: 1, 2: 0},
    )  # fmt: skip
    p = replace(p, cluster=replace(p.cluster, links=()))
    model = pass_model(p)
    simulator = Simulator(model)
    seconds = [simulator.by_rank_s(start.place, start.rank) for _, start in seeds(model, never)]
    assert min(seconds) == 21.0
