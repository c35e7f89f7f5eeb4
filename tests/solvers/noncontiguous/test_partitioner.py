"""METIS's parts as placements: balanced, unaware of order, and honest where they are no plan."""

from __future__ import annotations

import itertools

import pytest

from solvers.formats.msr2020 import read_msr2020
from solvers.noncontiguous.planners.partitioner import Partitioner
from solvers.plan.result import Status, StopReason
from solvers.planners.solve import solve
from solvers.problem.problem import Contiguity, Problem
from tests.instances import forward_graph, problem
from tests.solvers.msr_instances import (
    as_problem,
    best_max_load_ms,
    needs_workloads,
    published,
    random_file,
    references,
)

pytest.importorskip("pymetis")


def two_cliques() -> Problem:
    """Two chains of three operators, fed by one and read by one; only within a chain transfers are dear."""
    edges = [(0, 1), (0, 4), (1, 2), (2, 3), (4, 5), (5, 6), (3, 7), (6, 7)]
    return problem(forward_graph(edges, 8, nbytes=1.0), [0.1, 1, 1, 1, 1, 1, 1, 0.1], contiguity=Contiguity.NONE)


def test_parts_are_balanced_and_cut_where_little_is_sent() -> None:
    result = solve(two_cliques(), Partitioner())
    assert result.plan is not None
    where = result.plan.placement()
    assert where[1] == where[2] == where[3] != where[4]
    assert where[4] == where[5] == where[6]
    assert result.plan.devices_used() == (0, 1)


@pytest.mark.parametrize("seed", range(10))
def test_it_never_beats_the_optimum_and_never_claims_one(seed: int) -> None:
    file = random_file(seed, seed % 3)
    best, result = (
        best_max_load_ms(file) * 1e-3,
        solve(as_problem(read_msr2020(file, "random.json")), Partitioner(seeds=1)),
    )
    assert result.objective_s >= best * (1 - 1e-9)
    assert result.plan is not None or result.notes


def test_one_accelerator_is_one_part() -> None:
    p = problem(forward_graph([(0, 1)], 2, nbytes=1.0), [1, 2], gpus=1)
    result = solve(p, Partitioner())
    assert result.plan is not None
    assert result.plan.placement() == {0: (0,), 1: (0,)}


def test_what_no_accelerator_can_run_goes_to_a_cpu_and_without_one_there_is_no_plan() -> None:
    graph = forward_graph([(0, 1), (1, 2)], 3, nbytes=0.0)
    inf = float("inf")
    result = solve(
        problem(graph, [1, inf, 1], cpus=1, cpu_seconds=[9, 1, 9], contiguity=Contiguity.NONE), Partitioner()
    )
    assert result.plan is not None
    assert result.plan.placement()[1] == (2,)
    none = solve(problem(graph, [1, inf, 1], contiguity=Contiguity.NONE), Partitioner())
    assert none.plan is None


def test_a_cycle_between_parts_is_a_note_not_an_error() -> None:
    # Co-location in pairs, crosswise: any two balanced parts feed each other.
    pairs = {"o0": 0, "o1": 1, "o2": 0, "o3": 1}
    node = {"supportedOnFpga": 1, "cpuLatency": 9.0, "fpgaLatency": 1.0, "isBackwardNode": 0, "size": 1.0}
    file = {
        "maxFPGAs": 2, "maxCPUs": 0, "maxSizePerFPGA": 3.0,
        "nodes": [{"id": i, "name": name, "colorClass": pairs[name], **node} for i, name in enumerate(pairs)],
        "edges": [{"sourceId": i, "destId": j, "cost": 0.1} for i, j in itertools.pairwise(range(4))],
    }  # fmt: skip
    workload = read_msr2020(file, "crosswise.json")
    result = solve(as_problem(workload), Partitioner())
    assert result.plan is None
    unconstrained = solve(as_problem(workload, contiguity=Contiguity.NONE), Partitioner())
    assert unconstrained.status is Status.FEASIBLE
    assert unconstrained.objective_s == pytest.approx(2.3e-3)


def test_parts_of_a_graph_without_such_pairs_can_be_cyclic_too() -> None:
    # Heavy transfers join 0 with 3 and 1 with 2, light ones lead from 0 to 1 and from 2 to 3.
    file = {
        "maxFPGAs": 2, "maxCPUs": 0, "maxSizePerFPGA": 2.0,
        "nodes": [
            {"id": i, "name": f"o{i}", "supportedOnFpga": 1, "cpuLatency": 9.0, "fpgaLatency": 1.0, "isBackwardNode": 0,
             "size": 1.0} for i in range(4)
        ],
        "edges": [{"sourceId": u, "destId": v, "cost": c} for u, v, c in ((0, 1, 0.1), (1, 2, 5.0), (2, 3, 0.1))],
    }  # fmt: skip
    workload = read_msr2020(file, "light.json")
    result = solve(as_problem(workload), Partitioner())
    assert (result.status, result.stop_reason) == (Status.NO_PLAN, StopReason.FINISHED)
    assert any("partitions none is a plan: in" in note and "form a cycle" in note for note in result.notes)
    assert solve(as_problem(workload, contiguity=Contiguity.NONE), Partitioner()).objective_s == pytest.approx(2.2e-3)


def test_what_metis_prints_reaches_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    # More parts than operators: METIS complains on standard output, where --json writes.
    result = solve(problem(forward_graph([(0, 1), (1, 2)], 3, nbytes=1.0), [1, 5, 1], gpus=8), Partitioner())
    assert result.plan is not None
    assert capfd.readouterr() == ("", "")


def test_it_stops_at_once_when_cancelled() -> None:
    result = solve(two_cliques(), Partitioner(), should_stop=lambda: True)
    assert result.stop_reason is StopReason.CANCELLED


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="seeds must be at least 1"):
        Partitioner(seeds=0)


@pytest.mark.first(2)
@needs_workloads
@pytest.mark.parametrize("name", references())
def test_published_workloads_come_out_as_good_as_with_scotch(name: str) -> None:
    result = solve(as_problem(published(name), contiguity=Contiguity.NONE), Partitioner())
    reference = references()[name]
    assert reference["noncontiguous"]["lower_bound"] * 0.9999 <= result.objective_s * 1e3
    assert result.objective_s * 1e3 <= 1.01 * reference["baselines"]["scotch"]
