"""Plans for less memory than activations take, kept in the hosts' memory."""

from __future__ import annotations

from dataclasses import replace

from solvers.bounds.combinatorial import lower_bound_s
from solvers.evaluation.simulation import simulate
from solvers.pipelines.recomputation.fitted import fitted
from solvers.plan.result import Result, Status
from solvers.planners.solve import solve
from solvers.problem.problem import Pipeline, Problem
from solvers.schedules.assemble import assemble
from solvers.verify import verify
from tests.instances import GPU, problem, training_graph


def offloading(memory: float, **options: object) -> Problem:
    """One device; 8 micro-batches of which 6 bytes are saved, forwards of 1 s first, backwards of 2 s."""
    fields = {"mini_batch": 8, "micro_batches": 8, "pipeline": Pipeline.GPIPE, "host_links": {GPU: 6.0}, **options}
    return problem(training_graph([], 1, saved=6.0), [1.0, 2.0], 1, memory=memory, **fields)  # type: ignore[arg-type]


def test_where_nothing_fits_a_stage_is_offloaded() -> None:
    result = solve(offloading(20.0), "single")
    assert result.plan is not None
    assert result.plan.stages[0].offload
    assert result.objective_s == 24
    assert simulate(result.problem, result.plan).peak_bytes() == (18,)
    assert solve(offloading(20.0, host_links={}), "single").plan is None


def test_where_all_fits_nothing_is_offloaded() -> None:
    result = solve(offloading(48.0), "single")
    assert result.plan is not None
    assert not result.plan.stages[0].offload
    assert result.status is Status.OPTIMAL


def test_what_cannot_fit_has_no_plan_and_is_not_proved() -> None:
    result = solve(offloading(7.0), "single")
    assert result.status is Status.NO_PLAN


def test_of_two_stages_the_one_without_room_is_offloaded() -> None:
    p = offloading(48.0)
    graph = training_graph([(0, 1)], 2, saved=6.0)
    two = problem(graph, [1.0, 1.0, 2.0, 2.0], 2, mini_batch=8, micro_batches=8, pipeline=Pipeline.GPIPE)
    devices = two.cluster.devices
    cluster = replace(two.cluster, devices=(devices[0], replace(devices[1], memory_bytes=30.0)))
    two = replace(two, cluster=cluster, host_links=p.host_links)
    plan = fitted(two, assemble(two, [(0,), (1,), (0,), (1,)], 8)).plan
    assert plan is not None
    assert [bool(stage.offload) for stage in plan.stages] == [False, True]
    simulation = simulate(two, plan)
    assert simulation.peak_bytes()[1] <= 30
    assert verify(two, plan, simulation) == ()
    assert lower_bound_s(two) <= simulation.makespan_s


def test_what_goes_to_hosts_and_what_runs_again_are_chosen_together() -> None:
    """Two operators that save 6 bytes each of 8 micro-batches, of which one takes 1 s to run again: over a fast link
    all goes and nothing is waited for; over one on which copies would be, the cheap one runs again; with neither
    nothing fits."""
    graph = training_graph([(0, 1)], 2, nbytes=1.0, saved=6.0)

    def best(bytes_per_s: float, again: bool = True) -> Result:
        fields = {"host_links": {GPU: bytes_per_s}, "recompute_operators": again, "pipeline": Pipeline.GPIPE}
        seconds = [5.0, 1.0, 10.0, 2.0]
        question = problem(graph, seconds, 1, memory=45.0, mini_batch=8, micro_batches=8, **fields)  # type: ignore[arg-type]
        return solve(question, "single")

    fast, slow = best(100.0), best(1.0)
    assert fast.plan is not None
    assert slow.plan is not None
    assert (fast.objective_s, slow.objective_s) == (8 * 18, 8 * 19)
    assert (fast.plan.stages[0].again, fast.plan.stages[0].offload) == ((), (0, 1))
    assert (slow.plan.stages[0].again, slow.plan.stages[0].offload) == ((1,), ())
    assert any("for what runs again and copies to its host" in note for note in slow.notes)
    assert best(1.0, again=False).plan is None
