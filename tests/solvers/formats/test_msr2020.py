"""Reading dnn-partitioning workloads: what the fields mean, and one clear line for every bad file."""

from __future__ import annotations

import copy
import json
import math

import pytest

from solvers.errors import InvalidProblem
from solvers.evaluation.load import loads
from solvers.formats.msr2020 import looks_like_msr2020, read_expert, read_msr2020
from solvers.problem.graph import Phase
from solvers.problem.problem import Execution, Objective, Transfers
from solvers.schedules.assemble import assemble
from tests.solvers.msr_instances import FOLDER, as_problem, needs_workloads, published, references

SMALL = {
    "maxFPGAs": 2,
    "maxCPUs": 1,
    "maxSizePerFPGA": 100.0,
    "nodes": [
        {"id": 7, "name": "mul", "supportedOnFpga": 1, "cpuLatency": 20, "fpgaLatency": 2.0, "isBackwardNode": 0,
         "colorClass": 3, "size": 5.0},
        {"id": 4, "name": "add", "supportedOnFpga": False, "cpuLatency": 1, "fpgaLatency": 0.5, "isBackwardNode": 0},
        {"id": 9, "name": "mul", "supportedOnFpga": 1, "cpuLatency": 30, "fpgaLatency": 4.0, "isBackwardNode": 1,
         "colorClass": 3, "size": 6.0},
    ],
    "edges": [
        {"sourceId": 7, "destId": 4, "cost": 1.5, "size": 64},
        {"sourceId": 7, "destId": 9, "cost": 1.5, "size": 64},
        {"sourceId": 4, "destId": 9, "cost": 0.25},
    ],
}  # fmt: skip


def test_every_field_lands_where_it_belongs_in_seconds():
    w = read_msr2020(SMALL, "some/small.json")
    assert [o.name for o in w.graph.operators] == ["mul#7", "add", "mul#9"]
    assert [o.phase for o in w.graph.operators] == [Phase.FORWARD, Phase.FORWARD, Phase.BACKWARD_INPUT]
    assert [o.colocation for o in w.graph.operators] == ["3", None, "3"]
    assert w.compute.seconds["accelerator"][:, 0].tolist() == [0.002, math.inf, 0.004]
    assert w.compute.seconds["cpu"][:, 0].tolist() == pytest.approx([0.02, 0.001, 0.03])
    assert [(t.producer, t.consumers) for t in w.graph.tensors] == [(0, (1, 2)), (1, (2,))]
    assert w.transfer_s == pytest.approx((0.0015, 0.00025))
    assert w.stated_bytes == (5.0, 0.0, 6.0)
    assert [(d.name, d.kind, d.memory_bytes) for d in w.cluster.devices] == [
        ("GPU 0", "accelerator", 100.0),
        ("GPU 1", "accelerator", 100.0),
        ("CPU 0", "cpu", math.inf),
    ]
    assert w.graph.name == "small"
    assert (w.objective, w.transfers, w.execution) == (Objective.MAX_LOAD, Transfers.BLOCKING, Execution.CALL)
    assert w.training
    assert not read_msr2020(SMALL | {"nodes": SMALL["nodes"][:2], "edges": []}, "x").training


def test_text_and_parsed_json_give_the_same_workload():
    text, parsed = read_msr2020(json.dumps(SMALL), "x"), read_msr2020(SMALL, "x")
    assert text.graph == parsed.graph
    assert text.transfer_s == parsed.transfer_s
    assert looks_like_msr2020(SMALL)
    assert not looks_like_msr2020({"nodes": []})
    assert not looks_like_msr2020([SMALL])


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


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("nodes",), ..., "'nodes' is missing"),
        (("nodes",), 3, "'nodes' must be a list, found 3"),
        (("nodes", 1), "x", r"nodes\[1\] must be an object"),
        (("nodes", 1, "cpuLatency"), ..., r"nodes\[1\].*'cpuLatency' is missing"),
        (
            ("nodes", 0, "fpgaLatency"),
            -1,
            r"nodes\[0\] \(mul#7\).*'fpgaLatency' must be a finite number >= 0, found -1",
        ),
        (("nodes", 0, "fpgaLatency"), math.nan, "'fpgaLatency' must be a finite number >= 0, found nan"),
        (("nodes", 0, "size"), math.inf, "'size' must be a finite number >= 0, found inf"),
        (("nodes", 0, "cpuLatency"), "fast", "'cpuLatency' must be a finite number >= 0, found 'fast'"),
        (("nodes", 0, "id"), 4, r"nodes\[0\] and nodes\[1\] have the same id 4"),
        (("nodes", 0, "id"), 1.5, "'id' must be an integer, found 1.5"),
        (("nodes", 0, "isBackwardNode"), "no", "'isBackwardNode' must be true or false"),
        (("nodes", 0, "isBackwardNode"), [], "'isBackwardNode' must be true or false"),
        (("nodes", 0, "colorClass"), 1.5, "'colorClass' must be"),
        (("nodes", 0, "isBackwardNode"), 1, "backward operator 'mul#7' feeds forward operator 'add'"),
        (("edges", 0, "destId"), 5, r"edges\[0\]: destId is 5, but there is no node with that id"),
        (("edges", 0, "cost"), 9, r"operator 'mul#7' has edges that cost 9(\.0)? and 1.5 ms"),
        (("edges", 2, "cost"), None, r"edges\[2\].*'cost' must be a finite number >= 0, found null"),
        (("maxFPGAs",), 1.5, "'maxFPGAs' must be an integer"),
        (("maxFPGAs",), -1, "'maxFPGAs' must be from 0 to"),
        (("maxFPGAs",), 10**9, "'maxFPGAs' must be from 0 to"),
    ],
)
def test_a_bad_file_is_refused_with_one_line_that_names_the_culprit(path, value, message):
    with pytest.raises(InvalidProblem, match=message) as refusal:
        read_msr2020(changed(path, value), "small.json")
    assert "small.json" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_cycle_is_refused_and_its_operators_named():
    file = copy.deepcopy(SMALL)
    file["nodes"][2]["isBackwardNode"] = 0
    file["edges"].append({"sourceId": 9, "destId": 7, "cost": 1})
    with pytest.raises(InvalidProblem, match="cycle: mul#7 -> "):
        read_msr2020(file, "small.json")


@pytest.mark.parametrize("text", ["", "{", '{"nodes": [', "[1, 2]", "null", '{"nodes": NaN}', '{"nodes": Infinity}'])
def test_text_that_is_no_such_json_is_refused(text):
    with pytest.raises(InvalidProblem, match=r"small\.json"):
        read_msr2020(text, "small.json")


@needs_workloads
@pytest.mark.parametrize("name", references())
def test_published_files_have_the_stated_sizes(name):
    w, reference = published(name), references()[name]
    assert len(w.graph) == reference["operators"]
    assert sum(len(t.consumers) for t in w.graph.tensors) == reference["edges"]
    assert len(w.cluster.accelerators) == reference["accelerators"]
    assert w.training == name.endswith("training")


@needs_workloads
@pytest.mark.parametrize("name", [n for n, r in references().items() if "expert" in r["baselines"]])
def test_expert_placements_have_the_published_load(name):
    path = FOLDER / "experts" / f"{name.removeprefix('layer-')}_expert.json"
    if not path.exists():  # backward operators follow their group
        path = path.with_name(path.name.replace("training", "inference"))
    text = path.read_text()
    w = published(name)
    nodes = json.loads((FOLDER / "throughput" / f"{name}.json").read_text())
    p = as_problem(w)
    plan = assemble(p, read_expert(text, nodes, w), 1)
    expected = references()[name]["baselines"]["expert"]
    assert loads(p, plan).total_s().max() * 1e3 == pytest.approx(expected, rel=1e-5)


def test_an_expert_placement_must_give_every_group_a_device():
    w = read_msr2020(SMALL, "x")
    placed = read_expert({"fpgas": [{"nodes": [7]}], "cpus": [{"nodes": [4]}]}, SMALL, w)
    assert placed == ((0,), (2,), (0,))
    with pytest.raises(InvalidProblem, match="'add' has no device"):
        read_expert({"fpgas": [{"nodes": [7]}], "cpus": []}, SMALL, w)
    with pytest.raises(InvalidProblem, match="no node with id 99"):
        read_expert({"fpgas": [{"nodes": [99]}], "cpus": []}, SMALL, w)


@pytest.mark.parametrize(
    ("node", "shown"),
    [([7], "a list"), ({"id": 7}, "an object"), ("7", "'7'"), (True, "True"), (None, "null"), (0.5, "0.5")],
)
def test_an_expert_names_operators_by_number(node, shown):
    w = read_msr2020(SMALL, "small.json")
    with pytest.raises(InvalidProblem, match=r"expert placement: fpgas: an id must be an integer, found ") as caught:
        read_expert({"fpgas": [{"nodes": [node]}], "cpus": []}, SMALL, w)
    assert str(caught.value).endswith(f"found {shown}")


def test_a_name_of_many_lines_is_shown_in_one_short_line():
    node = dict(SMALL["nodes"][0], name="x\n" * 5000, fpgaLatency=-1)
    with pytest.raises(InvalidProblem, match="'fpgaLatency' must be a finite number") as caught:
        read_msr2020({**SMALL, "nodes": [node, *SMALL["nodes"][1:]]}, "small.json")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
