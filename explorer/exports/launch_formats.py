"""The formats that launchers read. What writes one is loaded when it is asked for."""

from __future__ import annotations

from explorer.exports.format import Format
from explorer.exports.layers.written import Written
from solvers.formats.plan_json import PlanFile


def _torch_split(file: PlanFile, nearest: bool) -> Written:
    from explorer.exports.launchers.torch_split import torch_split

    return torch_split(file, nearest)


def _torch_script(file: PlanFile, nearest: bool) -> Written:
    from explorer.exports.launchers.torch_script import torch_script

    return torch_script(file, nearest)


def _torch_actions(file: PlanFile, nearest: bool) -> Written:
    from explorer.exports.launchers.torch_actions import torch_actions

    return torch_actions(file, nearest)


def _torchtitan(file: PlanFile, nearest: bool) -> Written:
    from explorer.exports.launchers.torchtitan import torchtitan

    return torchtitan(file, nearest)


def _megatron(file: PlanFile, nearest: bool) -> Written:
    from explorer.exports.launchers.megatron import megatron

    return megatron(file, nearest)


def _deepspeed(file: PlanFile, nearest: bool) -> Written:
    from explorer.exports.launchers.deepspeed import deepspeed

    return deepspeed(file, nearest)


def _device_map(file: PlanFile, nearest: bool) -> Written:
    from explorer.exports.launchers.device_map import device_map

    return device_map(file, nearest)


def _vllm(file: PlanFile, nearest: bool) -> Written:
    from explorer.exports.launchers.vllm import vllm

    return vllm(file, nearest)


LAUNCHERS = (
    Format(
        "torch-split", "where torch cuts the model, by module", ".json", "application/json", _torch_split, launches=True
    ),
    Format(
        "torch-script", "a program that runs it with torch alone", ".py", "text/x-python", _torch_script, launches=True
    ),
    Format(
        "torch-actions", "actions of every rank, for torch's runtime", ".csv", "text/csv", _torch_actions, launches=True
    ),
    Format("torchtitan", "pipeline settings of torchtitan", ".toml", "application/toml", _torchtitan, launches=True),
    Format("megatron", "arguments of Megatron-LM", ".sh", "text/x-shellscript", _megatron, launches=True),
    Format("deepspeed", "a PipelineModule of DeepSpeed", ".py", "text/x-python", _deepspeed, launches=True),
    Format(
        "device-map", "Hugging Face's device_map, by module", ".json", "application/json", _device_map, launches=True
    ),
    Format("vllm", "layers of every rank, for vLLM", ".sh", "text/x-shellscript", _vllm, launches=True),
)
"""In the order of a menu."""
