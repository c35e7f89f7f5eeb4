"""Reading Piper's workloads: what the fields mean, and one clear line for every bad file."""

from __future__ import annotations

import copy
import json

import pytest

from solvers.errors import InvalidProblem
from solvers.formats import piper
from solvers.formats.piper import looks_like_piper, read_piper
from solvers.problem.graph import Amount
from solvers.problem.problem import Objective, Transfers
from tests.solvers.msr_instances import SHARED

FOLDER = SHARED / "workloads" / "piper"
needs_workloads = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"Piper's workloads are not at {FOLDER}; set SHARED to the folder that has them"
)


def way(time: float, owned: float, name: str = "vanilla") -> dict:
    return {
        "id": name, "timePerSample": time, "parameterSize": owned, "memoryUsageA": 5.0, "memoryUsageB": 2 * owned,
        "syncTimeFw": {}, "syncTimeBw": {},
    }  # fmt: skip


SMALL = {
    "maxDevices": 3,
    "maxMemoryPerDevice": 100.0,
    "bandwidth": 25.0,
    "mbsInBatch": 8,
    "nodes": [
        {"id": 7, "name": "Layer", "TMPCs": {"2": [way(9.0, 9.0)], "1": [way(3.0, 8.0), way(4.0, 8.0, "recomp")]}},
        {"id": 2, "name": "Head", "TMPCs": {"1": [way(6.0, 4.0)]}},
        {"id": 5, "name": "Layer", "TMPCs": {"1": [way(1.5, 0.0)]}},
    ],
    "edges": [
        {"sourceId": 7, "destId": 5, "communicationCost": 50.0},
        {"sourceId": 7, "destId": 2, "communicationCost": 20.0},
        {"sourceId": 5, "destId": 2, "communicationCost": 50.0},
    ],
}


def test_every_field_lands_where_it_belongs() -> None:
    w = read_piper(SMALL, "some/small.json")
    names = ["Layer_7", "Head", "Layer_5"]
    assert [o.name for o in w.graph.operators] == [*names, *(f"{name}/backward" for name in names)]
    assert [o.op_type for o in w.graph.operators[:3]] == ["Layer", "Head", "Layer"]
    assert w.compute is not None
    assert w.compute.seconds["accelerator"][:, 0] == pytest.approx([1, 2, 0.5, 2, 4, 1])  # a third is forward
    assert [o.param_bytes for o in w.graph.operators] == [8, 4, 0, 0, 0, 0]
    assert [o.saved_bytes.per_sample for o in w.graph.operators] == [5, 5, 5, 0, 0, 0]
    assert [(t.producer, t.consumers, t.nbytes) for t in w.graph.tensors if t.nbytes != Amount()] == [
        (0, (2,), Amount(0, 50)), (0, (1,), Amount(0, 20)), (2, (1,), Amount(0, 50)),
        (5, (3,), Amount(0, 50)), (4, (3,), Amount(0, 20)), (4, (5,), Amount(0, 50)),
    ]  # fmt: skip
    assert w.cluster is not None
    assert [(d.kind, d.memory_bytes) for d in w.cluster.devices] == [("accelerator", 100.0)] * 3
    assert w.cluster.transfer_s(50.0, 0, 1) == 2.0
    assert (w.objective, w.transfers, w.training) == (Objective.MAX_LOAD, Transfers.BLOCKING, True)


def test_the_notes_say_what_was_assumed() -> None:
    notes = " / ".join(read_piper(SMALL, "small.json").notes)
    assert "unit of time: read as seconds" in notes
    assert "a third of the time is taken to be the forward" in notes
    assert "(vanilla)" in notes
    assert "--optimizer sgd" in notes


def test_layers_named_by_a_pipedream_profile_are_in_milliseconds() -> None:
    file = copy.deepcopy(SMALL)
    for node in file["nodes"]:
        node["name"] = f"node{node['id']}"
    w = read_piper(file, "small.json")
    assert w.compute is not None
    assert w.compute.seconds["accelerator"].sum() == pytest.approx(10.5e-3)
    assert {o.op_type for o in w.graph.operators} == {"layer"}
    assert "milliseconds" in w.notes[0]


def test_without_degree_one_the_first_is_read_and_the_notes_say_so() -> None:
    file = changed(("nodes", 0, "TMPCs", "1"), ...)
    w = read_piper(file, "small.json")
    assert w.graph.operators[0].param_bytes == 9
    assert any("at degree 1, 2" in note or "degree 2" in note for note in w.notes)


def test_text_and_parsed_json_give_the_same_workload() -> None:
    assert read_piper(json.dumps(SMALL), "x").graph == read_piper(SMALL, "x").graph
    assert looks_like_piper(SMALL)
    assert not looks_like_piper({"nodes": [], "edges": [], "maxFPGAs": 1})
    assert not looks_like_piper([SMALL])


def changed(path: tuple, value: object) -> dict:
    file = copy.deepcopy(SMALL)
    inner = file
    for key in path[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return file


FIRST = ("nodes", 0, "TMPCs", "1", 0)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("bandwidth",), ..., "small.json: bandwidth: missing"),
        (("bandwidth",), 0, "small.json: bandwidth: expected more than 0, found 0"),
        (("maxMemoryPerDevice",), -1, "maxMemoryPerDevice: expected a finite number >= 0, found -1"),
        (("maxDevices",), 0, "maxDevices: expected an integer from 1 to"),
        (("maxDevices",), 10**9, "maxDevices: expected an integer from 1 to"),
        (("nodes",), {}, "nodes: expected a list, found an object"),
        (("nodes",), [], "has no nodes"),
        (("nodes", 1), 3, r"nodes\[1\]: expected an object, found 3"),
        (("nodes", 1, "id"), 7, r"nodes\[1\]: has the same id 7 as nodes\[0\]"),
        (("nodes", 1, "id"), "7", r"nodes\[1\].id: expected an integer"),
        (("nodes", 1, "TMPCs"), ..., r"nodes\[1\].TMPCs: missing"),
        (("nodes", 1, "TMPCs"), {}, r"nodes\[1\].TMPCs: expected at least one degree"),
        (("nodes", 1, "TMPCs", "1"), [], r"nodes\[1\].TMPCs\['1'\]: expected at least one way"),
        ((*FIRST, "timePerSample"), ..., r"nodes\[0\].TMPCs\['1'\]\[0\].timePerSample: missing"),
        ((*FIRST, "timePerSample"), "fast", "timePerSample: expected a finite number >= 0, found 'fast'"),
        ((*FIRST, "parameterSize"), float("inf"), "parameterSize: expected a finite number >= 0, found inf"),
        (("edges", 1, "destId"), 99, r"edges\[1\].destId: expected the id of a node, found 99"),
        (("edges", 1, "communicationCost"), None, r"edges\[1\].communicationCost: expected a finite number >= 0"),
        (("edges", 1, "destId"), 7, "the graph has a cycle: Layer_7.* -> Layer_7"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_with_one_line_that_names_the_culprit(path: tuple, value: object, message: str) -> None:
    with pytest.raises(InvalidProblem, match=message) as refusal:
        read_piper(changed(path, value), "small.json")
    assert str(refusal.value).startswith("small.json: ")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '{"nodes": NaN}'])
def test_text_that_is_no_such_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidProblem, match=r"small\.json"):
        read_piper(text, "small.json")


def test_there_are_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for what in ("MAX_NODES", "MAX_EDGES"):
        with monkeypatch.context() as patch:
            patch.setattr(piper, what, 2)
            with pytest.raises(InvalidProblem, match="expected a list of at most 2"):
                read_piper(SMALL, "small.json")


@needs_workloads
@pytest.mark.parametrize(
    ("name", "layers", "unit"), [("bert32a100", 37, 1.0), ("gnmt", 78, 1e-3), ("resnet", 177, 1e-3)]
)
def test_published_files_keep_their_layers_and_their_time(name: str, layers: int, unit: float) -> None:
    path = FOLDER / f"{name}.json"
    w = read_piper(path.read_bytes(), str(path))
    assert len(w.graph) == len(w.graph.topological_order) == 2 * layers
    stated = sum(node["TMPCs"]["1"][0]["timePerSample"] for node in json.loads(path.read_text())["nodes"])
    assert w.compute is not None
    assert w.compute.seconds["accelerator"].sum() == pytest.approx(stated * unit)
    assert w.cluster is not None
    assert len(w.cluster) == 10
