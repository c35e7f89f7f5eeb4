"""Everything that reads what comes from outside, each with a valid sample or a few."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from explorer.exports.formats import FORMATS
from solvers.errors import InvalidPlan, PlacementError
from solvers.formats.json_fields import Field
from solvers.formats.msr2020 import read_expert, read_msr2020
from solvers.formats.op_graph_json import graph_hash, read_op_graph
from solvers.formats.pipedream import read_pipedream
from solvers.formats.piper import read_piper
from solvers.formats.plan_json import PlanFile
from solvers.formats.workload import Workload
from solvers.problem.cluster import Cluster
from solvers.problem.graph import OpGraph
from tests.explorer.cli.command import workload as msr_file
from tests.fuzz.mutations import Tree, written
from tests.fuzz.shown import check_exports, check_page, check_printed
from tests.fuzz.trials import Reader
from tests.instances import problem, training_graph


def msr2020() -> Reader:
    return Reader((msr_file(), _trained()), lambda data, _: _planned(read_msr2020(data, "f.json")))


def msr_expert() -> Reader:
    nodes = msr_file()
    workload = read_msr2020(nodes, "f.json")
    expert = {"fpgas": [{"nodes": [0, 1]}, {"nodes": [2]}], "cpus": [{"nodes": [3]}]}
    return Reader((expert,), lambda data, _: _placed(workload, read_expert(data, nodes, workload)))


def placement() -> Reader:
    from explorer.question.expert import load_expert

    workload = read_msr2020(msr_file(), "f.json")
    sample = {"a": 0, "b": 0, "c": 1, "d": 2}
    return Reader((sample,), lambda _, path: _placed(workload, load_expert(str(path), workload)))


def pipedream() -> Reader:
    from tests.solvers.formats.test_pipedream import text

    return Reader((text(),), lambda data, _: _planned(read_pipedream(data, "graph.txt")), "graph.txt")


def piper() -> Reader:
    from tests.solvers.formats.test_piper import SMALL

    return Reader((SMALL,), lambda data, _: _planned(read_piper(data, "f.json")))


def graph() -> Reader:
    from solvers.formats.graph_json import read_graph, write_graph
    from tests.explorer.view.small import chain_workload

    samples = [json.loads(write_graph(w)) for w in (read_msr2020(_trained(), "f.json"), chain_workload())]

    def read(data: bytes, path: Path) -> object:
        workload = read_graph(data)
        _planned(workload)
        if _drawn(data):
            check_printed("trace", str(path))
        return workload

    return Reader(tuple(samples), read)


def plan() -> Reader:
    from solvers.evaluation.evaluate import evaluate
    from solvers.formats.plan_json import read_plan, write_plan
    from solvers.planners.check import check
    from solvers.planners.solve import solve
    from solvers.problem.problem import Pipeline

    samples = []
    for shape in (training_graph([(0, 1), (1, 2), (2, 3)], 4), _layered()):
        seconds = [1.0] * len(shape)
        question = problem(shape, seconds, mini_batch=8, micro_batches=4, pipeline=Pipeline.ONE_F_ONE_B)
        result = solve(question, "equal")
        assert result.plan is not None
        samples.append(json.loads(write_plan(question, result.plan, result, "nowhere:made")))

    def read(data: bytes, path: Path) -> object:
        file = read_plan(data)
        if file.problem.mini_batch <= 1_000 and len(file.problem.cluster) <= 20:
            evaluate(file.problem, file.plan)
            if not check(file.problem, file.plan):
                _shown(file, data)
            if _drawn(data):
                check_printed("simulate", str(path))
                check_printed("check", str(path))
        return file

    return Reader(tuple(samples), read, mended=_hashed)


def profile() -> Reader:
    from explorer.costs.profile_json import profile_object, read_profile
    from tests.explorer.costs.profiles import profile_of

    sample = profile_object(profile_of(training_graph([(0, 1)], 2)))
    return Reader((json.loads(json.dumps(sample)),), lambda data, _: read_profile(data))


def operator_times() -> Reader:
    from explorer.costs.times.library_json import library_object, read_library
    from tests.explorer.costs.times.libraries import library_of_linear

    sample = json.loads(json.dumps(library_object(library_of_linear())))
    return Reader((sample,), lambda data, _: read_library(data))


def profiler_trace() -> Reader:
    from explorer.costs.times.from_trace import imported
    from explorer.costs.times.trace_events import load_trace
    from tests.explorer.costs.times.test_trace import by_hand

    sample = {"traceEvents": by_hand(), "deviceProperties": [{"name": "Abacus"}]}
    return Reader((sample,), lambda _, path: imported([load_trace(str(path))], "trace", hardware="Abacus"))


def traces_of_a_run() -> Reader:
    from explorer.measured import compare_run
    from explorer.measured.traces import traced_outcome
    from tests.explorer.measured.traces.made import iterations, one_device

    sample = {"traceEvents": iterations()[0], "distributedInfo": {"rank": 0, "backend": "gloo"}, "host_name": "one"}
    problem, plan = one_device()
    return Reader((sample,), lambda _, path: compare_run(problem, plan, traced_outcome(problem, plan, str(path))))


def memory_timeline() -> Reader:
    from explorer.measured.traces.memory import memory_peak
    from solvers.formats.json_text import parse_json

    sample = [[5, 6], [[0, 4, 0, 0, 0, 0, 0, 0, 0], [0, 4, 8, 1, 0, 16, 4, 0, 0]]]
    return Reader((sample,), lambda data, _: memory_peak(parse_json(data, "memory.json"), "memory.json"))


def cluster() -> Reader:
    from explorer.question.cluster_file import parse_cluster
    from tests.explorer.question.nodes.test_described import TWO

    listed = {
        "devices": [{"name": "a", "kind": "V100-16GB"}, {"name": "b", "kind": "mine", "memory_bytes": 1e9, "node": 1}],
        "links": [{"src": 0, "dst": 1, "bandwidth_bytes_per_s": 1e9, "latency_s": 1e-6, "resource": "wire"}],
    }
    return Reader((listed, TWO), lambda data, _: _on(parse_cluster(data, "mine.json")))


def cluster_yaml() -> Reader:
    from explorer.question.cluster_file import parse_cluster

    text = """# two hosts
nodes:
  - devices: 2xV100-16GB
    memory: 8GB
    links: {bandwidth: 50GB/s, latency: 5e-6}
    cpus: 1
  - {devices: A100-40GB, out: 1GB/s, in: 2e9}
network:
  bandwidth: '12.5GB/s'
  latency: 30us
"""
    return Reader((text,), lambda data, _: _on(parse_cluster(data, "mine.yaml")))


def targets() -> Reader:
    from explorer.runner.targets.registry import load_targets

    text = (
        '[local]\nthreads = 2\npin = false\nbackend = "cpu"\ntimeout = 30\nmax_ranks = 3\n\n[far]\nkind = "ray"\n'
        'address = "http://127.0.0.1:8265"\nmax_ranks = 4\n'
    )
    return Reader((text,), lambda _, path: load_targets(str(path), {}), "targets.toml")


def lessons() -> Reader:
    from explorer.view.lessons.reading import read_lesson
    from tests.explorer.view.lessons.written import CHOICES, GOOD

    return Reader((GOOD,), lambda data, _: read_lesson(data, "mine", CHOICES))


def run_result() -> Reader:
    from explorer.costs.profile_json import profile_object
    from explorer.runner.bundles.outcome import Outcome, RunStatus
    from explorer.runner.bundles.result_json import outcome_text, read_outcome
    from tests.explorer.costs.profiles import profile_of

    ended = Outcome(RunStatus.DONE, iterations_s=(0.5, 0.25), losses=(1.0, 0.5), peak_bytes=(1e6, 2e6), notes=("one",))
    sample = json.loads(outcome_text(ended)) | {"profile": profile_object(profile_of(training_graph([(0, 1)], 2)))}
    return Reader((json.loads(json.dumps(sample)),), lambda data, _: read_outcome(data))


def onnx() -> Reader:
    from explorer.question.loading import load_file
    from tests.explorer.tracing.files.onnx_bytes import perceptron

    return Reader((perceptron(),), lambda _, path: load_file(str(path)), "model.onnx")


def pt2() -> Reader:
    import torch

    from explorer.question.loading import load_file

    buffer = io.BytesIO()
    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    torch.export.save(torch.export.export(module, (torch.ones(3, 4),), strict=False), buffer)
    with zipfile.ZipFile(buffer) as archive:
        name = next(name for name in archive.namelist() if name.endswith("models/model.json"))
        program = json.loads(archive.read(name))

    def packed(document: bytes) -> bytes:
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(name, document)
        return made.getvalue()

    return Reader((program,), lambda _, path: load_file(str(path)), "model.pt2", packed)


def flags() -> Reader:
    """One flag a line, as a command line has them."""
    from explorer.question.names import parse_pin, resolve_pins
    from explorer.question.together import kept_together, parse_together
    from explorer.question.written.device_lists import parse_caps, parse_kinds
    from explorer.question.written.quantities import parse_bandwidth, parse_bytes, parse_seconds

    shape = read_msr2020(msr_file(), "f.json").graph
    parsers: tuple[Callable[[str], object], ...] = (
        lambda text: resolve_pins(shape, dict([parse_pin(text)])),
        lambda text: kept_together(shape, (parse_together(text),)),
        parse_kinds, parse_caps, parse_bytes, parse_bandwidth, parse_seconds,
    )  # fmt: skip
    samples = ("a=1\n", "a,b\n", "2xV100-16GB,A100-40GB\n", "16GiB,8GB\n", "1.5GiB\n", "25GB/s\n", "10us\n")

    def read(data: bytes, _: Path) -> None:
        refusals = []
        for parse in parsers:
            try:
                parse(data.decode("utf-8", "surrogateescape").split("\n")[0])
            except PlacementError as error:
                refusals.append(error)
        if len(refusals) == len(parsers):
            raise max(refusals, key=lambda error: len(str(error)))

    return Reader(samples, read)


def query() -> Reader:
    from explorer.view.session import parse_query
    from tests.explorer.view.lessons.written import CHOICES

    settings = {
        "model": "chain", "devices": 4, "memory": "16e9,8e9,8e9,8e9", "device_kind": "toy", "cpus": 1,
        "bandwidth": 25e9, "latency": 1e-5, "mini_batch": 64, "micro_batches": 8, "planner": "auto", "pins": '{"a": 1}',
        "v": 2, "objective": "iteration", "pipeline": "1f1b", "time_limit": 5, "seed": 7, "theme": "dark", "zero": 1,
        "max_replicas": 2, "pair": "auto,single", "training": "true", "optimizer": "adam", "together": '[["a", "b"]]',
    }  # fmt: skip
    texts = ("?" + urlencode(settings), "\n".join(f"{key}={value}&" for key, value in settings.items()))
    return Reader(texts, lambda data, _: _queried(data, parse_query, CHOICES))


def messages() -> Reader:
    from tests.fuzz.page import SAMPLES, send

    return Reader(SAMPLES, lambda data, _: send(data))


READERS: dict[str, Callable[[], Reader]] = {
    "MSR 2020": msr2020,
    "MSR 2020 expert": msr_expert,
    "placement by name": placement,
    "PipeDream": pipedream,
    "Piper": piper,
    "graph.json": graph,
    "plan.json": plan,
    "profile": profile,
    "operator times": operator_times,
    "profiler trace": profiler_trace,
    "traces of a run": traces_of_a_run,
    "memory timeline": memory_timeline,
    "cluster, JSON": cluster,
    "cluster, YAML": cluster_yaml,
    "targets": targets,
    "lessons": lessons,
    "result of a run": run_result,
    "ONNX": onnx,
    ".pt2": pt2,
    "flags and pins": flags,
    "query of the page": query,
    "messages of the page": messages,
}
"""Makers of the readers, by what these are called: a sample may take imports that others need not wait for."""
MOST_OPERATORS, MOST_DEVICES = 64, 8
"""Of a problem that is solved, too."""
SLOW = frozenset({"ONNX"})
"""Shapes that a file does not state are inferred in a process of their own: a tenth of the cases of others."""


def _planned(workload: Workload, cluster: Cluster | None = None) -> Workload:
    """The problem of a workload, and a plan of a small one: what a command that got past the file meets next. Both are
    looked at wherever they are shown."""
    from explorer.question.problems import make_problem
    from explorer.question.settings import Settings
    from solvers.planners.solve import solve

    problem = make_problem(workload, Settings() if cluster is None else Settings(cluster=cluster))
    if len(problem.graph) > MOST_OPERATORS or len(problem.cluster) > MOST_DEVICES:
        return workload
    try:
        result = solve(problem, "equal", time_limit_s=1.0)
    except InvalidPlan as error:
        raise AssertionError(f"a planner broke a rule: {error}") from error
    if result.plan is None:
        check_page(workload)
    else:
        _shown(PlanFile(problem, result.plan, result, workload.reference), workload.reference.encode("utf-8"))
    return workload


def _on(cluster: Cluster) -> Cluster:
    """A cluster, and a plan of a small model on it where it has devices whose times are known."""
    from explorer.costs.devices import DEVICES
    from tests.explorer.view.small import chain_workload

    if all(device.kind in DEVICES for device in cluster.devices):
        _planned(chain_workload(), cluster)
    return cluster


def _placed(workload: Workload, placement: object) -> object:
    """What a placement by hand is shown as."""
    from explorer.question.problems import make_problem
    from explorer.question.settings import Settings
    from solvers.planners.solve import solve

    if isinstance(placement, tuple):  # of an MSR file: the devices of every operator
        return placement
    problem = make_problem(workload, Settings())
    result = solve(problem, placement, time_limit_s=1.0)  # type: ignore[arg-type]
    if result.plan is not None:
        _shown(PlanFile(problem, result.plan, result, workload.reference), b"")
    return placement


def _shown(file: PlanFile, data: bytes) -> None:
    """A plan in every format, those that are painted in a tenth of the cases, and on the page."""
    painted = [name for name in FORMATS if FORMATS[name].ending == ".png"]
    check_exports(file, [name for name in FORMATS if name not in painted])
    if _drawn(data):
        check_exports(file, painted[:1])
    workload = Workload(file.problem.as_traced.graph, file.reference, costs_from=file.problem.costs_from)
    check_page(workload, file)
    if _drawn(data) and file.result is not None:
        from explorer.view import events
        from tests.fuzz.page import drawn

        drawn(workload, events.result(file.result))


def _drawn(data: bytes) -> bool:
    """Whether this case is one of the tenth that has what takes longer."""
    return zlib.crc32(data) % 10 == 0


def _layered() -> OpGraph:
    """A transformer of two layers, which launchers take: forward and backward, by its modules."""
    names = ("embed", "layers.0.attention", "layers.0.mlp", "layers.1.attention", "layers.1.mlp", "head")
    plain = training_graph([(i, i + 1) for i in range(5)], len(names), nbytes=8.0)
    operators = []
    for i, operator in enumerate(plain.operators):
        forward = operator.forward_of
        name = names[i if forward is None else forward]
        kind = "aten.softmax" if "attention" in name else "aten.addmm"
        operators.append(
            replace(operator, name=name if forward is None else f"{name}'", module_path=name, op_type=kind)
        )
    return OpGraph(tuple(operators), plain.tensors, plain.samples, "layered")


def _trained() -> dict[str, Any]:
    """Four operators and their backward ones, some of one colour."""
    made = msr_file()
    back = [{**node, "id": node["id"] + 10, "name": f"{node['name']}'", "isBackwardNode": 1} for node in made["nodes"]]
    for node, other in zip(made["nodes"], back, strict=True):
        node["colorClass"] = other["colorClass"] = node["id"]
    edges = [{"sourceId": 13 - i, "destId": 12 - i, "cost": 2.0, "size": 8.0} for i in range(3)]
    turn = {"sourceId": 3, "destId": 13, "cost": 1.0}
    return made | {"nodes": made["nodes"] + back, "edges": [*made["edges"], turn, *edges]}


def _hashed(tree: Tree) -> Tree:
    """A plan whose hash is that of its graph, if there is one."""
    if isinstance(tree, dict) and "graph" in tree:
        with suppress(PlacementError, ValueError, RecursionError):
            tree["graph_sha256"] = graph_hash(read_op_graph(Field(json.loads(written(tree["graph"])), "graph")))
    return tree


def _queried(data: bytes, parse: Callable[[str, Any], object], choices: Any) -> object:
    return parse(data.decode("utf-8", "replace").replace("\n", ""), choices)
