"""A launcher's configuration beside the best plan that a search gives."""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.exports.configurations.configuration import Configuration
from explorer.exports.configurations.configured import configured_plan
from explorer.question.models.example import join_example, split_example
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.question.together import Unit
from explorer.reviews.difference import difference, difference_object
from explorer.reviews.shown import number_lines
from explorer.view.versus import EQUAL, factor
from explorer.words import text
from solvers.evaluation.evaluate import evaluate, judge
from solvers.formats.json_text import finite_or_none
from solvers.formats.op_graph_json import graph_hash
from solvers.formats.workload import Workload
from solvers.plan.plan import Plan
from solvers.plan.result import Result
from solvers.problem.collectives import Axis
from solvers.problem.problem import Problem


@dataclass(frozen=True)
class Configured:
    """The plan of a configuration.

    problem: what it answers, with its schedule. violation: the rule that it breaks, such as a cap; "" for none.
    objective_s: seconds of an iteration. peak_bytes: of the fullest device.
    """

    configuration: Configuration
    problem: Problem
    plan: Plan
    violation: str
    objective_s: float
    peak_bytes: float

    @property
    def words(self) -> str:
        """ "12.4 s and 71 GiB on the fullest device", with what it breaks."""
        sentence = f"{text.seconds(self.objective_s)} and {text.nbytes(self.peak_bytes)} on the fullest device"
        return sentence + (f"; it cannot run: {self.violation}" if self.violation else "")


def named_model(model: str, configuration: Configuration) -> str:
    """The model divided as the configuration says, unless its name says otherwise."""
    example, axes = split_example(model)[1], configuration.axes
    if example.tensor_parallel is not None or example.degree > 1 or configuration.members == 1:
        return model
    degrees = {f"{axis.value}_parallel": degree for axis, degree in axes.items()}
    whole = 0 if Axis.TENSOR in axes and not configuration.sequence_parallel else None
    return join_example(model, **degrees, sequence_parallel=whole)


def configured_settings(configuration: Configuration, given: Settings) -> dict[str, object]:
    """The settings that a configuration fixes, by name, for those that were not given. Layers are whole, as launchers
    have them. given: a cluster of it counts, else its devices. Raises InvalidProblem."""
    devices = given.devices if given.cluster is None else len(given.cluster.accelerators)
    fixed = {**configuration.settings(devices), "training": True, "whole": Unit.LAYERS.value}
    return {name: value for name, value in fixed.items() if name != "devices" or given.cluster is None}


def configured(configuration: Configuration, workload: Workload, settings: Settings) -> Configured:
    """What a configuration comes to.

    workload: the model, divided over as many devices as the configuration says. settings: of the question that is
    searched; devices, memory and costs are taken, the schedule is the configuration's. Raises InvalidProblem or
    InvalidPlan, in one line.
    """
    problem = replace(make_problem(workload, settings), pipeline=configuration.schedule)
    plan = configured_plan(problem, configuration)
    metrics = evaluate(problem, plan)
    peak = max(metrics.peak_memory_bytes)
    seconds = metrics.objective_s(problem.objective)
    return Configured(configuration, problem, plan, judge(problem, plan).violation or "", seconds, peak)


def start_of(one: Configured, problem: Problem) -> Plan | None:
    """The configuration's plan, where a search for ``problem`` can begin with it."""
    alike = graph_hash(one.problem.graph) == graph_hash(problem.graph)
    return one.plan if alike and not judge(problem, one.plan).violation else None


def verdict(one: Configured, result: Result) -> str:
    """The search's answer beside the configuration: "10.9 s and 66 GiB: 1.14× faster than the configuration"."""
    if result.plan is None:
        return "no plan was found; the configuration cannot run either" if one.violation else "nothing better was found"
    peak = max(evaluate(result.problem, result.plan).peak_memory_bytes)
    numbers = f"{text.seconds(result.objective_s)} and {text.nbytes(peak)} on the fullest device"
    if one.violation:
        return f"{numbers}, where the configuration cannot run"
    times = one.objective_s / result.objective_s
    if abs(times - 1) < EQUAL:
        return f"{numbers}: as fast as the configuration"
    return f"{numbers}: {factor(max(times, 1 / times))} {'faster' if times > 1 else 'slower'} than the configuration"


def lines(one: Configured, result: Result) -> list[str]:
    """For a terminal: what the file says and comes to, the verdict, and both plans' numbers side by side."""
    configuration = one.configuration
    sentences = [
        f"from       {configuration.path} ({configuration.launcher}): {configuration.words(_devices(one))}",
        f"           {one.words}",
    ]
    sentences += [f"not said   {flag} of {configuration.path} is not planned here" for flag in configuration.ignored]
    sentences.append(f"instead    {verdict(one, result)}")
    if result.plan is not None and _comparable(one, result):
        compared = difference((one.problem, one.plan), (result.problem, result.plan))
        sentences += [f"asked      {words}" for words in compared.questions]
        sentences += ["", *number_lines(compared, "configured", "instead")]
    return sentences


def beside_object(one: Configured, result: Result) -> dict[str, object]:
    """As JSON: seconds, bytes, and the difference of both plans where they are of one graph."""
    configuration = one.configuration
    fields: dict[str, object] = {
        "launcher": configuration.launcher,
        "file": configuration.path,
        "configuration": configuration.words(_devices(one)),
        "degrees": {
            "data": configuration.replicas(_devices(one)),
            **{axis.value: degree for axis, degree in configuration.axes.items()},
            "pipeline": configuration.pipeline,
        },
        "objective_s": finite_or_none(one.objective_s),
        "peak_memory_bytes": finite_or_none(one.peak_bytes),
        "violation": one.violation or None,
        "not_planned": list(configuration.ignored),
        "verdict": verdict(one, result),
    }
    if result.plan is not None and _comparable(one, result):
        both = (one.problem, one.plan), (result.problem, result.plan)
        fields["difference"] = difference_object(difference(*both))
    return fields


def _devices(one: Configured) -> int:
    return len(one.problem.cluster.accelerators) * one.configuration.members


def _comparable(one: Configured, result: Result) -> bool:
    first, second = one.problem, result.problem
    return first.graph is second.graph or graph_hash(first.as_traced.graph) == graph_hash(second.as_traced.graph)
