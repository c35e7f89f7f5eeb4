"""A file that was handed in is data: used if it is what it says, else refused in one line, whatever is in it."""

from __future__ import annotations

import io
import json
import pickle
import zipfile

import pytest

from explorer.costs.times.library_json import write_library
from explorer.jobs import read_kind
from explorer.jobs.job_kinds import applicable, workload_of
from explorer.jobs.read_kind import load_opened, read_job
from explorer.jobs.requests import MAX_OPERATORS, Files, ReadRequest
from explorer.jobs.workers import worker
from explorer.jobs.workers.jobs import Jobs
from explorer.jobs.workers.specs import READING
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.view.events import unpacked
from solvers.errors import InvalidProblem
from solvers.formats.graph_json import write_graph
from solvers.formats.plan_json import write_plan
from solvers.formats.workload import Workload
from tests.explorer.costs.times.libraries import library_of_linear, linear_graph
from tests.explorer.view.small import chain_problem, chain_workload, even_plan

MARKUP = "<img src=x onerror=alert(1)>.json"


def read(tmp_path, data, name="given.json"):
    """What is reported of a file with this content."""
    path = tmp_path / "given.json"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    events = []
    worker.run(read_job, ReadRequest(str(path), name), events.append, lambda: False)
    assert events[0]["kind"] == "loading"
    return events[-1]


def zipped(entries, method=zipfile.ZIP_DEFLATED):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return packed.getvalue()


def test_a_graph_is_a_model(tmp_path):
    event = read(tmp_path, write_graph(chain_workload()))
    assert (event["kind"], event["what"]) == ("opened", "model")
    assert event["words"] == "192 operators"


def test_a_plan_is_checked_shown_and_a_model_to_plan_anew(tmp_path):
    problem = chain_problem(4)
    data = write_plan(problem, even_plan(problem))
    event = read(tmp_path, data)
    assert (event["what"], event["devices"]) == ("plan", 4)
    assert len(unpacked(event["plan"]["plan"])["placement"]) == 192
    again = load_opened(str(tmp_path / "given.json"), "given.json", True)
    assert len(again.graph) == 192
    assert again.compute is not None


def test_a_plan_that_breaks_a_rule_is_refused(tmp_path):
    problem = chain_problem(4)
    value = json.loads(write_plan(problem, even_plan(problem)))
    value["plan"]["stages"] = value["plan"]["stages"][:-1]
    assert read(tmp_path, json.dumps(value))["kind"] == "failed"


def test_placements_and_clusters_are_distinguished(tmp_path):
    assert read(tmp_path, '{"blocks.0": 0, "blocks.1": 1}')["what"] == "placement"
    cluster = {"devices": [{"name": "a", "kind": "A100-40GB"}, {"name": "b", "kind": "A100-40GB"}], "links": []}
    event = read(tmp_path, json.dumps(cluster))
    assert (event["what"], event["devices"]) == ("cluster", 2)


def test_operator_times_are_looked_at_and_plan_with(tmp_path):
    library = library_of_linear(hardware="NVIDIA H100 80GB HBM3")
    event = read(tmp_path, write_library(library))
    assert (event["what"], event["words"]) == ("times", "2 calls measured on NVIDIA H100 80GB HBM3")
    settings = Settings(device_kind="V100-16GB", mini_batch=4)  # the page always says a kind
    files = Files(times=str(tmp_path / "given.json"))
    workload = Workload(linear_graph(), "mlp", training=False)
    problem = make_problem(workload, applicable(settings, workload, files))
    assert {device.kind for device in problem.cluster.devices} == {"H100-80GB"}
    assert problem.compute.at("H100-80GB", 4)[0] == 2e-3  # as measured, for 4 rows


HOSTILE = {
    "nothing": b"",
    "a pickle": pickle.dumps({"a": 1}, protocol=4),
    "a truncated graph": write_graph(chain_workload()).encode()[:5000],
    "deep JSON": b"[" * 200_000,
    "deep objects": b'{"a":' * 100_000,
    "a number of a million digits": b'{"a": ' + b"9" * 1_000_000 + b"}",
    "a key twice": b'{"format": 1, "format": 2}',
    "not UTF-8": b'{"a": "\xff\xfe"}',
    "infinity": b'{"devices": [1e999]}',
    "lists for names": b'{"cpus": [{"nodes": [[1]]}], "fpgas": {}, "nodes": 3}',
    "a cluster of nonsense": b'{"devices": [{"name": {"a": 1}}]}',
    "a plan of nonsense": b'{"format": "placement-explorer/plan", "version": 99}',
    "operator times of nonsense": b'{"format": "placement-explorer/operator-times"}',
    "a profile of nonsense": b'{"format": "placement-explorer/profile"}',
    "a torch.save": zipped({"archive/data.pkl": pickle.dumps(1), "archive/version": b"3"}),
    "a zip bomb": zipped({"archive/models/model.json": b"0" * 80_000_000}),
    "a zip of nothing": zipped({}),
    "a damaged zip": zipped({"archive/models/model.json": b"{}"})[:60],
    "random bytes": bytes(range(256)) * 40,
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_what_is_hostile_is_refused_in_one_line_by_its_name(tmp_path, data):
    event = read(tmp_path, data, MARKUP)
    assert event["kind"] == "failed"
    assert "internal error" not in event["message"]
    assert "\n" not in event["message"]
    assert len(event["message"]) <= 420
    assert str(tmp_path) not in event["message"]


def test_a_reader_that_dies_is_replaced():
    import queue

    jobs, shown = Jobs(READING), queue.Queue()
    try:
        jobs.start("read", ReadRequest("/nowhere/at/all.json", "all.json"), shown.put)
        while (event := shown.get(timeout=120))["kind"] != "failed":
            pass
        jobs.workers[0].process.kill()
        jobs.start("read", ReadRequest("/nowhere/else.json", "else.json"), shown.put)
        while (event := shown.get(timeout=120))["kind"] != "failed" or "else" not in event["message"]:
            pass
    finally:
        jobs.close()


@pytest.mark.parametrize("kind", ["graph", "plan", "msr", "piper"])
def test_operators_are_counted_before_one_is_made(tmp_path, monkeypatch, kind):
    nodes = {"nodes": [{}] * (MAX_OPERATORS + 1), "edges": []}
    graph = {"graph": {"operators": [{}] * (MAX_OPERATORS + 1)}}
    value = {
        "graph": {"format": "placement-explorer/graph", **graph},
        "plan": {"format": "placement-explorer/plan", **graph},
        "msr": {**nodes, "maxFPGAs": 1},
        "piper": {**nodes, "maxDevices": 1},
    }[kind]
    monkeypatch.setattr(read_kind, "read_workload", pytest.fail)
    monkeypatch.setattr(read_kind, "read_plan", pytest.fail)
    event = read(tmp_path, json.dumps(value))
    assert event["message"] == f"given.json: {MAX_OPERATORS + 1:,} operators, the page takes at most {MAX_OPERATORS:,}"


def test_where_a_file_is_stays_with_the_server(tmp_path):
    path = tmp_path / "secret-folder" / "model.json"
    path.parent.mkdir()
    path.write_text(write_graph(chain_workload()))
    events = []
    workload = workload_of(str(path), True, None, events.append, lambda: False)
    assert workload.reference == "model.json"
    assert "secret-folder" not in str(events)
    path.with_name("broken.json").write_text("{")
    with pytest.raises(InvalidProblem, match=r"^broken\.json: the JSON ends") as refused:
        workload_of(str(path.with_name("broken.json")), True, None, events.append, lambda: False)
    assert "secret-folder" not in str(refused.value)
