"""Values as a few lines of text."""

from __future__ import annotations

from explorer.view.graph.skeleton import skeleton
from explorer.view.plan_types import Skeleton
from explorer.words import text
from solvers.formats.workload import Workload
from solvers.plan.plan import Plan
from solvers.plan.result import Result, Status
from solvers.problem.graph import OpGraph, Phase
from solvers.problem.problem import Problem


def skeleton_of(value: Result | Workload | OpGraph) -> Skeleton:
    """The plain-data twin of the graph of a value."""
    if isinstance(value, Workload):
        return skeleton(value)
    graph = value.problem.graph if isinstance(value, Result) else value
    training = value.problem.training if isinstance(value, Result) else graph.trains
    return skeleton(Workload(graph, graph.name, training=training))


def result_line(result: Result) -> str:
    """ "gpt on 4 x H100-80GB: 371 ms an iteration, proved optimal (auto, 1.2 s)"."""
    where = f"{result.problem.graph.name} on {cluster_words(result.problem)}"
    how = f"{result.planner}, {text.seconds(result.runtime_s)}"
    if result.plan is None:
        why = "; ".join(result.notes) or text.words(result.stop_reason.value)
        return f"{where}: {text.words(result.status.value)}: {why} ({how})"
    if result.status is Status.OPTIMAL:
        proof = "proved optimal"
    else:
        proof = text.from_best(result.objective_s, result.bound_s) if result.bound_s else "no bound proved"
    return f"{where}: {text.seconds(result.objective_s)} {result.problem.objective.value}, {proof} ({how})"


def plan_line(plan: Plan) -> str:
    """ "Plan of 4 stages on 4 devices, 1f1b"."""
    used = text.plural(len(plan.devices_used()), "device")
    stages = text.plural(len(plan.stages), "stage")
    operators = text.plural(len(plan.placement()), "operator")
    return f"Plan: {operators} in {stages} on {used}, {'one pass' if plan.pipeline == 'none' else plan.pipeline}"


def graph_line(graph: OpGraph) -> str:
    """ "gpt: 787 operators (262 forward), 900 tensors, traced at 1 sample"."""
    forward = sum(1 for operator in graph.operators if operator.phase is Phase.FORWARD)
    parts = f"{text.plural(len(graph), 'operator')} ({text.count(forward)} forward)"
    return f"{graph.name}: {parts}, {text.plural(len(graph.tensors), 'tensor')}, batch {graph.samples:,}"


def workload_line(workload: Workload) -> str:
    """`graph_line`, with parameters and where its costs are from."""
    parameters = f", {text.large(workload.parameters)} parameters" if workload.parameters else ""
    return f"{graph_line(workload.graph)}{parameters}, costs {workload.costs_from}"


def cluster_words(problem: Problem) -> str:
    """ "4 × H100-80GB + 1 × cpu"."""
    return text.counted(device.kind for device in problem.cluster.devices)
