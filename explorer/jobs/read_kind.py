"""Look at a file that somebody handed in: what it is, and whether it can be used. It is data, and never run.

The process that does this does nothing else: its memory and its time are limited, and it is replaced when it dies.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from explorer.costs import profile_json
from explorer.costs.times import library_json
from explorer.costs.times.trace_events import GZIP
from explorer.jobs.requests import MAX_OPERATORS, Emit, ReadRequest
from explorer.measured.traces.files import is_archive
from explorer.question.accelerators import make_accelerators
from explorer.question.cluster_file import parse_cluster
from explorer.question.expert import MAX_NAMES
from explorer.question.loading import load_file, read_file, read_workload
from explorer.question.nodes.described import is_described
from explorer.question.settings import Settings
from explorer.view import events
from explorer.view.graph.node_data import is_node_data, read_node_data
from explorer.view.graph.skeleton import skeleton
from explorer.view.plan_view import plan_view
from explorer.words import text
from solvers.errors import InvalidProblem
from solvers.evaluation.evaluate import evaluate
from solvers.formats import plan_json
from solvers.formats.json_text import parse_json
from solvers.formats.plan_json import PlanFile, read_plan
from solvers.formats.workload import Workload
from solvers.plan.result import Status
from solvers.planners.check import check

HEAD_BYTES = 64
KINDS = (
    "a .pt2, .onnx, graph.json, plan.json, MSR 2020, PipeDream, Piper, profile, operator-times, cluster, node-data or"
    " placement file, or traces of torch.profiler"
)


def read_job(request: ReadRequest, emit: Emit, should_stop: Callable[[], bool]) -> None:
    """Read, and emit one ``opened`` event. Raises InvalidProblem in one line that calls the file by its name."""
    emit(events.loading(f"reading {request.name}"))
    try:
        emit(opened(request.path, request.name))
    except InvalidProblem as error:
        raise InvalidProblem(plainly(str(error), request.path, request.name)) from None
    except OSError as error:  # it had to make room for others
        raise InvalidProblem(f"{request.name}: cannot be read: {(error.strerror or str(error)).lower()}") from None


def plainly(message: str, path: str, name: str) -> str:
    """A message about the file at ``path`` as one about ``name``, on one line that is not too long."""
    return text.short(" ".join(message.replace(path, name).split()), 400)


def opened(path: str, name: str) -> events.OpenedEvent:
    """The event. what: "model", "plan", "profile", "times", "cluster", "values", "placement" or "traces"."""
    with open(path, "rb") as file:
        head = file.read(HEAD_BYTES)
    if name.lower().endswith((".yaml", ".yml")):
        return _cluster(read_file(path), path, name)
    if head.startswith(GZIP) or is_archive(path):
        return events.opened("traces", name, "traces of a run")
    if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] not in (b"{", b"["):
        return _model(load_file(path), name)
    data = read_file(path)
    value = parse_json(data, path)
    _check_count(_stated(value), name)
    kind = value.get("format") if isinstance(value, dict) else None
    if kind == plan_json.FORMAT:
        return _plan(read_plan(value, path), name)
    if kind == profile_json.FORMAT:
        profile = profile_json.read_profile(value, path)
        words = f"{text.plural(len(profile.operators), 'operator')} measured on {text.short(profile.hardware[0], 40)}"
        return events.opened("profile", name, words)
    if kind == library_json.FORMAT:
        library = library_json.read_library(value, path)
        words = f"{text.plural(len(library.times), 'call')} measured on {text.short(library.hardware, 40)}"
        return events.opened("times", name, words)
    if isinstance(value, dict) and "traceEvents" in value:
        return events.opened("traces", name, "trace of a run")
    if is_described(value) or (
        isinstance(value, dict) and "devices" in value and "nodes" not in value and kind is None
    ):
        return _cluster(data, path, name)
    if is_node_data(value):
        own = read_node_data(value, name)  # type: ignore[arg-type]
        return events.opened("values", name, text.plural(len(own.values), "value"), values=own)
    if is_placement(value):
        return events.opened("placement", name, text.plural(len(value), "name"))  # type: ignore[arg-type]
    return _model(read_workload(value, path), name)


def _cluster(data: bytes, path: str, name: str) -> events.OpenedEvent:
    cluster = parse_cluster(data, path)
    memory = [cluster.devices[i].memory_bytes for i in cluster.accelerators]
    words = text.plural(len(cluster), "device")
    return events.opened("cluster", name, words, len(memory), max(memory, default=0.0))


def is_placement(value: object) -> bool:
    """{"operator or module": device index}, or the lists of MSR 2020."""
    if not isinstance(value, dict) or not value or len(value) > MAX_NAMES:
        return False
    if {"cpus", "fpgas"} <= value.keys() and "nodes" not in value:
        return True
    return all(isinstance(device, int) and not isinstance(device, bool) for device in value.values())


def load_opened(path: str, name: str, training: bool) -> Workload:
    """The workload of a file that pages know as ``name``, and whose path they do not get; that of a plan is
    what it was made for. Raises InvalidProblem."""
    try:
        return replace(_load(path, training), reference=name)
    except InvalidProblem as error:
        raise InvalidProblem(plainly(str(error), path, name)) from None


def _load(path: str, training: bool) -> Workload:
    with open(path, "rb") as file:
        head = file.read(HEAD_BYTES)
    if not re.match(rb"\s*\{", head.removeprefix(b"\xef\xbb\xbf")):
        return load_file(path, training=training)
    value = parse_json(read_file(path), path)
    if isinstance(value, dict) and value.get("format") == plan_json.FORMAT:
        return workload_of_plan(read_plan(value, path), path)
    return read_workload(value, path)


def workload_of_plan(file: PlanFile, path: str) -> Workload:
    """What a plan was made for, costs and cluster included, as a workload to plan again."""
    problem = file.problem
    return Workload(
        problem.as_traced.graph,
        path,
        compute=problem.as_traced.compute,
        transfer_s=problem.transfer_s,
        stated_bytes=problem.stated_bytes,
        cluster=problem.cluster,
        training=problem.training,
        objective=problem.objective,
        transfers=problem.transfers,
        execution=problem.execution,
        costs_from=problem.costs_from,
    )


def _stated(value: object) -> int:
    """How many operators a parsed graph or plan has, counted before one is made; 0 for what is neither."""
    if not isinstance(value, dict):
        return 0
    graph = value.get("graph")
    listed = graph.get("operators") if isinstance(graph, dict) else value.get("nodes")
    return len(listed) if isinstance(listed, list) else 0


def _check_count(operators: int, name: str) -> None:
    if operators > MAX_OPERATORS:
        raise InvalidProblem(f"{name}: {operators:,} operators, the page takes at most {MAX_OPERATORS:,}")


def _model(workload: Workload, name: str) -> events.OpenedEvent:
    count = len(workload.graph)
    _check_count(count, name)
    stated = workload.cluster is not None or workload.compute is not None
    devices = len(make_accelerators(workload, Settings())) if stated else 0
    return events.opened("model", name, text.plural(count, "operator"), devices, drawn=skeleton(workload))


def _plan(file: PlanFile, name: str) -> events.OpenedEvent:
    """A plan is checked by what checks our own before it is shown."""
    problem, plan = file.problem, file.plan
    broken = check(problem, plan)
    if broken:
        raise InvalidProblem(f"{name}: no valid plan: {broken[0]}")
    seconds, result = evaluate(problem, plan).objective_s(problem.objective), file.result
    view = plan_view(
        problem,
        plan,
        planner=result.planner if result is not None else "given",
        objective_s=seconds,
        bound_s=min(result.bound_s, seconds) if result is not None else 0.0,
        status=Status.FEASIBLE,
        notes=("it comes from a file: its bound was not verified again",) if result is not None else (),
    )
    given: events.GivenView = {
        "plan": events.packed({**view, "held": ""}),
        "skeleton": skeleton(workload_of_plan(file, name)),
        "words": f"plan of {text.short(name, 40)}",
        "controls": _controls(file),
    }
    return events.opened(
        "plan", name, text.plural(len(plan.stages), "stage"), len(problem.cluster.accelerators), plan=given
    )


def _controls(file: PlanFile) -> dict[str, object]:
    """What the page's controls say of the question that the plan answers."""
    problem = file.problem
    return {
        "mini-batch": problem.mini_batch,
        "pipeline": problem.pipeline.value,
        "objective": problem.objective.value,
        "contiguity": problem.contiguity.value,
    }
