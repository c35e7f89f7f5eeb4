"""What a run can execute of what may be planned. No torch here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from solvers.plan.plan import Plan
from solvers.problem.collectives import Division, redundant_experts
from solvers.problem.problem import Optimizer, Precision, Problem
from solvers.problem.training import ZERO_GRADIENTS, ZERO_PARAMETERS, ZERO_STATES

OPTIMIZERS = ("sgd", "momentum", "adam", "adamw")
"""Those that a run has; `explorer.runner.model.optimizers` makes them."""


def processes(problem: Problem, plan: Plan) -> int:
    """How many a plan runs on: one for each device that it uses, or each member of the groups that it does."""
    return len(plan.devices_used()) * problem.graph.tensor_parallel


def optimizer_of(problem: Problem, optimizer: str | None) -> str:
    """The one that a run executes: what was asked for, or the plan's; plain SGD where the plan counts none."""
    return optimizer or (problem.optimizer.value if problem.optimizer is not Optimizer.NONE else "sgd")


def shares_states(problem: Problem, plan: Plan) -> bool:
    """Whether replicas hold a part each of the optimizer's states; a stage on one device has nobody to share with."""
    return problem.zero >= ZERO_STATES and any(len(stage.devices) > 1 for stage in plan.stages)


def not_run(problem: Problem, plan: Plan, optimizer: str | None) -> Iterator[str]:
    """What was planned and cannot be run, a line each; optimizer: an optimizer in place of the plan's."""
    if len(set(problem.graph.degrees)) > 1:
        yield "degrees by part are planned for and not run; plan with one degree (--tensor-parallel)"
    elif problem.graph.tensor_parallel > 1 and problem.graph.division is None:
        yield "the plan does not state how its tensors are divided, as older ones did not; plan it again"
    elif redundant := redundant_experts(problem.graph):
        yield (
            f"{redundant} redundant experts in a group are planned for and not run: a run has every expert once; plan"
            " without --redundant-experts"
        )
    elif crossing := _rows_between(problem, plan):
        yield (
            f"rows of experts ({crossing}) go from one stage to another, and how many there are is known only as it"
            " runs; plan with layers whole (--whole layers)"
        )
    if not problem.training:
        return
    if problem.precision is not Precision.PURE:
        yield (
            f"precision {problem.precision.value} is planned for and not run: a run keeps no fp32 masters;"
            " plan with --precision pure"
        )
    if problem.zero >= ZERO_GRADIENTS and shares_states(problem, plan):
        whole = "gradients" if problem.zero < ZERO_PARAMETERS else "parameters and gradients"
        yield (
            f"ZeRO-{problem.zero} is planned for and not run: replicas of a run shard the optimizer's states and"
            f" hold {whole} whole; plan with --zero 1"
        )
    if (named := optimizer_of(problem, optimizer)) not in OPTIMIZERS:
        yield (
            f"optimizer {named} is planned for and not run: run with --optimizer {', '.join(OPTIMIZERS[:-1])} or"
            f" {OPTIMIZERS[-1]}"
        )


def _rows_between(problem: Problem, plan: Plan) -> str:
    """A tensor of which a member has the rows of its experts, that one stage makes and another reads; "" for none."""
    stage_of = {operator: number for number, stage in enumerate(plan.stages) for operator in stage.operators}
    division = problem.graph.division
    while division is not None:
        if crossing := _rows_of(division, stage_of):
            return crossing
        division = division.outer
    return ""


def _rows_of(division: Division, stage_of: Mapping[int, int]) -> str:
    """The same along one axis. stage_of: by operator."""
    made_in: dict[int, int] = {}
    for call in division.calls:
        if call.operator is None or call.operator not in stage_of:
            continue
        here = stage_of[call.operator]
        for tensor in call.inputs:
            if made_in.get(tensor, here) != here:
                return division.tensors[tensor].name
        made_in |= {made: here for made in call.outputs if division.tensors[made].placement.startswith("E")}
    return ""
