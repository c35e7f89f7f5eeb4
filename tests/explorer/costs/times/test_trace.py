"""What torch.profiler saw becomes operator times; the calls are those that tracing the same model gives."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from explorer.costs.times import trace_events
from explorer.costs.times.calls import Call, classes, sizes
from explorer.costs.times.from_trace import imported
from explorer.costs.times.library_json import load_library
from explorer.costs.times.trace_calls import parts_of
from explorer.costs.times.trace_events import load_trace, read_trace
from explorer.tracing import trace_module
from solvers.errors import InvalidProblem
from solvers.problem.graph import Operator, Phase
from tests.explorer.cli.command import Command

RUNS = 3
MICROSECOND = 1e-6


class Small(nn.Module):
    """A lookup, attention between two linears, a norm, a convolution: what most models are made of."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 32)
        self.norm = nn.LayerNorm(32)
        self.qkv = nn.Linear(32, 96)
        self.out = nn.Linear(32, 32, bias=False)
        self.conv = nn.Conv1d(16, 8, 3, stride=2, padding=1)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.table(tokens)
        q, k, v = self.qkv(self.norm(x)).view(*x.shape[:2], 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
        y = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = x + nn.functional.gelu(self.out(y))
        return self.conv(x).square()


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of a few forwards and backwards."""
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    torch.manual_seed(0)
    model, tokens = Small(), torch.randint(50, (4, 16))
    model(tokens).sum().backward()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as seen:
        for _ in range(RUNS):
            model(tokens).sum().backward()
    seen.export_chrome_trace(str(path))
    return path


EQUAL = {"linear", "scaled_dot_product_attention", "embedding", "layer_norm", "gelu", "conv1d"}


def known(operator: Operator) -> bool:
    """An addition's backward is nothing that runs."""
    short = operator.op_type.removeprefix("aten.")
    return short in EQUAL or (short == "add" and operator.phase is Phase.FORWARD)


def test_a_trace_has_the_calls_of_the_traced_model(profiled: Path) -> None:
    """Every product, norm, lookup and elementwise operator, forward and backward, with the same size to the byte."""
    graph = trace_module(Small(), (torch.randint(50, (4, 16)),), name="small", training=True).graph
    of, size = classes(graph, "adam"), sizes(graph, (4,))
    library = imported([load_trace(str(profiled))], "trace.json", hardware="Abacus").library
    calls = {time.call for time in library.times}
    wanted = {
        (operator.name, Call(of[at], size[at][0])) for at, operator in enumerate(graph.operators) if known(operator)
    }
    assert len(wanted) > 15
    assert {name for name, call in wanted if call not in calls} == set()


def test_every_run_counts_and_the_median_is_kept(profiled: Path) -> None:
    result = imported([load_trace(str(profiled))], "trace.json", hardware="Abacus", torch="2.13.0")
    times = {(t.call.of.op_type, t.call.of.phase, t.shape): t for t in result.library.times}
    assert times["aten.gelu", Phase.FORWARD, (4, 16, 32)].count == RUNS
    assert times["aten.conv1d", Phase.BACKWARD_WEIGHT, (4, 8, 16)].count == RUNS
    assert all(time.seconds > 0 for time in result.library.times)
    assert ("aten::sum", RUNS) in result.left_out
    assert 0 < result.covered < 1
    assert (result.library.hardware, result.library.torch) == ("Abacus", "2.13.0")


# -- by hand --------------------------------------------------------------------------------------


def event(name: str, start: float, length: float, number: int | None = None, **more: Any) -> dict[str, Any]:
    args = {key.replace("_", " "): value for key, value in more.items() if key not in ("cat", "tid")}
    args |= {} if number is None else {"Sequence number": number, "Fwd thread id": int("Backward" in name)}
    entry = {"ph": "X", "cat": more.get("cat", "cpu_op"), "name": name, "pid": 1, "tid": more.get("tid", 1)}
    return entry | {"ts": start, "dur": length, "args": args}


LINEAR = {"Input_Dims": [[4, 8], [16, 8], [16]], "Input_type": ["float", "float", "float"]}
ENGINE = "autograd::engine::evaluate_function: "


def by_hand() -> list[dict[str, Any]]:
    """A linear of 10 us made of a transposition (number 5) and a product (6); its backward takes 40 + 4 us of which the
    products of matrices take 12 and 4; and 6 us add to the parameters' gradients."""
    return [
        event("aten::linear", 100, 10, 5, **LINEAR),
        event("aten::t", 101, 1, 5, Input_Dims=[[16, 8]], Input_type=["float"]),
        event("aten::addmm", 103, 6, 6, Input_Dims=[[16], [4, 8], [8, 16]], Input_type=["float"] * 3),
        event(f"{ENGINE}AddmmBackward0", 200, 40, 6),
        event("aten::mm", 205, 12, None, Input_Dims=[[4, 16], [16, 8]], Input_type=["float"] * 2),
        event("aten::mm", 220, 4, None, Input_Dims=[[16, 4], [4, 8]], Input_type=["float"] * 2),
        event(f"{ENGINE}torch::autograd::AccumulateGrad", 240, 2),
        event(f"{ENGINE}TBackward0", 250, 4, 5),
        event(f"{ENGINE}torch::autograd::AccumulateGrad", 255, 4),
    ]


def text(events: list[dict[str, Any]], **more: Any) -> str:
    return json.dumps({"schemaVersion": 1, "traceEvents": events, **more})


def seconds(events: list[dict[str, Any]], hardware: str | None = "Abacus", **more: Any) -> dict[str, float]:
    result = imported([read_trace(text(events, **more))], "by hand", hardware=hardware)
    return {str(time.call.of.phase): time.seconds / MICROSECOND for time in result.library.times}


def test_a_backward_belongs_to_the_call_that_made_it() -> None:
    """50 us, three quarters of them for the input as the two products were."""
    assert seconds(by_hand()) == pytest.approx({"forward": 10, "backward_input": 37.5, "backward_weight": 12.5})


def test_a_first_layer_has_no_gradient_of_its_input() -> None:
    first = [e for e in by_hand() if e["ts"] != 205]
    assert seconds(first) == pytest.approx({"forward": 10, "backward_weight": 50})


def test_on_a_gpu_the_kernels_count() -> None:
    """Whatever the calls that started them took on the host: 3 us forward, 8 and 2 us backward."""
    events = by_hand()
    for number, one in enumerate(events):
        one["args"]["External id"] = number
    for owner, length in ((2, 3), (4, 8), (5, 2)):
        events.append(event("gemm", 1000 + owner, length, None, cat="kernel", External_id=owner, tid=7))
    names = {"deviceProperties": [{"id": 0, "name": "NVIDIA H200"}]}
    assert seconds(events, None, **names) == pytest.approx({"forward": 3, "backward_input": 8, "backward_weight": 2})
    library = imported([read_trace(text(events, **names))], "by hand", hardware=None).library
    assert (library.hardware, library.kind) == ("NVIDIA H200", "H200-141GB")


@pytest.mark.parametrize(
    ("name", "dims", "more"),
    [
        ("aten::linear", [[4, 8]], {}),
        ("aten::linear", [[4, 8], [16]], {}),
        ("aten::linear", [[4, 8], "wide"], {}),
        ("aten::linear", [[4, -8], [16, 8]], {}),
        ("aten::linear", [[2**60, 8], [16, 8]], {}),
        ("aten::linear", [[2**40, 2**40], [16, 2**40]], {}),
        ("aten::linear", [[1] * 17, [16, 8]], {}),
        ("aten::add", [[4, 3], [4, 2]], {}),
        ("aten::conv2d", [[4, 3, 8, 8], [8, 3, 3, 3]], {}),
        ("aten::conv2d", [[4, 3, 8, 8], [8, 3, 3, 3]], {"Concrete Inputs": ["", "", "", "[0, 0]", "[1]", "[1]", "1"]}),
        ("aten::conv2d", [[4, 3, 1, 1], [8, 3, 9, 9]], {"Concrete Inputs": ["", "", "", "[1]", "[0]", "[1]", "1"]}),
        ("aten::gelu", [[0, 4]], {}),
        ("aten::gelu", [], {}),
        ("aten::_unheard_of", [[4]], {}),
        ("os::system", [[4]], {}),
    ],
)
def test_what_is_unknown_is_left_out(name: str, dims: list[Any], more: dict[str, Any]) -> None:
    assert parts_of(name, {"Input Dims": dims, "Input type": ["float"] * len(dims), **more}) is None


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ("[]", "an object"),
        ("{", "ends too early"),
        ('{"traceEvents": 3}', "a list"),
        ('{"traceEvents": []}', "record_shapes=True"),
        (text([event("aten::linear", 1, 1)]), "record_shapes=True"),
        (text([event("aten::linear", -1, 1)]), "traceEvents[0].ts"),
        (text([event("aten::linear", 1, 1) | {"dur": "long"}]), "traceEvents[0].dur"),
        (text([event("aten::linear", 1, 1) | {"name": 5}]), "traceEvents[0].name"),
        (text([e | {"tid": at} for at, e in enumerate(by_hand())]), "threads ran the forward"),
    ],
)
def test_what_is_no_trace_is_refused_in_one_line(made: str, message: str) -> None:
    with pytest.raises(InvalidProblem) as error:
        read_trace(made, "x.json")
    assert str(error.value).startswith("x.json")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_hardware_that_nobody_names_is_requested() -> None:
    with pytest.raises(InvalidProblem, match="--hardware"):
        seconds(by_hand(), None)


def test_a_trace_without_a_known_call_is_refused() -> None:
    with pytest.raises(InvalidProblem, match="no call whose work is known"):
        seconds([event("aten::sum", 1, 1, 1, Input_Dims=[[4]], Input_type=["float"])])


def test_a_compressed_trace_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "trace.json.gz"
    packed = gzip.compress(text(by_hand()).encode())
    file.write_bytes(packed)
    assert len(load_trace(str(file)).calls) == 1
    file.write_bytes(packed[:-20])
    with pytest.raises(InvalidProblem, match="ends in the middle"):
        load_trace(str(file))
    file.write_bytes(packed[:20] + b"\xff" * 40)
    with pytest.raises(InvalidProblem, match="no gzip file"):
        load_trace(str(file))
    file.write_bytes(packed)
    monkeypatch.setattr(trace_events, "MAX_BYTES", len(packed))  # it unpacks to more
    with pytest.raises(InvalidProblem, match="holds more than"):
        load_trace(str(file))
    monkeypatch.setattr(trace_events, "MAX_BYTES", 10)
    with pytest.raises(InvalidProblem, match="at most 10 bytes"):
        load_trace(str(file))


# -- the command ----------------------------------------------------------------------------------


def test_a_trace_becomes_a_file_of_operator_times(command: Command, profiled: Path, tmp_path: Path) -> None:
    file = tmp_path / "times.json"
    ran = command("calibrate", "--from-trace", profiled, "--hardware", "Abacus", "--write-times", file)
    assert (ran.status, ran.err) == (0, "")
    assert "aten::sum (3)" in ran.out
    assert [source.reference for source in load_library(str(file)).sources] == ["trace.json"]
    planned = command("plan", "gpt-small", "--times", file, "--planner", "single", "--json")
    assert planned.status == 0
    assert planned.json["costs_share"]["interpolated"] > 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "Give a MODEL, or --from-trace"),
        (("gpt-small", "--hardware", "Abacus"), "--from-trace"),
        (("--from-trace", "{trace}"), "--write-times"),
        (("gpt-small", "--from-trace", "{trace}", "--write-times", "{times}"), "leave out gpt-small"),
        (("--from-trace", "{trace}", "-o", "{times}"), "operators only"),
        (("--from-trace", "{trace}", "--write-times", "{times}"), "--hardware"),
        (("--from-trace", "/nowhere/trace.json", "--write-times", "{times}"), "no such file"),
    ],
)
def test_flags_that_do_not_fit_are_one_line(
    command: Command, profiled: Path, tmp_path: Path, flags: tuple[str, ...], message: str
) -> None:
    where = {"trace": str(profiled), "times": str(tmp_path / "times.json")}
    assert message in command.refused("calibrate", *(flag.format(**where) for flag in flags))
