"""A device_map as Hugging Face's accelerate takes it: on a machine without GPUs the second device is the disk."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import torch

from demo_models import MODELS
from explorer.exports.formats import export
from solvers.errors import UnsupportedProblem
from tests.explorer.exports.planned import planned

HALVES = ("blocks.2.norm1/layer_norm",)


def test_accelerate_takes_every_parameter_and_runs_the_same_model(tmp_path: Path) -> None:
    accelerate = pytest.importorskip("accelerate", reason="pip install accelerate: it reads device maps")
    content = json.loads(export(planned("gpt-small", HALVES), "device-map").data)
    assert set(content.values()) == {0, 1}
    torch.manual_seed(0)
    model, example = MODELS["gpt-small"].build()
    accelerate.utils.check_device_map(model, content)
    whole = copy.deepcopy(model)
    places = {name: "cpu" if device == 0 else "disk" for name, device in content.items()}
    spread = accelerate.dispatch_model(model, places, main_device="cpu", offload_dir=str(tmp_path))
    assert spread.hf_device_map == places
    remaining = {name for name, parameter in spread.named_parameters() if parameter.device.type != "meta"}
    first = {name for name, device in content.items() if device == 0}
    assert remaining == {name for name, _ in whole.named_parameters() if any(name.startswith(f"{m}.") for m in first)}
    with torch.no_grad():
        assert float(spread(*example)) == pytest.approx(float(whole(*example)), rel=1e-6)


def test_a_dag_of_stages_and_cpus_are_stated_and_the_order_is_not() -> None:
    firsts = ["branches.text.layers.0.query/linear", "branches.audio.layers.0.query/linear"]
    exported = export(planned("multimodal-small", firsts, devices=(1, 0, 2)), "device-map")
    content = json.loads(exported.data)
    assert (content["branches.vision.layers.0"], content["branches.text.layers.1"], content["head"]) == (1, 0, 2)
    assert any("micro-batches and their order" in line for line in exported.lost)
    assert any(line.startswith("cat: reads of several devices") for line in exported.lost)


def test_a_module_on_two_devices_is_refused_or_moved_whole() -> None:
    file = planned("gpt-small", ["blocks.2/add"])
    with pytest.raises(UnsupportedProblem, match=r"blocks\.2 is on several devices: 4 operators on GPU 0, 6 operators"):
        export(file, "device-map")
    exported = export(file, "device-map", nearest=True)
    assert json.loads(exported.data)["blocks.2"] == 1
    assert exported.changed[0].startswith("blocks.2 is whole on GPU 1, which does ")
    assert exported.changed[1].startswith("predicted iteration, snapped to module boundaries: ")


def test_replicas_are_refused() -> None:
    with pytest.raises(UnsupportedProblem, match="is replicated on 2 devices"):
        export(planned("gpt-small", HALVES, devices=((0, 1), (2, 3)), max_replicas=2), "device-map")
