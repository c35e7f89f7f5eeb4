"""The flags that describe a model and a problem, and the settings they make."""

from __future__ import annotations

import argparse
from typing import Any

from explorer.question.models.example import NAMES, join_example, split_example
from explorer.question.models.part_degrees import PartDegrees
from explorer.question.settings import (
    ClusterSettings,
    MemorySettings,
    PipelineSettings,
    SearchSettings,
    Settings,
    TracingSettings,
    TrainingSettings,
    declared,
)
from explorer.question.written.declaring import Group, Setting
from explorer.question.written.kinds import argument

MODEL_HELP = (
    "a demo name, a file (.pt2, .onnx, graph.json, MSR 2020 or Piper .json, PipeDream .txt), package.module:callable or"
    " file.py:callable, or a model of an installed library, on meta and with its loss: hf:FOLDER, hf:config.json or"
    " hf:TYPE (transformers), timm:NAME, torchvision:NAME"
)


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help=MODEL_HELP, action=_Model)


def add_models(parser: argparse.ArgumentParser) -> None:
    """One or several."""
    parser.add_argument("model", metavar="MODEL", nargs="+", help=MODEL_HELP, action=_Model)


class _Model(argparse.Action):
    """The model, or several, with what flags before said of the example."""

    def __call__(self, parser: object, namespace: argparse.Namespace, values: object, option: object = None) -> None:
        namespace.model = _joined(values, getattr(namespace, "example", {}))


def _joined(models: object, fields: dict[str, Any]) -> object:
    """One model or several, each with what was said of the example."""
    if isinstance(models, list):
        return [_joined(model, fields) for model in models]
    if isinstance(fields.get("expert_load"), str):
        fields = {**fields, "expert_load": None}  # of a file when all is said: `pack_by_counts`
    return join_example(str(models), **fields) if fields else models


def pack_by_counts(args: argparse.Namespace) -> None:
    """Give the models of flags that name a file of counts the load of its packing, which is also in ``packings``, by
    the model's name. Raises InvalidProblem."""
    counts, models = getattr(args, "example", {}).get("expert_load"), getattr(args, "model", None)
    if counts is None or models is None:
        return
    from explorer.question.models.expert_load import ExpertLoad, load_of

    packings: dict[str, ExpertLoad] = {}

    def packed(model: str) -> str:
        load, packing = load_of(split_example(model)[1], counts)
        model = join_example(model, expert_load=load)
        packings.update({} if packing is None else {model: packing})
        return model

    args.model = [packed(one) for one in models] if isinstance(models, list) else packed(models)
    args.packings = packings


class _OfExample(argparse.Action):
    """A number about the model's example, or degrees of its parts: it becomes a part of the model's name,
    "hf:gpt2,batch=4", so that whatever keeps the name can trace the same again."""

    def __call__(self, parser: object, namespace: argparse.Namespace, values: object, option: object = None) -> None:
        before = getattr(namespace, "example", {})
        if isinstance(values, PartDegrees):
            values = "+".join(filter(None, (before.get(self.dest), str(values))))
        assert isinstance(values, float | int | str)
        namespace.example = {**before, self.dest: values}
        if getattr(namespace, "model", None) is not None:
            namespace.model = _joined(namespace.model, namespace.example)


def _add_example(parser: argparse.ArgumentParser) -> None:
    """What is said of the example that a model is traced with."""
    group = parser.add_argument_group("example")
    for flag, what in (
        ("--batch", "samples of the example that is made for a demo, hf:, timm: or torchvision: model"),
        ("--sequence", "tokens of a sample (hf:, demos and modules of yours that take [batch, tokens])"),
        ("--image", "pixels of a side (hf:, timm:, torchvision:)"),
        ("--batch-dim", "the dimension of the first input that counts samples (0)"),
        ("--expert-rows", "rows that each selection by value takes, such as the tokens of an expert, of the example"),
    ):
        group.add_argument(
            flag, type=int, metavar="N", help=what, action=_OfExample, dest=flag[2:].replace("-", "_"),
            default=argparse.SUPPRESS,
        )  # fmt: skip
    for one in declared(TracingSettings):
        if one.flag[2:] in NAMES:
            add_setting(group, one, action=_OfExample, default=argparse.SUPPRESS)
    for flag, what in (
        ("--context-parallel", "divide the tokens of a sample over N devices, all of which have all parameters; such a"
         " group is one device to a planner. With --tensor-parallel T, or --expert-parallel, over N groups that divide"
         " tensors over T, or samples and experts"),
        ("--expert-parallel", "divide the samples of a micro-batch, and the experts of mixtures, over N devices, which"
         " have all other parameters; such a group is one device to a planner. With --tensor-parallel T over N groups"
         " that divide tensors over T"),
    ):  # fmt: skip
        group.add_argument(
            flag, type=int, metavar="N", help=what, action=_OfExample, dest=flag[2:].replace("-", "_"),
            default=argparse.SUPPRESS,
        )  # fmt: skip
    group.add_argument(
        "--expert-load", type=_load_or_file, metavar="LOAD|FILE", action=_OfExample, default=argparse.SUPPRESS,
        dest="expert_load",
        help="rows of the device whose experts are chosen most, over the mean (1); or a JSON file, a list of tokens by"
        " expert or one for each layer, by which experts are packed on the devices of a group",
    )  # fmt: skip
    group.add_argument(
        "--redundant-experts", type=int, metavar="N", action=_OfExample, default=argparse.SUPPRESS,
        dest="redundant_experts",
        help="experts of a mixture that the devices of a group hold beyond one of each, replicas of those that are"
        " chosen most (0); with a file of counts",
    )  # fmt: skip
    group.add_argument(
        "--tensor-parallel-of", type=argument(_of_part), action=_OfExample, metavar="PART=N", default=argparse.SUPPRESS,
        dest="tensor_parallel_of",
        help="divide the tensors of a part of the model, a module or several that are counted (layers.16-31), over N"
        " devices; may be repeated",
    )  # fmt: skip


def _load_or_file(written: str) -> float | str:
    try:
        return float(written)
    except ValueError:
        return written


def _of_part(written: str) -> PartDegrees:
    path, _, degree = written.rpartition("=")
    return PartDegrees.parse(f"{path}:{degree}")


def add_expert(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--expert",
        metavar="FILE",
        help='judge the placement in FILE: {"operator or module": device}, or one of MSR 2020\'s for their workloads',
    )


def add_phase(parser: argparse.ArgumentParser) -> None:
    """--training, --inference, --dtype and what is said of the example: how a model is traced."""
    _add_example(parser)
    phase = parser.add_mutually_exclusive_group()
    for one in (one for one in declared(TracingSettings) if one.flag[2:] not in NAMES):
        add_setting(phase if one.name == "training" else parser, one)
    phase.add_argument("--inference", action="store_false", dest="training", default=None, help="plan for inference")


HEADINGS: dict[str, tuple[type[Group], str | None]] = {
    "cluster": (
        ClusterSettings,
        "With --devices-per-node, --bandwidth is that inside a host (PCIe, if not given). Hosts of 4 V100 with two"
        " NVLinks of 25GB/s between any two of them, and 100 Gbit/s InfiniBand between hosts: --devices 32"
        " --device-kind V100-16GB --devices-per-node 4 --bandwidth 50GB/s --node-bandwidth 12.5GB/s. Devices that"
        " differ: --device-kind 2xV100-32GB,2xA100-40GB --memory 24GiB,24GiB,40GiB,16GiB. Whole clusters by name,"
        " --cluster dgx-h100 or --cluster 4xdgx-h100 for four of them (`placement-explorer clusters` lists them and"
        " prints one as a file to start from); or any cluster at all, --cluster FILE, by its nodes or by its devices"
        " and links, in YAML or JSON (docs/clusters.md).",
    ),
    "memory": (MemorySettings, None),
    "training": (TrainingSettings, None),
    "pipeline": (PipelineSettings, None),
}
"""The sections of --help, with what they begin with."""


def add_problem(parser: argparse.ArgumentParser, *, contiguity: bool = True) -> None:
    """Every setting of a problem. contiguity: whether to add it; a command that takes several adds its own."""
    for title, (group, description) in HEADINGS.items():
        section = parser.add_argument_group(title, description)
        for one in declared(group):
            if contiguity or one.name != "contiguity":
                add_setting(section, one)


def add_search(section: argparse._ArgumentGroup, effort: str, limit_s: float, *without: str) -> None:
    """Who searches and for how long. effort: what --effort is, in words; limit_s: where time ends a search; without:
    settings that a command has no use for."""
    changed: dict[str, dict[str, Any]] = {
        "effort": {"help": f"{effort} (normal)"},
        "time_limit_s": {"help": f"seconds that end a search early ({limit_s:g})", "default": limit_s},
        "planner": {"default": "auto"},
    }
    for one in declared(SearchSettings):
        if one.name not in without:
            add_setting(section, one, **changed.get(one.name, {}))


Changed = str | float | type[argparse.Action]
"""In place of what a setting declares of its flag."""


def add_setting(section: argparse._ActionsContainer, one: Setting, **changed: Changed) -> None:
    """The flag of a setting; what was not given is None in the namespace, by the setting's name."""
    options: dict[str, Any] = {"dest": one.name, "default": None, "help": one.help, **one.kind.flag(), **changed}
    section.add_argument(one.flag, **options if one.metavar is None else {"metavar": one.metavar, **options})


def settings_of(args: argparse.Namespace) -> Settings:
    """The settings that the flags of `add_problem` and `add_phase` give. Raises InvalidProblem."""
    return Settings(**_given(args, TracingSettings, *(group for group, _ in HEADINGS.values())))


def search_of(args: argparse.Namespace) -> SearchSettings:
    """What the flags of `add_search` give. Raises InvalidProblem."""
    return SearchSettings(**_given(args, SearchSettings))


def _given(args: argparse.Namespace, *groups: type[Group]) -> dict[str, Any]:
    """By the names of settings; a refusal names the flag."""
    values = [(one, getattr(args, one.name, None)) for one in declared(*groups)]
    return {one.name: one.kind.of_flag(one.flag, value) for one, value in values if value is not None}
