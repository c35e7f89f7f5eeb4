"""From a placement to a whole plan: stages, in-flight numbers and orders."""

from __future__ import annotations

from collections.abc import Sequence

from solvers.errors import InvalidPlan
from solvers.plan.contiguity import cycle_of_places
from solvers.plan.plan import Plan, Stage
from solvers.plan.segments import Place, stages_of_placement
from solvers.problem.problem import Contiguity, Problem
from solvers.schedules.ordering.arrange import arranged
from solvers.schedules.ordering.in_flight import in_flight
from solvers.schedules.ordering.orders import stage_successors, stage_waits


def assemble(problem: Problem, placement: Sequence[Place], micro_batches: int) -> Plan:
    """The plan that runs a placement with the problem's pipeline.

    placement: for every operator of the graph its devices (more than one: replicated).
    micro_batches must divide the problem's mini-batch. Raises InvalidPlan if the placement cannot
    be cut into stages, or is not acyclic where the problem asks for that.
    """
    by_device = not problem.by_stage
    acyclic = problem.contiguity is Contiguity.ACYCLIC and not problem.is_latency and by_device
    if acyclic and (cycle := cycle_of_places(problem.graph, placement)):
        raise InvalidPlan(f"the devices form a cycle {' -> '.join(str(list(place)) for place in cycle)}")
    sets = stages_of_placement(problem.graph, placement)
    if acyclic and len(sets) > len(set(placement)):
        raise InvalidPlan("backward tensors form a cycle of devices, though forward ones do not")
    members = [operators for operators, _ in sets]
    waits = stage_waits(problem.graph, members)
    size = problem.mini_batch // micro_batches
    count = len(members)
    flights = in_flight(problem, stage_successors(problem, members), [size] * count, [1] * count)
    stages = tuple(
        Stage(operators, devices, size, flight) for (operators, devices), flight in zip(sets, flights, strict=True)
    )
    return arranged(problem, stages, waits)
