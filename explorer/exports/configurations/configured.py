"""The plan that a launcher's configuration comes to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from explorer.exports.configurations.configuration import Configuration, even_counts
from explorer.exports.configurations.megatron import megatron
from explorer.exports.configurations.torchtitan import torchtitan
from explorer.exports.layers.units import Units, units_of
from explorer.question.loading import read_file
from explorer.words import text
from solvers.errors import InvalidProblem
from solvers.plan.drafts import Draft, DraftStage
from solvers.plan.plan import Plan
from solvers.problem.graph import OpGraph, Phase
from solvers.problem.groups import together
from solvers.problem.problem import Problem
from solvers.schedules.realise import realise

READERS: dict[str, Callable[[str, str], Configuration]] = {"megatron": megatron, "torchtitan": torchtitan}
"""Launcher -> what reads its files."""


def read_configuration(named: str) -> Configuration:
    """The configuration in a file.

    named: "megatron:train.sh" or "torchtitan:llama3_8b.toml". Raises InvalidProblem, in one line.
    """
    launcher, colon, path = named.partition(":")
    if not colon or launcher not in READERS or not path:
        known = ", ".join(f"{name}:FILE" for name in READERS)
        raise InvalidProblem(f"--from {named[:80]}: expected a launcher and a file: {known}")
    try:
        written = read_file(path).decode()
    except UnicodeDecodeError:
        raise InvalidProblem(f"{path}: no text in UTF-8") from None
    return READERS[launcher](written, path)


def configured_plan(problem: Problem, configuration: Configuration) -> Plan:
    """The plan of a configuration: whole modules in every stage, in the order of its schedule.

    problem: of the model divided as the configuration says (its devices are groups), for its replicas and samples.
    Raises InvalidProblem where the model has other layers than the file, and InvalidPlan where stages wait for each
    other.
    """
    replicas = len(problem.cluster.accelerators) // configuration.pipeline
    stage_of = _stage_of(problem.graph, configuration)
    members: list[list[int]] = [[] for _ in range(configuration.stages)]
    for operator, stage in enumerate(stage_of):
        members[stage].append(operator)
    for stage, operators in enumerate(members):
        if not operators:
            raise InvalidProblem(f"{configuration.path}: nothing of {problem.graph.name} is in stage {stage}")
    size = configuration.group_micro_batch * replicas
    accelerators = problem.cluster.accelerators
    ranks = [tuple(accelerators[rank * replicas : (rank + 1) * replicas]) for rank in range(configuration.pipeline)]
    stages = tuple(DraftStage(tuple(operators), size, replicas) for operators in members)
    configured = replace(problem, pipeline=configuration.schedule, max_replicas=max(replicas, problem.max_replicas))
    return realise(configured, Draft(stages), [ranks[stage % configuration.pipeline] for stage in range(len(stages))])


def _stage_of(graph: OpGraph, configuration: Configuration) -> list[int]:
    """Stage of every operator, shape [operators]. Modules are whole; what is in none goes with what it reads of; a
    backward with its forward."""
    model = units_of(graph)
    at: dict[int, int] = {}
    for unit, stage in zip(model.units, _stage_of_unit(model, configuration), strict=True):
        at.update(dict.fromkeys(unit.operators, stage))
    outside = set(model.outside)
    for operator in graph.topological_order:
        if operator in outside:
            at[operator] = max((at[p] for p in graph.predecessors[operator] if p in at), default=0)
    stage_of = [-1] * len(graph)
    for group in together(graph):
        forward = [at[o] for o in group if o in at and graph.operators[o].phase is Phase.FORWARD]
        for operator in group:
            stage_of[operator] = at.get(operator, max(forward, default=-1))
    if -1 in stage_of:
        name = graph.operators[stage_of.index(-1)].name
        raise InvalidProblem(f"{configuration.path}: no stage for {name}, which belongs to no forward operator")
    return stage_of


def _stage_of_unit(model: Units, configuration: Configuration) -> list[int]:
    """Stage of every module that launchers place whole, shape [modules]."""
    if configuration.names:
        return _stage_by_name(model, configuration)
    path, layers = configuration.path, model.layers
    if not layers:
        raise InvalidProblem(f"{path}: {configuration.launcher} counts layers, and the model has no list of them")
    if configuration.layers is not None and configuration.layers != len(layers):
        raise InvalidProblem(
            f"{path}: {text.plural(configuration.layers, 'layer')}, and the model has {len(layers)}; plan the model"
            " that the file trains"
        )
    counts = configuration.counts or even_counts(path, len(layers), configuration.stages, configuration.ends)
    of_layer = [stage for stage, count in enumerate(counts) for _ in range(count)]
    number = {unit: position for position, unit in enumerate(layers)}
    first, last = layers[0], layers[-1]
    return [
        of_layer[number[unit]] if unit in number
        else 0 if unit < first
        else configuration.stages - 1 if unit > last
        else of_layer[max(n for other, n in number.items() if other < unit)]
        for unit in range(len(model.units))
    ]  # fmt: skip


def _stage_by_name(model: Units, configuration: Configuration) -> list[int]:
    """By the modules that the file lists; what it does not list stands in the first stage."""
    listed = {name: stage for stage, names in reversed([*enumerate(configuration.names)]) for name in names}
    known = {unit.name for unit in model.units}
    unknown = [name for name in listed if name not in known]
    if len(unknown) == len(listed):
        has = text.listing(sorted(known), 4)
        raise InvalidProblem(f"{configuration.path}: none of its modules is one of the model's, which are {has}")
    return [listed.get(unit.name, 0) for unit in model.units]
