"""Clusters of operators: acyclic, bounded, and placed as the groups allow."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from solvers.joint.exact.schedule_coarsening import cluster_cap_s, coarsened, joined, units_of
from solvers.joint.passes.clusters import Ties, clustered, uncoarsened
from solvers.joint.passes.model import pass_model
from solvers.problem.graph import topological_order
from solvers.problem.problem import Contiguity, Execution, Objective, Transfers
from tests.instances import forward_graph, problem, training_graph
from tests.random_problems import random_problem

GRAPHS = 10_000
PASS = {
    "objective": Objective.MAKESPAN,
    "execution": Execution.OPERATOR,
    "contiguity": Contiguity.NONE,
    "transfers": Transfers.LINKS,
}


def random_dag(seed):
    """(edges, load, group of every node): 2 to 12 nodes, in a random topological numbering."""
    rng = random.Random(seed)
    count = rng.randint(2, 12)
    name = list(range(count))
    rng.shuffle(name)
    edges = {}
    for _ in range(rng.randint(1, 3 * count)):
        i, j = rng.randrange(count), rng.randrange(count)
        if i != j:
            edges[name[min(i, j)], name[max(i, j)]] = rng.random()
    return edges, [rng.random() for _ in range(count)], [rng.randrange(count) for _ in range(count)]


def quotient(edges, label):
    """Successors of every cluster, clusters numbered as they come."""
    number = {name: i for i, name in enumerate(dict.fromkeys(label))}
    after = [set() for _ in number]
    for u, v in edges:
        if label[u] != label[v]:
            after[number[label[u]]].add(number[label[v]])
    return [sorted(targets) for targets in after]


def free_units(load, group_of, most):
    """Units of groups 0, 1, ... with these caps on their work."""
    totals = [0.0] * len(load)
    for group, seconds in zip(group_of, load, strict=True):
        totals[group] += seconds
    return units_of(totals, [0.0] * len(load), [0] * len(load), (most, math.inf))


def test_clusters_of_ten_thousand_random_graphs_are_acyclic_and_keep_to_the_caps():
    joins = 0
    for seed in range(GRAPHS):
        edges, load, group_of = random_dag(seed)
        cap = sum(load) * (0.2 + 0.8 * (seed % 5) / 4)
        units = free_units(load, group_of, 2 * cap if seed % 3 else math.inf)
        path_s = sum(load) * 0.8 if seed % 2 else math.inf
        label = joined(edges, load, group_of, units, 1 + seed % 3, cap, path_s)
        after = quotient(edges, label)
        assert len(topological_order(after)) == len(after), f"seed {seed}"
        held = {}
        for name, seconds in zip(label, load, strict=True):
            held.setdefault(name, []).append(seconds)
        assert all(sum(each) <= cap * (1 + 1e-9) or len(each) == 1 for each in held.values()), f"seed {seed}"
        joins += len(load) - len(held)
    assert joins > 2 * GRAPHS, "hardly anything was joined"


def test_the_only_path_is_joined_and_another_path_forbids_it():
    """a -> b -> c beside a -> c: joining a and c would put b before and after itself."""
    edges = {(0, 1): 1.0, (1, 2): 1.0, (0, 2): 100.0}
    label = joined(edges, [1.0] * 3, [0, 1, 2], free_units([1.0] * 3, [0, 1, 2], math.inf), 2, math.inf)
    assert label in ([0, 0, 2], [0, 1, 1])


def test_two_pairs_that_cross_are_not_joined_at_once():
    """a -> x, b -> y and a -> y, b -> x: both pairs together would wait for each other."""
    edges = {(0, 2): 9.0, (1, 3): 9.0, (0, 3): 1.0, (1, 2): 1.0}
    for target in (1, 2, 3):
        label = joined(edges, [1.0] * 4, [0, 1, 2, 3], free_units([1.0] * 4, range(4), math.inf), target, math.inf)
        after = quotient(edges, label)
        assert len(topological_order(after)) == len(after)


def test_the_largest_transfer_for_its_work_is_joined_first():
    edges = {(0, 1): 2.0, (2, 3): 3.0, (4, 5): 3.0}
    load = [1.0, 1.0, 1.0, 1.0, 9.0, 9.0]
    label = joined(edges, load, range(6), free_units(load, range(6), math.inf), 5, math.inf)
    assert label == [0, 1, 2, 2, 4, 5]


def test_what_could_run_at_once_is_not_put_one_after_the_other():
    """a feeds c and d, b of 10 s feeds c. Joining a and c would have d, of 9 s, wait for b."""
    edges = {(0, 2): 1.0, (1, 2): 1.0, (0, 3): 0.5}
    load = [1.0, 10.0, 1.0, 9.0]
    label = joined(edges, load, range(4), free_units(load, range(4), math.inf), 3, math.inf)
    assert label == [0, 1, 1, 3]


def test_no_pair_is_joined_through_which_a_path_gets_too_long():
    edges = {(0, 2): 1.0, (1, 2): 1.0, (0, 3): 0.5}
    load = [1.0, 10.0, 1.0, 9.0]
    label = joined(edges, load, range(4), free_units(load, range(4), math.inf), 1, math.inf, 11.5)
    assert label == [0, 1, 2, 0]


def test_units_that_a_group_fills_take_little_more():
    units = units_of([10.0, 2.0, 2.0, 9.0], [0.0] * 4, [0] * 4, (5.0, math.inf))
    assert units.may_tie(0, 1)
    assert not units.may_tie(0, 3)
    assert not units.may_tie(units.tie(0, 1), 2)


def test_groups_that_may_run_on_other_devices_are_not_tied():
    units = units_of([1.0, 1.0], [0.0] * 2, [0, 1], (5.0, math.inf))
    assert not units.may_tie(0, 1)


def test_backward_operators_are_joined_as_forward_ones():
    """A chain of six in training: halves of it may be units, and then no unit is tied to another through
    clusters of the backward pass that straddle both."""
    graph = training_graph([(i, i + 1) for i in range(5)], 6, nbytes=1.0)
    clusters = coarsened(pass_model(problem(graph, [1.0] * 6 + [2.0] * 6, **PASS)), 6)
    assert len(clusters) <= 7
    assert clusters.units >= 3


@pytest.mark.parametrize("target", [1, 4, 100])
def test_what_is_clustered_keeps_its_work_its_groups_and_its_messages(target):
    for seed in range(60):
        model = pass_model(random_problem(seed, 8, **PASS))
        clusters = coarsened(model, target)
        assert sorted(o for members in clusters.members for o in members) == list(range(model.operators))
        finite = np.isfinite(clusters.seconds)
        np.testing.assert_allclose(clusters.seconds[finite].sum(), model.seconds[np.isfinite(model.seconds)].sum())
        assert clusters.static_bytes.sum() == pytest.approx(model.static_bytes.sum())
        cap = cluster_cap_s(float(model.mean_s.sum()), target)
        for members in clusters.members:
            assert len(members) == 1 or model.mean_s[list(members)].sum() <= cap * (1 + 1e-9)
        for operator in range(model.operators):  # a unit holds whole groups
            unit = clusters.unit_of[clusters.cluster_of[operator]]
            assert unit == clusters.unit_of_group[model.group_of[operator]]
        for u, targets in enumerate(model.successors):
            for v in targets:
                assert clusters.cluster_of[u] <= clusters.cluster_of[v], "clusters are numbered topologically"
        reach = clusters.reaches
        for t in clusters.transfers:
            assert all(reach[p, r] for p in t.producers for r in t.readers if p != r)
        sent = [m for t in clusters.transfers for m in t.messages]
        assert len(set(sent)) == len(sent)
        for m, message in enumerate(model.messages):
            ends = {int(clusters.cluster_of[o]) for o in (*message.producers, *message.readers)}
            costs = model.transfer_s(m).any()
            assert (m in sent) == (len(ends) > 1 and costs)


def test_uncoarsened_is_the_model_itself():
    model = pass_model(random_problem(3, 6, **PASS))
    clusters = uncoarsened(model)
    assert clusters.is_fine
    order = [members[0] for members in clusters.members]
    np.testing.assert_array_equal(clusters.seconds, model.seconds[order])
    assert clusters.units == len(model.groups)


def test_a_circle_of_clusters_is_refused():
    model = pass_model(problem(forward_graph([(0, 1), (1, 2)], 3), [1, 1, 1], **PASS))
    with pytest.raises(ValueError, match="cycle"):
        clustered(model, [0, 1, 0])


def test_places_of_groups_and_units_agree():
    model = pass_model(problem(forward_graph([(0, 1), (1, 2)], 3), [1, 1, 1], **PASS))
    clusters = clustered(model, [0, 0, 1])
    place = clusters.place_of_groups([1, 0])
    assert clusters.place_of_units(place).tolist() == [1, 0]
    assert clusters.place_of_units([0, 1, 0]) is None


def test_ties_reach_through_others():
    ties = Ties(4)
    ties.tie(2, 3)
    ties.tie(1, 2)
    assert [ties.root(i) for i in range(4)] == [0, 1, 1, 1]
