"""The flags that describe a model and a problem, and the settings they make."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

from explorer.costs.profile import Profile
from explorer.costs.times.library import Library
from explorer.question.models.example import join_example
from explorer.question.pins import parse_pin
from explorer.question.settings import RECOMPUTE, STAGE, MemoryModel, Settings, recompute_of
from explorer.question.together import parse_together
from explorer.question.written.device_lists import parse_caps, parse_kinds
from explorer.question.written.dtypes import parse_dtype
from explorer.question.written.quantities import parse_bandwidth, parse_bytes, parse_seconds
from solvers.errors import InvalidProblem
from solvers.problem.cluster import Cluster, Wires
from solvers.problem.problem import Contiguity, Execution, Objective, Optimizer, Pipeline, Precision, Transfers
from solvers.problem.training import ZERO_STAGES
from solvers.search.effort import Effort

T = TypeVar("T")

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


def _joined(models: object, said: dict[str, int]) -> object:
    """One model or several, each with what was said of the example."""
    if isinstance(models, list):
        return [_joined(model, said) for model in models]
    return join_example(str(models), **said) if said else models


class _OfExample(argparse.Action):
    """A number about the model's example: it becomes a part of the model's name, "hf:gpt2,batch=4", so that whatever
    keeps the name can trace the same again."""

    def __call__(self, parser: object, namespace: argparse.Namespace, values: object, option: object = None) -> None:
        assert isinstance(values, int)
        namespace.example = {**getattr(namespace, "example", {}), self.dest: values}
        if getattr(namespace, "model", None) is not None:
            namespace.model = _joined(namespace.model, namespace.example)


def _add_example(parser: argparse.ArgumentParser) -> None:
    """What is said of the example that a model is traced with."""
    group = parser.add_argument_group("example")
    for flag, what in (
        ("--batch", "samples of the example that is made for a demo, hf:, timm: or torchvision: model"),
        ("--sequence", "tokens of a sample (hf:)"),
        ("--image", "pixels of a side (hf:, timm:, torchvision:)"),
        ("--batch-dim", "the dimension of the first input that counts samples (0)"),
        ("--expert-rows", "rows that each selection by value takes, such as the tokens of an expert, of the example"),
    ):
        group.add_argument(
            flag, type=int, metavar="N", help=what, action=_OfExample, dest=flag[2:].replace("-", "_"),
            default=argparse.SUPPRESS,
        )  # fmt: skip


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
    phase.add_argument(
        "--training", action="store_true", default=None, help="plan for training (default, but for files in eval mode)"
    )
    phase.add_argument("--inference", action="store_true", help="plan for inference")
    parser.add_argument(
        "--dtype",
        type=_with(parse_dtype),
        metavar="{bf16,fp16,fp32}",
        help="trace in this dtype instead of the model's own, which is fp32 for the demos and for most modules as"
        " they are built; training on A100 or newer is usually bf16",
    )


def wants_training(args: argparse.Namespace) -> bool | None:
    """What was said; None for nothing."""
    return True if args.training else False if args.inference else None


def add_problem(parser: argparse.ArgumentParser, *, contiguity: bool = True) -> None:
    """Cluster, objective, pipeline, batches and pins. contiguity: whether to add --contiguity; a
    command that takes several adds its own."""
    _add_cluster(parser)
    problem = parser.add_argument_group("problem")
    _add_question(problem, contiguity)
    _add_batches(problem)


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    cluster = parser.add_argument_group(
        "cluster",
        "With --devices-per-node, --bandwidth is that inside a host (PCIe, if not given). Hosts of 4 V100 with two"
        " NVLinks of 25GB/s between any two of them, and 100 Gbit/s InfiniBand between hosts: --devices 32"
        " --device-kind V100-16GB --devices-per-node 4 --bandwidth 50GB/s --node-bandwidth 12.5GB/s. Devices that"
        " differ: --device-kind 2xV100-32GB,2xA100-40GB --memory 24GiB,24GiB,40GiB,16GiB. Whole clusters by name,"
        " --cluster dgx-h100 or --cluster 4xdgx-h100 for four of them (`placement-explorer clusters` lists them and"
        " prints one as a file to start from); or any cluster at all, --cluster FILE, by its nodes or by its devices"
        " and links, in YAML or JSON (docs/clusters.md).",
    )
    cluster.add_argument("--devices", type=int, metavar="N", help="accelerators (4, or those of the file)")
    cluster.add_argument(
        "--device-kind",
        type=_with(parse_kinds),
        metavar="KIND[,KIND]",
        help="one for all accelerators, or one for each, 2xKIND for two; `placement-explorer devices` lists them"
        " (H100-80GB)",
    )
    cluster.add_argument(
        "--memory",
        type=_with(parse_caps),
        metavar="SIZE[,SIZE]",
        help="cap of all accelerators, or of each: 80GiB (what the kind has)",
    )
    cluster.add_argument(
        "--keep-free",
        type=_with(parse_bytes),
        default=0.0,
        metavar="SIZE",
        help="of each accelerator's memory, for what no plan counts: the driver's context, buffers of communication,"
        " what the allocator rounds up and cannot join: 4GiB (0)",
    )
    cluster.add_argument("--cpus", type=int, metavar="N", help="CPUs beside them (0, or those of the file)")
    cluster.add_argument("--bandwidth", type=_with(parse_bandwidth), metavar="RATE", help="of every link (25GB/s)")
    cluster.add_argument("--latency", type=_with(parse_seconds), metavar="TIME", help="of every link (10us)")
    cluster.add_argument(
        "--devices-per-node", type=int, metavar="N", help="accelerators of one host, or node (all in one)"
    )
    cluster.add_argument(
        "--node-bandwidth",
        type=_with(parse_bandwidth),
        metavar="RATE",
        help="from one host to another, shared by their devices (12.5GB/s)",
    )
    cluster.add_argument(
        "--links",
        choices=_values(Wires),
        help="inside a host: dedicated, one for every ordered pair of devices (NVLink); shared, one wire that carries"
        " one transfer at a time (PCIe through one root) (dedicated)",
    )
    cluster.add_argument(
        "--cluster",
        metavar="NAME|FILE",
        help="all devices and links, by name or from a file, in place of the flags above but --memory and --keep-free",
    )
    cluster.add_argument(
        "--profile",
        metavar="FILE|NAME",
        help="times, links and memory as `placement-explorer calibrate` measured them, in place of estimates: a file,"
        " or the name that they were saved under (`placement-explorer profiles`)",
    )
    cluster.add_argument(
        "--times",
        metavar="FILE|NAME",
        action="append",
        default=[],
        help="operator times that `calibrate --write-times` or `--from-trace` measured, of any models, in place of"
        " estimates wherever they say something; once for each kind of device",
    )


def _add_question(problem: argparse._ArgumentGroup, contiguity: bool) -> None:
    problem.add_argument(
        "--objective", choices=_values(Objective), help="what to minimise (iteration, or that of the file)"
    )
    if contiguity:
        problem.add_argument(
            "--contiguity",
            choices=_values(Contiguity),
            help="which sets of operators a device may hold: none is any set (acyclic; none for one pass of single"
            " operators)",
        )
    problem.add_argument(
        "--transfers",
        choices=_values(Transfers),
        help="how they share devices and links: lane is one channel per device for all it sends and receives, as in"
        " Baechi, where both ends are busy at once; here the sender's part comes first (links, or those of the file)",
    )
    problem.add_argument(
        "--execution", choices=_values(Execution), help="how one unsplit pass runs (operator, or that of the file)"
    )
    problem.add_argument(
        "--pipeline",
        choices=_values(Pipeline),
        default=Pipeline.ONE_F_ONE_B.value,
        help="the order in which a device takes its micro-batches; `planner` leaves it open (1f1b)",
    )
    problem.add_argument(
        "--optimizer",
        choices=_values(Optimizer),
        default=Optimizer.ADAM.value,
        help="which states are kept per parameter in training: momentum is SGD with a velocity, none not even keeps"
        " gradients (adam)",
    )
    problem.add_argument(
        "--precision",
        choices=_values(Precision),
        default=Precision.PURE.value,
        help="of training: pure, weights, gradients and states in the dtype traced (8 bytes a parameter in bf16 with"
        " Adam); mixed, 16-bit weights and gradients beside fp32 masters and states (16 bytes);"
        " mixed-fp32-gradients, gradients added up in fp32 too (18 bytes) (pure)",
    )
    problem.add_argument(
        "--zero",
        type=int,
        choices=ZERO_STAGES,
        default=0,
        help="stage of ZeRO: the replicas of a stage (--replicate) share out optimizer states (1), gradients too (2),"
        " parameters too (3) (0: none)",
    )
    problem.add_argument(
        "--memory-model",
        choices=_values(MemoryModel),
        default=MemoryModel.PEAK.value,
        help="what a cap applies to: the peak of the simulated schedule, or static, the sum of what all operators of a"
        " device keep, as in Pesto and Baechi; a file that states sizes is always static (peak)",
    )


def _add_batches(problem: argparse._ArgumentGroup) -> None:
    """Batches, what stages may do, and pins."""
    problem.add_argument(
        "--mini-batch",
        type=int,
        metavar="B",
        help="samples per iteration (64, or the batch of the traced example where that is larger)",
    )
    problem.add_argument("--micro-batches", type=int, metavar="M", help="split into M (a planner chooses)")
    problem.add_argument(
        "--replicate",
        type=int,
        nargs="?",
        const=0,
        default=1,
        metavar="N",
        help="let a stage run on up to N devices, each with a share of every micro-batch (without N: on all)",
    )
    problem.add_argument(
        "--recompute",
        nargs="?",
        const=STAGE,
        choices=RECOMPUTE,
        help="run forwards again in place of keeping activations (checkpointing): stage (the same without a word:"
        " stages may), layers (every layer that the model repeats does), operators (in these all but products and"
        " fused attention), none (without the flag: what the model itself checkpoints)",
    )
    problem.add_argument(
        "--mixed-micro-batches",
        action="store_true",
        help="let stages differ in the size of their micro-batches",
    )
    problem.add_argument(
        "--in-sequence",
        action="store_true",
        help="let operators wait for one another in one linear order, branch after branch: pipelines are sequential",
    )
    problem.add_argument(
        "--copy-tied",
        action="store_true",
        help="let every operator that reads a tied parameter (an embedding that is the head, too) hold a copy of it, in"
        " place of sharing a device; in inference",
    )
    problem.add_argument(
        "--subgraphs",
        type=int,
        metavar="Q",
        help="most stages of one device in a latency plan: makespan with execution call (any number)",
    )
    problem.add_argument(
        "--pin",
        type=_with(parse_pin),
        action="append",
        default=[],
        metavar="OPERATOR=DEVICE",
        help="put an operator, or all of a module, on a device; may be repeated",
    )
    problem.add_argument(
        "--together",
        type=_with(parse_together),
        action="append",
        default=[],
        metavar="NAME,NAME",
        help="keep operators, or all of modules, on one device, whichever it is; may be repeated",
    )


def add_planner(group: argparse._ArgumentGroup) -> None:
    """Which planner searches."""
    group.add_argument(
        "--planner", default="auto", metavar="NAME[:OPTION=VALUE,...]", help="`placement-explorer planners` lists them"
    )


def add_limits(group: argparse._ArgumentGroup, effort: str, limit_s: float) -> None:
    """How long a search goes on, and its seed. effort: what --effort is, in words; limit_s: where time ends it."""
    group.add_argument(
        "--effort",
        choices=[each.value for each in Effort],
        default=Effort.NORMAL.value,
        help=f"{effort} ({Effort.NORMAL.value})",
    )
    group.add_argument(
        "--time-limit", type=float, default=limit_s, metavar="S", help=f"seconds that end a search early ({limit_s:g})"
    )
    group.add_argument("--seed", type=int, default=0, metavar="N")


def settings_of(args: argparse.Namespace) -> Settings:
    """The settings that the flags of `add_problem` and `add_phase` give."""
    stages, regions = recompute_of(args.recompute)
    return Settings(
        devices=args.devices,
        device_kind=args.device_kind,
        memory_bytes=args.memory,
        keep_free_bytes=args.keep_free,
        cpus=args.cpus,
        bandwidth_bytes_per_s=args.bandwidth,
        latency_s=args.latency,
        devices_per_node=args.devices_per_node,
        node_bandwidth_bytes_per_s=args.node_bandwidth,
        links=None if args.links is None else Wires(args.links),
        cluster=None if args.cluster is None else _cluster(args.cluster),
        profile=None if args.profile is None else _profile(args.profile),
        times=tuple(_library(path) for path in args.times),
        memory_model=MemoryModel(args.memory_model),
        objective=None if args.objective is None else Objective(args.objective),
        contiguity=None if args.contiguity is None else Contiguity(args.contiguity),
        transfers=None if args.transfers is None else Transfers(args.transfers),
        execution=None if args.execution is None else Execution(args.execution),
        pipeline=Pipeline(args.pipeline),
        training=wants_training(args),
        optimizer=Optimizer(args.optimizer),
        precision=Precision(args.precision),
        zero=args.zero,
        mini_batch=args.mini_batch,
        micro_batches=args.micro_batches,
        max_replicas=args.replicate,
        recompute=stages,
        regions=regions,
        mixed_micro_batches=args.mixed_micro_batches,
        in_sequence=args.in_sequence,
        copy_tied=args.copy_tied,
        subgraphs_per_device=args.subgraphs,
        pins=_pins(args.pin),
        together=tuple(args.together),
    )


def _cluster(path: str) -> Cluster:
    from explorer.question.cluster_file import load_cluster

    return load_cluster(path)


def _profile(path: str) -> Profile:
    from explorer.costs.profile_json import load_profile
    from explorer.costs.times.store import PROFILE, found

    return load_profile(found(path, PROFILE))


def _library(path: str) -> Library:
    from explorer.costs.times.library_json import load_library
    from explorer.costs.times.store import TIMES, found

    return load_library(found(path, TIMES))


def _pins(given: list[tuple[str, int]]) -> dict[str, int]:
    pins: dict[str, int] = {}
    for name, device in given:
        if pins.setdefault(name, device) != device:
            raise InvalidProblem(f"--pin {name} is given twice, for devices {pins[name]} and {device}; keep one")
    return pins


def _values(kind: type[StrEnum]) -> list[str]:
    return [member.value for member in kind]


def _with(parse: Callable[[str], T]) -> Callable[[str], T]:
    """argparse keeps the message of this one error type only."""

    def convert(text: str) -> T:
        try:
            return parse(text)
        except InvalidProblem as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert
