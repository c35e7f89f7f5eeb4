"""A .pt2 file is read as a zip and JSON, gives what a live trace gives, and runs nothing."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import random
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from demo_models import MODELS
from explorer.jobs.read_kind import opened
from explorer.question.loading import load_file
from explorer.tracing import load_pt2
from explorer.tracing.batching import NOTE
from explorer.tracing.capture import quiet
from explorer.tracing.files import archive
from solvers.errors import InvalidProblem
from solvers.problem.graph import Phase
from tests.explorer.tracing.files.pt2_bytes import with_weights
from tests.explorer.tracing.models import Tied, demo

SMALL = [
    "gpt-small",
    "resnet50-small",
    "inception-small",
    "gnmt-small",
    "multimodal-small",
    "dlrm-small",
    "candle_uno-small",
    "rnnlm-small",
    "transformer-small",
    "nasnet-small",
    "llama-small",
    "moe-small",
]


def exported(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> bytes:
    buffer = io.BytesIO()
    torch.export.save(torch.export.export(module, inputs, strict=False), buffer)
    return buffer.getvalue()


def rezipped(data: bytes, changed: dict[str, bytes | None]) -> bytes:
    """The archive with entries replaced (by the end of their name), or dropped."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.namelist():
            content = next((value for end, value in changed.items() if entry.endswith(end)), old.read(entry))
            if content is not None:
                new.writestr(entry, content)
    return buffer.getvalue()


def document_of(data: bytes) -> dict[str, Any]:
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        entry = next(name for name in opened.namelist() if name.endswith("models/model.json"))
        return json.loads(opened.read(entry))


def with_document(data: bytes, document: dict[str, Any]) -> bytes:
    return rezipped(data, {"models/model.json": json.dumps(document).encode()})


@pytest.fixture(scope="module")
def gpt() -> bytes:
    module, inputs = MODELS["gpt-small"].build()
    return exported(module, inputs)


@pytest.mark.first(2)
@pytest.mark.parametrize("name", SMALL)
def test_a_file_gives_the_graph_of_a_live_trace(name: str, tmp_path: Path) -> None:
    module, inputs = MODELS[name].build()
    path = tmp_path / f"{name}.pt2"
    path.write_bytes(exported(module, inputs))
    loaded, live = load_pt2(path), demo(name)
    assert NOTE in loaded.notes
    assert loaded.parameters == live.parameters
    assert loaded.graph.tensors == live.graph.tensors
    for a, b in zip(loaded.graph.operators, live.graph.operators, strict=True):
        assert (a.name, a.op_type, a.phase, a.module_path) == (b.name, b.op_type, b.phase, b.module_path)
        assert (a.param_bytes, a.colocation, a.replicable) == (b.param_bytes, b.colocation, b.replicable)
        assert a.flops == b.flops
        for what in ("moved_bytes", "saved_bytes", "workspace_bytes"):
            at = live.graph.samples
            assert getattr(a, what).at(at) == pytest.approx(getattr(b, what).at(at), rel=0.02), (a.name, what)


def test_reading_a_file_does_not_import_torch(gpt: bytes, tmp_path: Path) -> None:
    path = tmp_path / "gpt.pt2"
    path.write_bytes(gpt)
    code = "import sys; from explorer.tracing import load_pt2; load_pt2(sys.argv[1]); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, cwd=Path(__file__).parents[3])


class Trap:
    """Unpickling this makes a directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_a_booby_trapped_archive_does_not_run(gpt: bytes, tmp_path: Path) -> None:
    sprung = tmp_path / "sprung"
    payload = pickle.dumps(Trap(sprung))
    trapped = rezipped(gpt, {"sample_inputs/model.pt": payload, "weight_0": payload, "weights_config.json": payload})
    assert len(load_pt2(trapped).graph) == len(load_pt2(gpt).graph)
    (tmp_path / "trap.pt2").write_bytes(payload)
    with pytest.raises(InvalidProblem, match=r"not a \.pt2 archive"):
        load_pt2(tmp_path / "trap.pt2")
    assert not sprung.exists()
    pickle.loads(payload)
    assert sprung.exists(), "the trap itself must work"


def test_saved_weights_renamed_are_refused_with_the_way_to_export(tmp_path: Path) -> None:
    torch.save(Tied().state_dict(), tmp_path / "weights.pt2")
    with pytest.raises(InvalidProblem, match=r"pickle of weights.*torch\.export\.save"):
        load_pt2(tmp_path / "weights.pt2")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b"{", "cannot be read"),
        (b"[]", "must be an object"),
        (b"{}", "not as expected"),
        (b'{"graph_module": {"graph": 3, "signature": {"input_specs": []}}}', "not as expected"),
        (b"[" * 100_000, "cannot be read|inflates"),
    ],
)
def test_a_malformed_document_is_refused_in_one_line(gpt: bytes, document: bytes, message: str) -> None:
    with pytest.raises(InvalidProblem, match=message) as raised:
        load_pt2(rezipped(gpt, {"models/model.json": document}))
    assert "\n" not in str(raised.value)


def test_an_archive_without_a_model_or_with_a_bomb_is_refused(gpt: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidProblem, match=r"no models/\*\.json"):
        load_pt2(rezipped(gpt, {"models/model.json": None}))
    with pytest.raises(InvalidProblem, match="inflates to"):
        load_pt2(rezipped(gpt, {"models/model.json": b" " * 20_000_000}))
    monkeypatch.setattr(archive, "MAX_ENTRIES", 3)
    with pytest.raises(InvalidProblem, match="entries"):
        load_pt2(gpt)
    monkeypatch.setattr(archive, "MAX_UPLOAD_BYTES", 10)
    with pytest.raises(InvalidProblem, match="more than the limit"):
        load_pt2(gpt)


def test_an_expression_in_a_size_is_not_evaluated(gpt: bytes) -> None:
    document = document_of(gpt)
    values = document["graph_module"]["graph"]["tensor_values"]
    values["linear"]["sizes"][0] = {"as_expr": {"expr_str": "__import__('os').abort()", "hint": {"as_int": 4}}}
    assert len(load_pt2(with_document(gpt, document)).graph)
    values["linear"]["sizes"][0] = {"as_expr": {"expr_str": "s0", "hint": None}}
    with pytest.raises(InvalidProblem, match="no example value"):
        load_pt2(with_document(gpt, document))


def bytes_read() -> int:
    """By this process so far, from files and whatever else, as Linux counts them."""
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux counts what a process reads")
@pytest.mark.parametrize("read", [load_file, lambda path: opened(path, "m.pt2")], ids=["command line", "page"])
def test_weights_in_a_file_on_disk_are_not_read(gpt: bytes, tmp_path: Path, read: Callable[[str], object]) -> None:
    small, large = tmp_path / "small.pt2", with_weights(tmp_path / "large.pt2", gpt, 5 * 2**30)
    small.write_bytes(gpt)
    assert load_pt2(large).graph.operators == load_pt2(small).graph.operators
    before = bytes_read()
    read(str(large))
    assert bytes_read() - before < 4 * len(gpt)


def test_two_tensors_of_one_name_are_refused(gpt: bytes) -> None:
    document = document_of(gpt)
    view = next(n for n in document["graph_module"]["graph"]["nodes"] if n["target"].startswith("torch.ops.aten.view"))
    view["outputs"][0]["as_tensor"]["name"] = view["inputs"][0]["arg"]["as_tensor"]["name"]
    with pytest.raises(InvalidProblem, match="two tensors are named"):
        load_pt2(with_document(gpt, document))


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_document_is_read_or_refused_and_never_anything_else(gpt: bytes, seed: int) -> None:
    rng = random.Random(seed)
    document = document_of(gpt)
    at: object = document["graph_module"]
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))  # type: ignore[arg-type, call-overload]
        key = rng.choice(keys)
        below = at[key]  # type: ignore[index]
        if isinstance(below, (dict, list)) and below and rng.random() < 0.85:
            at = below
            continue
        at[key] = rng.choice([None, -1, 0, 10**30, "x", [], {}, [{}], {"as_int": 2}])  # type: ignore[index]
        break
    with contextlib.suppress(InvalidProblem):
        load_pt2(with_document(gpt, document))


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_entry_that_does_not_inflate_is_refused(method: int, tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("m/models/model.json", json.dumps(list(range(3000))))
    data = bytearray(path.read_bytes())
    for i in range(200, 600):
        data[i] = 255 - data[i]
    path.write_bytes(data)
    with pytest.raises(InvalidProblem, match=r"not a \.pt2 archive"):
        load_pt2(path)


def test_a_file_that_is_not_there_is_an_error_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidProblem, match="cannot be opened"):
        load_pt2(tmp_path / "none.pt2")


def test_a_program_with_nothing_to_train_gives_its_forward() -> None:
    workload = load_pt2(exported(torch.nn.ReLU(), (torch.randn(2, 3),)))
    assert not workload.training
    assert {o.phase for o in workload.graph.operators} == {Phase.FORWARD}


def test_a_tied_parameter_is_counted_once() -> None:
    tied = Tied()
    workload = load_pt2(exported(tied, (torch.zeros(2, dtype=torch.int64),)))
    assert workload.parameters == sum(p.numel() for p in tied.parameters())


@pytest.mark.parametrize("block", [nn.Dropout(0.5), nn.BatchNorm1d(8)])
@pytest.mark.parametrize("training", [True, False])
def test_an_export_in_eval_mode_that_is_planned_for_training_says_so(
    block: nn.Module, training: bool, tmp_path: Path
) -> None:
    module = nn.Sequential(nn.Linear(8, 8), block).train(training)
    with quiet():
        torch.export.save(torch.export.export(module, (torch.randn(4, 8),)), tmp_path / "m.pt2")
    unsaid = load_pt2(tmp_path / "m.pt2")
    assert unsaid.training is training
    assert any("planned for inference" in note for note in unsaid.notes) is not training
    trained = load_pt2(tmp_path / "m.pt2", training=True)
    assert trained.training
    assert len([note for note in trained.notes if "planned for training" in note]) == (0 if training else 1)
    assert not [note for note in load_pt2(tmp_path / "m.pt2", training=False).notes if "eval mode" in note]
