"""One door to the pipelines: from stages to the plan that runs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from solvers.errors import NoLink
from solvers.evaluation.simulation import simulate
from solvers.kernels.arrays import Floats
from solvers.plan.plan import Action, Plan, Stage
from solvers.plan.regions import rerunning
from solvers.problem.problem import IN_A_V, IN_TURN, Objective, Pipeline, Problem
from solvers.schedules.ordering.eager_order import Waits
from solvers.schedules.ordering.flight_room import Room
from solvers.schedules.ordering.interleaving import interleaved
from solvers.schedules.ordering.orders import append_updates, pipeline_order
from solvers.schedules.ordering.patterns import most_held
from solvers.schedules.ordering.stage_actions import Run, StageActions, splits
from solvers.schedules.ordering.v_shaped import v_shaped
from solvers.schedules.ordering.zero_bubble import zero_bubble

TRIES, TRIES_OF_LARGE = 8, 3
"""How many runs are tried by simulation before a plan falls back to 1F1B."""
LARGE = 3000
"""Tasks of a plan whose simulation takes about a tenth of a second."""


def arranged(problem: Problem, stages: Sequence[Stage], waits: Waits, blocks: Sequence[int] | None = None) -> Plan:
    """The plan that runs ``stages`` with the problem's pipeline.

    stages: with the in-flight numbers of 1F1B (or GPipe); where the pipeline has others, the plan's
    stages have those counted in its orders. waits: see `stage_waits`; blocks: see `pipeline_order`.
    ZERO_BUBBLE has I and W in place of B (a stage without parameters I only, one that sends no gradients on
    W only), unless the graph has no operators for gradients of parameters, or other backward operators
    read what these make, or memory has no room for it: then it is 1F1B. Where every two stages of a chain share a
    device so that they make a V, it has the orders of `v_shaped`, as those named after these have. INTERLEAVED and
    the others of several stages a device are 1F1B too where no device has several, and PLANNER is 1F1B until a
    search is over, see `own_order`. A single pass has no pipeline: B is whole.
    """
    regions = tuple(region for stage in stages for region in stage.regions)
    problem = rerunning(problem, regions) if regions else problem  # orders go by what stages take
    candidates: tuple[StageActions, list[Run]] | None = None
    in_parts = splits(problem.graph) and problem.objective is not Objective.MAKESPAN
    if problem.pipeline in (*IN_A_V, Pipeline.DUAL_PIPE, Pipeline.ZERO_BUBBLE) and _several(stages):
        candidates = v_shaped(problem, stages, waits)
    if candidates is None and problem.pipeline is Pipeline.ZERO_BUBBLE and in_parts:
        candidates = zero_bubble(problem, stages)
    elif problem.pipeline in IN_TURN and _several(stages):
        candidates = interleaved(problem, stages, waits)
    if candidates is not None:
        plan = _first_that_fits(problem, stages, waits, *candidates)
        if plan is not None:
            return plan
    pipeline = Pipeline.GPIPE if problem.pipeline is Pipeline.GPIPE else Pipeline.ONE_F_ONE_B
    in_blocks = blocks is not None and max(blocks) > 1 and pipeline is Pipeline.ONE_F_ONE_B
    order = pipeline_order(problem, stages, waits, blocks)
    return Plan(tuple(stages), order, "custom" if in_blocks else pipeline.value)


def arranged_as(
    problem: Problem, stages: Sequence[Stage], waits: Waits, orders: Sequence[list[Action]], name: str
) -> Plan:
    """The plan with these orders of forwards and backwards; updates are added, in-flight numbers counted."""
    counted = most_held(stages, orders)
    append_updates(problem, stages, waits, orders)
    counted_stages = tuple(replace(stage, in_flight=most) for stage, most in zip(stages, counted, strict=True))
    return Plan(counted_stages, tuple(map(tuple, orders)), name)


def _first_that_fits(
    problem: Problem, stages: Sequence[Stage], waits: Waits, actions: StageActions, runs: Sequence[Run]
) -> Plan | None:
    """The shortest run whose memory fits by estimate or, of a few tried, by simulation; of large plans, which
    take long to simulate, after the first failure only those that may fit by estimate."""
    room = Room(problem, stages, actions.received_bytes, actions.waiting_bytes)
    large = len(runs) > 0 and len(runs[0].sequence) > LARGE
    tried: list[Floats] = []
    for run in runs:
        orders = actions.per_device(run)
        needed = room.most_bytes(orders)
        if any((needed >= other).all() for other in tried):  # no better than one that did not fit
            continue
        if large and tried and (needed > room.left_bytes).any():
            continue
        plan = arranged_as(problem, stages, waits, orders, problem.pipeline.value)
        if room.is_ample(needed) or _fits(problem, plan):
            return plan
        tried.append(needed)
        if len(tried) == (TRIES_OF_LARGE if large else TRIES):
            break
    return None


def _fits(problem: Problem, plan: Plan) -> bool:
    try:
        peaks = simulate(problem, plan).peak_bytes()
    except NoLink:
        return True  # whatever the order
    return all(peak <= device.memory_bytes for peak, device in zip(peaks, problem.cluster.devices, strict=True))


def _several(stages: Sequence[Stage]) -> bool:
    """Whether a device has more than one stage."""
    devices = [device for stage in stages for device in stage.devices]
    return len(set(devices)) < len(devices)
