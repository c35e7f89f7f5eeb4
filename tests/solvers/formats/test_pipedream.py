"""Reading PipeDream profiles: what the fields mean, and one clear line for every bad file."""

from __future__ import annotations

import re

import pytest

from solvers.errors import InvalidProblem
from solvers.formats import pipedream
from solvers.formats.pipedream import looks_like_pipedream, read_pipedream
from solvers.problem.graph import Amount, Phase
from tests.solvers.msr_instances import SHARED

FOLDER = SHARED / "workloads" / "pipedream"
needs_profiles = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"the published profiles are not at {FOLDER}; set SHARED to the folder that has them"
)
LAYERS = {
    "alexnet": 22, "gnmt": 45, "gnmt_large": 93, "inception_v3": 325, "nasnetalarge": 1250, "resnet101": 346,
    "resnet18": 70, "resnet50": 176, "resnext101": 346, "squeezenet1_0": 67, "vgg16": 40,
}  # fmt: skip
"""Nodes of the published files beside their inputs."""


def node(
    name: str, what: str, forward: object = 1.0, backward: object = 2.0, size: object = 8, owned: object = 0.0
) -> str:
    return (
        f"{name} -- {what} -- forward_compute_time={forward}, backward_compute_time={backward},"
        f" activation_size={size}, parameter_size={owned}"
    )


SMALL = [
    node("node1", "Input0", 0, 0),
    node("node10", "Add(inplace)", 0.5, 0.25, 16.0),
    node("node4", "Conv2d(3, 64, kernel_size=(3, 3))", 1.5, 3.0, "[6.0; 2.0]", 4000.0),
    node("node3", "__getitem__(0)"),
    "\tnode1 -- node4",
    "\tnode4 -- node3",
    "\tnode4 -- node10",
    "\tnode3 -- node10",
]


def text(*lines: str) -> str:
    return "\n".join(lines or SMALL)


def test_every_field_lands_where_it_belongs_in_seconds() -> None:
    w = read_pipedream(text(), "some/small.txt")
    assert [o.name for o in w.graph.operators] == [
        "getitem_3", "Conv2d_4", "Add_10", "getitem_3/backward", "Conv2d_4/backward", "Add_10/backward"
    ]  # fmt: skip
    assert [o.op_type for o in w.graph.operators] == ["getitem", "Conv2d", "Add"] * 2
    assert [o.phase for o in w.graph.operators] == [Phase.FORWARD] * 3 + [Phase.BACKWARD_INPUT] * 3
    assert [o.forward_of for o in w.graph.operators] == [None] * 3 + [0, 1, 2]
    assert w.compute is not None
    assert w.compute.samples == (1,)
    assert w.compute.seconds["accelerator"][:, 0] == pytest.approx([0.001, 0.0015, 0.0005, 0.002, 0.003, 0.00025])
    assert [o.param_bytes for o in w.graph.operators] == [0, 4000, 0, 0, 0, 0]
    assert [o.saved_bytes.per_sample for o in w.graph.operators] == [8, 8, 16, 0, 0, 0]
    assert (w.graph.name, w.parameters, w.cluster, w.training) == ("small", 1000, None, True)


def test_a_gradient_flows_against_every_activation_and_is_summed() -> None:
    w = read_pipedream(text(), "small.txt")
    sent = [(t.producer, t.consumers, t.nbytes, t.sum_group is not None) for t in w.graph.tensors]
    assert sent == [
        (0, (2,), Amount(0, 8), False),  # getitem to add
        (1, (0, 2), Amount(0, 8), False),  # convolution to both: two outputs of 6 and 2 bytes
        (0, (3,), Amount(), False), (1, (4,), Amount(), False), (2, (5,), Amount(), False),  # order
        (5, (3,), Amount(0, 8), False),
        (3, (4,), Amount(0, 8), True),
        (5, (4,), Amount(0, 8), True),
    ]  # fmt: skip
    assert len({t.sum_group for t in w.graph.tensors if t.sum_group is not None}) == 1


def test_stages_of_a_partitioned_profile_are_modules() -> None:
    staged = [f"{line} -- stage_id={i}" if i else line for i, line in enumerate(SMALL[:4])]
    w = read_pipedream(text(*staged, *SMALL[4:]), "small.txt")
    assert {o.name: o.module_path for o in w.graph.operators[:3]} == {
        "Add_10": "stage1", "Conv2d_4": "stage2", "getitem_3": "stage3"
    }  # fmt: skip


def test_a_profile_is_recognised_by_how_it_begins() -> None:
    assert looks_like_pipedream(b"node541 -- ReLU() -- forward_comp")
    assert looks_like_pipedream(b"\xef\xbb\xbf\n\tnode1 -- node2\n")
    assert not looks_like_pipedream(b'{"nodes": []}')
    assert not looks_like_pipedream(b"node: hello")


def test_text_or_bytes_and_any_order_of_lines_give_the_same_graph() -> None:
    shown = read_pipedream(text(), "small.txt").graph
    assert read_pipedream(text(*reversed(SMALL)).encode(), "small.txt").graph.operators == shown.operators


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("node9", "line 9: expected 'node1 -- Layer -- forward_compute_time=1.0, .*found 'node9'"),
        ("node9 -- ReLU", "line 9: expected 'node1 -- Layer"),
        (node("node4", "ReLU"), "line 9: node4 was described before"),
        (node("node9", "ReLU", -1), "line 9: 'forward_compute_time' must be a finite number >= 0, found '-1'"),
        (node("node9", "ReLU", 1, "nan"), "'backward_compute_time' must be a finite number >= 0, found 'nan'"),
        (node("node9", "ReLU", 1, 1, "inf"), "'activation_size' must be a finite number >= 0, found 'inf'"),
        (node("node9", "ReLU", 1, 1, "[1; x]"), "'activation_size' must be a finite number >= 0, found ' x'"),
        (node("node9", "ReLU", 1, 1, "[]"), "'activation_size' must be a finite number >= 0, found ''"),
        (node("node9", "ReLU", owned="1e400"), "'parameter_size' must be a finite number >= 0, found '1e400'"),
        ("node9 -- ReLU -- forward_compute_time=1", "line 9: 'backward_compute_time' is missing"),
        ("node9 -- ReLU -- forward_compute_time=1, and so on", "line 9: expected forward_compute_time=..., backward"),
        (node("node9", "ReLU") + " -- stage_id=x", "line 9: expected 'stage_id=' and a number at the end"),
        ("\tnode4", "line 9: expected an edge, 'node1 -- node2', found"),
        ("\tnode4 -- node10 -- node3", "line 9: expected an edge"),
        ("\tnode4 -- node77", "line 9: there is no line that describes 'node77'"),
        ("\tnode10 -- node4", "small.txt: the graph has a cycle: .*Conv2d_4.* -> "),
        ("\tnode4 -- node4", "small.txt: the graph has a cycle: Conv2d_4.* -> Conv2d_4"),
        (node("4", "Conv2d"), "small.txt: operator names must be unique, found 'Conv2d_4' more than once"),
        ("node9 -- " + "x" * 30_000, r"line 9: 30,009 characters, at most 20,000 are read"),
    ],
)
def test_a_bad_line_is_refused_with_one_line_that_names_it(line: str, message: str) -> None:
    with pytest.raises(InvalidProblem, match=message) as refusal:
        read_pipedream(text(*SMALL, line), "small.txt")
    assert str(refusal.value).startswith("small.txt: ")
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 400


def test_nothing_but_inputs_is_refused() -> None:
    for empty in ("\n", SMALL[0]):
        with pytest.raises(InvalidProblem, match="no layers beside its inputs"):
            read_pipedream(empty, "small.txt")


def test_a_file_that_was_cut_short_is_refused_or_reported() -> None:
    with pytest.raises(InvalidProblem, match=r"small\.txt: 4 nodes and no edge between them; the file is cut short"):
        read_pipedream(text(*SMALL[:4]), "small.txt")
    assert "2 of 4 nodes have no edge (node10, for one)" in read_pipedream(text(*SMALL[:5]), "small.txt").notes[0]


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(InvalidProblem, match=r"small.txt: not UTF-8 text \(byte 6\)"):
        read_pipedream(b"node1 \xff", "small.txt")


def test_there_are_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for what, most, message in (
        ("MAX_NODES", 3, "line 4: at most 3 nodes and"),
        ("MAX_EDGES", 2, "line 7: at most .* and 2 edges are read"),
        ("MAX_BYTES", 10, "at most 10 are read"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(pipedream, what, most)
            with pytest.raises(InvalidProblem, match=message):
                read_pipedream(text(), "small.txt")


@needs_profiles
@pytest.mark.parametrize("name", LAYERS)
def test_published_profiles_keep_their_layers_and_their_time(name: str) -> None:
    path = FOLDER / f"{name}.txt"
    w = read_pipedream(path.read_bytes(), str(path))
    layers = LAYERS[name]
    assert len(w.graph) == len(w.graph.topological_order) == 2 * layers
    file = path.read_text()
    described = [line for line in file.split("\n") if line.startswith("node") and " -- Input" not in line]
    assert len(described) == layers
    # The inputs of some profiles have a time of their own, which is dropped with them.
    times = [float(ms) for line in described for ms in re.findall(r"_compute_time=([\d.]+)", line)]
    assert w.compute is not None
    assert w.compute.seconds["accelerator"].sum() * 1e3 == pytest.approx(sum(times))
    modules = [o.module_path for o in w.graph.operators[:layers]]
    assert all(modules) == (layers > 60)
    assert max(modules.count(module) for module in set(modules)) <= 60


@needs_profiles
def test_resnet50_has_its_published_number_of_parameters() -> None:
    assert read_pipedream((FOLDER / "resnet50.txt").read_bytes(), "resnet50.txt").parameters == 25_557_032
