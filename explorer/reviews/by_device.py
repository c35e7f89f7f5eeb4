"""Two plans of one model that divide its tensors otherwise, in terms of what both have: single devices, and the
operators that compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from solvers.evaluation.evaluate import Metrics
from solvers.plan.plan import Plan
from solvers.problem.cluster import Device
from solvers.problem.collectives import COLLECTIVE
from solvers.problem.graph import OpGraph, Phase
from solvers.problem.problem import Problem


@dataclass(frozen=True, eq=False)
class ByDevice:
    """plan: of the operators that both have, by their place among them, on single devices, without an order. names:
    "GPU 3". metrics: of each member of a group what its group has."""

    plan: Plan
    devices: tuple[Device, ...]
    names: tuple[str, ...]
    metrics: Metrics


def divides_otherwise(first: OpGraph, second: OpGraph) -> bool:
    """Whether two graphs are one model, of which groups of other sizes run a member each."""
    return first.degrees != second.degrees and first.samples == second.samples and _calls(first) == _calls(second)


def _calls(graph: OpGraph) -> list[tuple[str, str]]:
    """Its operators that compute in the forward."""
    forward = (one for one in graph.operators if one.phase is Phase.FORWARD)
    return [(one.name, one.op_type) for one in forward if not one.op_type.startswith(COLLECTIVE)]


def shared_operators(first: OpGraph, second: OpGraph) -> list[str]:
    """The names that both have of operators that compute, in the order of the first."""
    other = second.index_of()
    return [one.name for one in first.operators if one.name in other and not one.op_type.startswith(COLLECTIVE)]


def member_kind(device: Device) -> str:
    """The kind of the members of what may be a group: "H100-80GB" of "H100-80GB x4"."""
    return device.kind.removesuffix(f" x{device.members}") if device.members > 1 else device.kind


def by_device(problem: Problem, plan: Plan, metrics: Metrics, shared: Sequence[str]) -> ByDevice:
    """A plan on the single devices of its groups. shared: the operators that count."""
    number = {name: at for at, name in enumerate(shared)}
    members: list[tuple[int, ...]] = []
    for device in problem.cluster.devices:
        first = members[-1][-1] + 1 if members else 0
        size = device.members or problem.graph.tensor_parallel
        members.append(tuple(range(first, first + size)))
    group_of = [group for group, some in enumerate(members) for _ in some]
    stages = []
    for stage in plan.stages:
        names = (problem.graph.operators[at].name for at in stage.operators)
        if operators := tuple(number[name] for name in names if name in number):
            devices = tuple(one for group in stage.devices for one in members[group])
            stages.append(replace(stage, operators=operators, devices=devices, offload=(), regions=()))
    specs = [problem.cluster.devices[group] for group in group_of]
    return ByDevice(
        Plan(tuple(stages), ((),) * len(group_of)),
        tuple(replace(spec, kind=member_kind(spec), members=0) for spec in specs),
        tuple(f"GPU {at}" for at in range(len(group_of))),
        replace(
            metrics,
            peak_memory_bytes=tuple(metrics.peak_memory_bytes[group] for group in group_of),
            busy_s=tuple(metrics.busy_s[group] for group in group_of),
        ),
    )  # fmt: skip
