"""Hugging Face's `device_map`: module path -> device, as JSON.

Grammar: accelerate 1.15.0, `dispatch_model(model, device_map)` and `check_device_map`: every parameter under one of
the paths; a device is the number of a GPU, "cpu" or "disk". transformers' `from_pretrained(device_map=...)` takes the
same. Modules run one after the other where their inputs are moved to; there are no stages and no micro-batches.
"""

from __future__ import annotations

import json
from collections import Counter

from explorer.exports.layers.chain import numbers
from explorer.exports.layers.merged import forward_homes
from explorer.exports.layers.nearest import cost, forward_and_back
from explorer.exports.layers.recomputation import not_recomputed
from explorer.exports.layers.units import Units, units_of
from explorer.exports.layers.written import Written, path_of
from explorer.words import text
from solvers.errors import InvalidPlan, PlacementError, UnsupportedProblem
from solvers.formats.plan_json import PlanFile
from solvers.problem.graph import OpGraph
from solvers.schedules.assemble import assemble


def device_map(file: PlanFile, nearest: bool = False) -> Written:
    """Raises UnsupportedProblem if a module is on several devices (nearest: it is on the one that does most of its
    work), is replicated, or if parameters are in no module."""
    graph, model = file.problem.graph, units_of(file.problem.graph)
    at = _devices(file)
    lost, changed = list[str](), list[str]()
    places: dict[str, int] = {}
    moved: dict[int, int] = {}
    for unit in model.units:
        held = {at[o] for o in unit.operators if not graph.operators[o].replicable} or {at[unit.operators[0]]}
        if len(held) > 1:
            if not nearest:
                raise _cut(file, unit.name, Counter(at[o] for o in unit.operators))
            best, sentence = _most(file, unit.name, unit.operators, at)
            changed.append(sentence)
            moved |= dict.fromkeys(unit.operators, best)
            held = {best}
        places[path_of(unit.name)] = min(held)
    _check_parameters(graph, model)
    if moved:
        changed.append(_cost(file, moved))
    lost += _mixed(graph, model, at | moved)
    if len(set(places.values())) > 1:
        lost.append("micro-batches and their order: accelerate runs one module after the other, a device at a time")
    lost += not_recomputed(file.problem, file.plan, "of whole layers, model.gradient_checkpointing_enable()")
    if len({file.problem.cluster.devices[device].node for device in places.values()}) > 1:
        lost.append("hosts: the plan is for several, and accelerate's map is of one")
    lost += numbers(file.problem)
    lost.append("modules that the traced forward does not run; give them a device by hand if they have parameters")
    value = {name: _name(file, device) for name, device in places.items()}
    return Written(json.dumps(value, indent=2) + "\n", tuple(lost), tuple(changed))


def _devices(file: PlanFile) -> dict[int, int]:
    """Forward operator -> its device."""
    device_of = {}
    for operator, stages in forward_homes(file.problem.graph, file.plan).items():
        devices = file.plan.stages[stages[0]].devices
        if len(devices) > 1:
            raise UnsupportedProblem(
                f"{file.problem.graph.operators[operator].name} is replicated on {len(devices)} devices, and a"
                " device_map has one device a module (plan with --replicate 1)"
            )
        device_of[operator] = devices[0]
    return device_of


def _name(file: PlanFile, device: int) -> int | str:
    """GPUs by number; CPUs are one."""
    cluster = file.problem.cluster
    return "cpu" if cluster.devices[device].is_cpu else cluster.accelerators.index(device)


def _cut(file: PlanFile, name: str, held: Counter[int]) -> UnsupportedProblem:
    devices = file.problem.cluster.devices
    parts = ", ".join(f"{text.plural(count, 'operator')} on {devices[d].name}" for d, count in sorted(held.items()))
    return UnsupportedProblem(
        f"the module {name} is on several devices: {parts}; its own forward would add tensors of both (--nearest gives"
        " it to the one that does most of its work)"
    )


def _most(file: PlanFile, name: str, operators: tuple[int, ...], at: dict[int, int]) -> tuple[int, str]:
    work = forward_and_back(file.problem, file.plan)
    share: dict[int, float] = {}
    for o in operators:
        share[at[o]] = share.get(at[o], 0.0) + work[o]
    best = max(sorted(share), key=lambda device: share[device])
    total = sum(share.values())
    part = f", which does {text.percent(share[best] / total)} of its work" if total else ""
    return best, f"{name} is whole on {file.problem.cluster.devices[best].name}{part}"


def _cost(file: PlanFile, moved: dict[int, int]) -> str:
    problem, plan = file.problem, file.plan
    where = plan.placement()
    placement = []
    for o, operator in enumerate(problem.graph.operators):
        forward = o if operator.forward_of is None else operator.forward_of
        placement.append((moved[forward],) if forward in moved else where[o][:1])
    try:
        after = assemble(problem, placement, problem.mini_batch // plan.stages[0].micro_batch_size)
    except (InvalidPlan, PlacementError) as error:
        return f"what whole modules cost cannot be predicted: {error}"
    return cost(problem, plan, after)


def _mixed(graph: OpGraph, model: Units, at: dict[int, int]) -> list[str]:
    """Operators between modules that read of several devices: accelerate moves the inputs of modules only."""
    mixed = [
        graph.operators[o].name for o in model.outside if len({at[p] for p in graph.predecessors[o] if p in at}) > 1
    ]
    warning = f"{text.listing(mixed)}: reads of several devices in the forward around the modules, which must move them"
    return [warning] if mixed else []


def _check_parameters(graph: OpGraph, model: Units) -> None:
    for o in model.outside:
        if graph.operators[o].param_bytes:
            raise UnsupportedProblem(
                f"{graph.operators[o].name} reads parameters that the model itself holds, in no module of its own, and"
                " a plan does not know their names; put them into a module"
            )
