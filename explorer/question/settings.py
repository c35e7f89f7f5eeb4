"""The settings a person can change, each declared here and nowhere else.

From a declaration come the keyword of `explorer.plan`, the flag with its help, the key of a query string, the trait of
the notebook's widget, the control of the page with what `?` says of it, the JSON schema and docs/settings.md. A new
setting is one entry here, and what uses it (`explorer.question.problems`, mostly).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from explorer.costs.regions import Recompute
from explorer.costs.stack import Stack
from explorer.question.names import parse_pin
from explorer.question.nodes.wired import Wiring
from explorer.question.together import Unit, parse_together
from explorer.question.written.declaring import (
    FIRST_ROW,
    MORE,
    NUMBER,
    ONE_PASS,
    OWN,
    PIPELINES,
    RARE,
    SEGMENTS,
    SWITCH,
    Control,
    Group,
    Setting,
    setting,
    settings_of,
)
from explorer.question.written.device_lists import MAX_DEVICES
from explorer.question.written.kinds import (
    AUTO_WORD,
    MAX_DEGREE,
    RATE,
    SEARCHED,
    SIZE,
    TIME,
    Caps,
    Choice,
    Degree,
    DeviceKinds,
    File,
    Name,
    Number,
    Pins,
    Rerun,
    Switch,
    Together,
    Whole,
)
from explorer.question.written.kinds import (
    MAX_DEVICES as MAX_LISTED,
)
from explorer.question.written.quantities import parse_dtype
from solvers.problem.cluster import Cluster, Wires
from solvers.problem.problem import Contiguity, Execution, Objective, Optimizer, Pipeline, Precision, Transfers
from solvers.problem.training import ZERO_STAGES
from solvers.search.effort import Effort

if TYPE_CHECKING:
    from explorer.costs.profile import Profile
    from explorer.costs.times.library import Library
    from solvers.search.planner import Planner

    Plain = bool | float | str | None
    Value = (
        Plain
        | Sequence[Plain | Library | Sequence[str]]
        | Mapping[str, int]
        | Cluster
        | Profile
        | Library
        | Wires
        | Group
    )
    """What a setting, or a group of them, is given as in Python."""
MAX_BATCH = 65536
MAX_TIME_LIMIT_S = 600.0
TIME_LIMIT_S = 30.0
"""Of the page. It guards a search that ends by itself, by counted work, long before for most models."""
MAX_SEED = 2**31 - 1
DTYPES = ("fp32", "bf16", "fp16")
GIB = 2.0**30
NARROW, SHORT, WIDE = 74, 82, 96
"""Pixels of controls."""


class MemoryModel(StrEnum):
    """What a cap applies to, where a workload states no sizes.

    PEAK: the most that is held at any time of the simulated schedule. STATIC: the sum of what all operators
    of a device keep, parameters and saved activations of the whole mini-batch, whenever they keep it.
    """

    PEAK = "peak"
    STATIC = "static"


def _load_cluster(path: str) -> Cluster:
    from explorer.question.cluster_file import load_cluster

    return load_cluster(path)


def _load_profile(path: str) -> Profile:
    from explorer.costs.profile_json import load_profile
    from explorer.costs.times.store import PROFILE, path_of

    return load_profile(path_of(path, PROFILE))


def _load_times(path: str) -> Library:
    from explorer.costs.times.library_json import load_library
    from explorer.costs.times.store import TIMES, path_of

    return load_library(path_of(path, TIMES))


@dataclass(frozen=True, init=False)
class TracingSettings(Group):
    """How a model is traced: settings of `explorer.trace`, not of `explorer.plan`."""

    training: bool | None = setting(
        None,
        Switch(),
        "plan for training (default, but for files in eval mode)",
        control=Control(
            id="phase", label="", what="Training or inference", shape=SEGMENTS, default="true",
            labels={"true": "Training", "false": "Inference"}, term="training", word="Training, inference",
            meaning="Training runs forward, backward and update, and keeps gradients and optimizer states in memory. "
            "Inference runs the forward alone.",
        ),
    )  # fmt: skip
    dtype: str | None = setting(
        None,
        Name(DTYPES, parse_dtype),
        "trace in this dtype instead of the model's own, which is fp32 for the demos and for most modules as"
        " they are built; training on A100 or newer is usually bf16",
        metavar="{bf16,fp16,fp32}",
        control=Control(
            id="dtype", label="", what="Number format", shape=SEGMENTS, word="Number format",
            labels={"auto": "model", **{name: name for name in DTYPES}},
            meaning="What tensors are made of: bf16 and fp16 take half the bytes of fp32 and run faster on GPUs. Model:"
            " as it was written.",
        ),
    )  # fmt: skip
    tensor_parallel: int = setting(
        1,
        Degree(1, MAX_DEGREE),
        "divide every tensor over N devices, which are one device to a planner; auto (plan): the best of all degrees"
        " that divide a node (1)",
        metavar="N",
        control=Control(
            id="tensor-parallel", label="Tensors divided over", what="Tensor parallelism: GPUs that share tensors",
            shape=SEGMENTS, labels={SEARCHED: AUTO_WORD, "1": "1", "2": "2", "4": "4", "8": "8"},
            most=MAX_DEGREE, word="Tensors divided over (tensor parallelism)",
            meaning="Tensor parallelism: so many GPUs of a node share every operator, each with a part of its tensors,"
            " and exchange what they lack. Such a group is one device of the plan. auto plans with every degree and"
            " takes the best.",
        ),
    )  # fmt: skip
    sequence_parallel: int = setting(
        1,
        Whole(0, 1, choices=(0, 1)),
        "0: do not divide tokens between the calls that need them whole (1)",
        metavar="N",
        control=Control(
            id="sequence-parallel", label="Tokens between", what="Sequence parallelism: tokens between divided"
            " operators", labels={"1": "divided", "0": "whole"}, width=SHORT,
            word="Tokens between (sequence parallelism)",
            meaning="Sequence parallelism: where a group of GPUs divides tensors, norms and sums between the products"
            " run on a part of the tokens each (less memory, the same bytes sent), or on all of them.",
        ),
    )  # fmt: skip


@dataclass(frozen=True, init=False)
class ClusterSettings(Group):
    """Devices, what connects them, and how long they take.

    cluster: a whole one, in place of all that describes one. profile: measured costs, links and memory in place of
    estimates; its ranks are the devices unless others are asked for. times: what operators took, whichever models they
    are of, one library for a kind of device; the devices are of that kind unless others are asked for.
    """

    devices: int | None = setting(
        None,
        Whole(1, MAX_DEVICES),
        "accelerators (4, or those of the file)",
        metavar="N",
        control=Control(
            id="devices", label="GPUs", shape=OWN, in_widget=FIRST_ROW,
            meaning="How many accelerators the plan may use. It may leave some idle where that is faster.",
        ),
    )  # fmt: skip
    device_kind: str | tuple[str, ...] | None = setting(
        None,
        DeviceKinds(),
        "one for all accelerators, or one for each, 2xKIND for two; `placement-explorer devices` lists them"
        " (H100-80GB)",
        metavar="KIND[,KIND]",
        control=Control(
            id="kind", label="Device kind", shape=OWN, in_widget=FIRST_ROW,
            meaning="Which accelerator: its speed, memory and bandwidth are taken from the makers' data sheets.",
        ),
    )  # fmt: skip
    cpus: int | None = setting(
        None,
        Whole(0, MAX_LISTED),
        "CPUs beside them (0, or those of the file)",
        metavar="N",
        control=Control(
            id="cpus", label="CPUs", shape=NUMBER, place=RARE, whole=True, least=0,
            meaning="Processors beside the GPUs that operators may run on, more slowly.",
        ),
    )  # fmt: skip
    wiring: Wiring = setting(
        Wiring.PLAIN,
        Choice(Wiring),
        "what joins devices where nothing else is said: plain, 25 GB/s between any two; kind, what machines with that"
        " kind have, NVLink in a node of 8 and InfiniBand between for H100; measured, the same as fast as messages and"
        " collectives over them were measured (plain)",
        control=Control(
            id="wiring", label="Joined by", what="What joins the GPUs",
            labels={"kind": "typical links", "measured": "measured", "plain": "25 GB/s"},
            meaning="Typical links: as machines with that GPU are sold, NVLink inside a node and a network between"
            " nodes, from data sheets; measured: as fast as messages were seen to be over them. 25 GB/s: PCIe between"
            " any two, whatever they are.",
        ),
    )  # fmt: skip
    links: Wires | None = setting(
        None,
        Choice(Wires, optional=True),
        "inside a host: dedicated, one for every ordered pair of devices (NVLink); shared, one bus that carries"
        " one transfer at a time (PCIe through one root) (dedicated)",
        control=Control(
            id="links", label="Links", place=RARE,
            labels={"auto": "auto", "dedicated": "point-to-point", "shared": "shared bus"},
            meaning="What carries tensors between GPUs: a link of its own for each pair, or one bus that all transfers"
            " of a machine share.",
        ),
    )  # fmt: skip
    bandwidth_bytes_per_s: float | None = setting(
        None,
        RATE,
        "of every link (25GB/s)",
        name="bandwidth",
        metavar="RATE",
        control=Control(
            id="bandwidth", label="Bandwidth, GB/s", shape=NUMBER, place=RARE, unit=1e9, width=NARROW, least=0.001,
            word="Bandwidth", in_widget=MORE,
            meaning="Bytes a second that a link carries. Lower it to see what a slower network costs.",
        ),
    )  # fmt: skip
    latency_s: float | None = setting(
        None, TIME, "of every link (10us)", name="latency", metavar="TIME", link="latency"
    )
    devices_per_node: int | None = setting(
        None,
        Whole(1, MAX_DEVICES),
        "accelerators of one host, or node (all in one)",
        metavar="N",
        control=Control(
            id="per-node", label="", what="GPUs per node", width=SHORT, term="node", word="Node",
            labels={"auto": "1 node", "2": "2/node", "4": "4/node", "8": "8/node"},
            meaning="GPUs of one machine. Links between nodes are slower than those inside one.",
        ),
    )  # fmt: skip
    node_bandwidth_bytes_per_s: float | None = setting(
        None,
        RATE,
        "from one host to another, shared by their devices (12.5GB/s)",
        name="node_bandwidth",
        metavar="RATE",
    )
    transfers: Transfers | None = setting(
        None,
        Choice(Transfers, optional=True),
        "how they share devices and links: lane is one channel per device for all it sends and receives, as in"
        " Baechi, where both ends are busy at once; here the sender's part comes first (links, or those of the file)",
        control=Control(
            id="transfers", label="Transfers", place=RARE,
            labels={
                "auto": "auto", "links": "on links", "lane": "one channel", "duplex": "each way", "blocking": "blocking"
            },
            meaning="How sending goes together with computing: beside it on links, one channel a GPU, one each way, or "
            "blocking (a GPU that sends computes nothing).",
        ),
    )  # fmt: skip
    cluster: Cluster | None = setting(
        None,
        File(_load_cluster),
        "all devices and links, by name or from a file, in place of the flags above but --memory and --keep-free",
        metavar="NAME|FILE",
    )
    profile: Profile | None = setting(
        None,
        File(_load_profile),
        "times, links and memory as `placement-explorer calibrate` measured them, in place of estimates: a file,"
        " or the name that they were saved under (`placement-explorer profiles`)",
        metavar="FILE|NAME",
    )
    times: tuple[Library, ...] = setting(
        (),
        File(_load_times, several=True),
        "operator times that `calibrate --write-times` or `--from-trace` measured, of any models, in place of"
        " estimates wherever they say something; once for each kind of device",
        metavar="FILE|NAME",
    )


@dataclass(frozen=True, init=False)
class MemorySettings(Group):
    """What accelerators may hold."""

    memory_bytes: float | tuple[float, ...] | None = setting(
        None,
        Caps(2.0**20, SIZE.most),
        "cap of all accelerators, or of each: 80GiB (what the kind has)",
        name="memory",
        metavar="SIZE[,SIZE]",
        control=Control(
            id="memory", label="Memory per GPU", shape=OWN, in_widget=FIRST_ROW,
            meaning="The cap that every GPU's memory must stay below at every moment. Lower it to see what a smaller"
            " card would need.",
        ),
    )  # fmt: skip
    memory_model: MemoryModel = setting(
        MemoryModel.PEAK,
        Choice(MemoryModel),
        "what a cap applies to: the peak of the simulated schedule, or static, the sum of what all operators of a"
        " device keep, as in Pesto and Baechi; a file that states sizes is always static (peak)",
        control=Control(
            id="memory-model", label="Cap on", what="What a cap applies to", place=RARE, term="cap",
            labels={"peak": "peak usage", "static": "total usage"}, word="Cap applies to",
            meaning="Peak usage: what is held at each moment of the schedule. Total usage: parameters and all"
            " activations added up, as some papers count.",
        ),
    )  # fmt: skip
    keep_free_bytes: float = setting(
        0.0,
        SIZE,
        "of each accelerator's memory, for what no plan counts: the driver's context, buffers of communication,"
        " what the allocator rounds up and cannot join: 4GiB (0)",
        name="keep_free",
        metavar="SIZE",
        control=Control(
            id="keep-free", label="Reserved, GiB", what="Reserved memory on each GPU, GiB", shape=NUMBER, place=RARE,
            unit=GIB, width=NARROW, least=0, empty="0", word="Reserved memory",
            meaning="Of each GPU's memory, for what no plan counts: the driver's context, buffers of communication, and"
            " what the allocator rounds up or cannot join.",
        ),
    )  # fmt: skip


@dataclass(frozen=True, init=False)
class TrainingSettings(Group):
    """What a training step keeps, and how many samples it takes."""

    optimizer: Optimizer = setting(
        Optimizer.ADAM,
        Choice(Optimizer),
        "which states are kept per parameter in training: momentum is SGD with a velocity, none not even keeps"
        " gradients (adam)",
        control=Control(
            id="optimizer", label="Optimizer",
            labels={
                "adam": "Adam", "adamw": "AdamW", "adafactor": "Adafactor", "momentum": "momentum", "sgd": "SGD",
                "none": "none",
            },
            meaning="What a training step keeps beside each parameter and its gradient: Adam and AdamW two moments,"
            " momentum one velocity, Adafactor sums by row and column, SGD nothing. None counts no gradient either.",
        ),
    )  # fmt: skip
    precision: Precision = setting(
        Precision.PURE,
        Choice(Precision),
        "of training: pure, weights, gradients and states in the dtype traced (8 bytes a parameter in bf16 with"
        " Adam); mixed, 16-bit weights and gradients beside fp32 masters and states (16 bytes);"
        " mixed-fp32-gradients, gradients added up in fp32 too (18 bytes) (pure)",
        control=Control(
            id="precision", label="Precision", what="Precision of training",
            labels={"pure": "as traced", "mixed": "mixed, 16 B", "mixed-fp32-gradients": "mixed, 18 B"},
            meaning="As traced: weights, gradients and states all in the model's number format. Mixed: 16-bit weights"
            " beside fp32 copies (masters) and fp32 states, 16 bytes a parameter with Adam; 18 with gradients in fp32.",
        ),
    )  # fmt: skip
    stack: Stack = setting(
        Stack.TRACED,
        Choice(Stack),
        "what runs the model where times are estimated: traced counts one kernel an operator and nothing beside; eager,"
        " PyTorch's kernels, casts and sums; compiled, torch.compile's; fused, Megatron-LM's (traced)",
        control=Control(
            id="stack", label="Run by", what="What runs the model", place=RARE, word="Run by",
            labels={"traced": "as traced", "eager": "eager", "compiled": "torch.compile", "fused": "Megatron"},
            meaning="Which kernels an estimate counts. As traced: one an operator. Eager: those that PyTorch launches,"
            " with casts in mixed precision and sums of gradients. torch.compile: pointwise operators joined."
            " Megatron: its fused kernels, and its loss in fp32.",
        ),
    )  # fmt: skip
    mini_batch: int | None = setting(
        None,
        Whole(1, MAX_BATCH),
        "samples per iteration (64, or the batch of the traced example where that is larger)",
        metavar="B",
        control=Control(
            id="mini-batch", label="Mini-batch", what="Mini-batch, samples", shape=NUMBER, whole=True, width=84,
            in_widget=MORE, meaning="Samples between two updates of the parameters.",
        ),
    )  # fmt: skip


@dataclass(frozen=True, init=False)
class PipelineSettings(Group):
    """What is minimised, and how a mini-batch runs through stages.

    contiguity: by default none for one pass of single operators, else acyclic. max_replicas: 0 allows all accelerators.
    recompute: also True for what "stage" says, and False or None for what "model" does. in_sequence: whether operators
    wait for one another in one linear order, which makes every pipeline a sequential one. copy_tied: whether every
    reader of a tied parameter holds a copy of it, in place of sharing a device with the others (inference). pins:
    operator name (or a module path, for all of its operators) -> device index. together: groups of such names, each
    group to be on one device.
    """

    objective: Objective | None = setting(
        None,
        Choice(Objective, optional=True),
        "what to minimise (iteration, or that of the file)",
        control=Control(
            id="objective", label="", what="Objective", word="Objective", width=None, in_widget=MORE,
            labels={
                "auto": "Usual for the model", "iteration": "Iteration time", "max-load": "Max-load (steady state)",
                "makespan": "Makespan (one pass)",
            },
            meaning="What the plan makes small: the time of a training iteration, the busiest device's time per sample"
            " (max-load), or the end of one pass (makespan).",
        ),
    )  # fmt: skip
    contiguity: Contiguity | None = setting(
        None,
        Choice(Contiguity, optional=True),
        "which sets of operators a device may hold: none is any set (acyclic; none for one pass of single operators)",
        control=Control(
            id="contiguity", label="Contiguity", shape=SEGMENTS,
            labels={"auto": "Auto", "acyclic": "Acyclic", "convex": "Convex", "none": "None"},
            meaning="Which sets of operators a GPU may hold. Acyclic: the graph of stages has no cycle, as"
            " pipelines need. Convex: no path leaves a GPU and comes back. None: any set.",
        ),
    )  # fmt: skip
    execution: Execution | None = setting(
        None,
        Choice(Execution, optional=True),
        "how one unsplit pass runs (operator, or that of the file)",
        control=Control(
            id="execution", label="What runs as a unit", shape=SEGMENTS, place=ONE_PASS, term="unit",
            labels={"auto": "auto", "operator": "operator", "call": "stage"},
            meaning="Operators are scheduled one by one, or all of a stage as one call.",
        ),
    )  # fmt: skip
    micro_batches: int | None = setting(
        None,
        Whole(1, MAX_BATCH),
        "split into M (a planner chooses)",
        metavar="M",
        control=Control(
            id="micro-batches", label="Micro-batches", shape=SEGMENTS, place=PIPELINES, term="micro-batch",
            labels={count: count for count in ("auto", "1", "2", "4", "8", "16", "32")}, most=MAX_BATCH,
            in_widget=FIRST_ROW,
            meaning="Equal parts of the mini-batch that go through the pipeline one after another. More of them shorten"
            " the bubble; each is smaller and runs less efficiently.",
        ),
    )  # fmt: skip
    pipeline: Pipeline = setting(
        Pipeline.K_F_K_B,
        Choice(Pipeline),
        "the order in which a device takes its micro-batches: `1f1b` as launchers run it, `kfkb` may keep more in"
        " flight, `zb-v`, `v-half`, `v-min`, `dualpipe-v` have two stages a device in a V, `planner` leaves it open"
        " (kfkb)",
        control=Control(
            id="pipeline", label="", what="Pipeline", place=PIPELINES, word="Order of the pipeline", width=None,
            in_widget=MORE,
            labels={
                "kfkb": "Best order", "1f1b": "1F1B", "gpipe": "GPipe",
                "interleaved": "Interleaved 1F1B", "zero-bubble": "Zero-bubble",
                "zb-v": "ZB-V", "v-half": "V-Half", "v-min": "V-Min", "dualpipe": "DualPipe",
                "dualpipe-v": "DualPipeV", "looped-bfs": "Looped breadth-first",
                "planner": "Best order, backward split",
            },
            meaning="1F1B is what launchers run; the best order keeps more in flight. Interleaved gives each GPU"
            " several stages, zero-bubble fills gaps with weight gradients. In a V, ZB-V holds what 1F1B does, V-Half"
            " and V-Min a half and a third; DualPipe holds parameters twice.",
        ),
    )  # fmt: skip
    max_replicas: int = setting(
        1,
        Whole(1, MAX_DEVICES, every="all"),
        "let a stage run on up to N devices, each with a share of every micro-batch (without N: on all)",
        flag="--replicate",
        metavar="N",
        control=Control(
            id="replicas", label="Replicate stages", what="Replicate stages, on how many GPUs at most", place=PIPELINES,
            labels={"1": "off", "2": "2", "4": "4", "8": "8", "all": "all"}, width=SHORT, in_widget=MORE,
            meaning="Several GPUs run the same stage on parts of each micro-batch (data parallelism), and add their"
            " gradients up at the end.",
        ),
    )  # fmt: skip
    zero: int = setting(
        0,
        Whole(0, ZERO_STAGES[-1], choices=ZERO_STAGES),
        "stage of ZeRO: the replicas of a stage (--replicate) shard optimizer states (1), gradients too (2),"
        " parameters too (3) (0: none)",
        control=Control(
            id="zero", label="ZeRO stage", what="ZeRO stage: what replicas shard", place=PIPELINES,
            labels={"0": "nothing", "1": "ZeRO-1", "2": "ZeRO-2", "3": "ZeRO-3"}, width=WIDE,
            word="ZeRO stage",
            meaning="What the replicas of a stage hold a part of each, rather than all: optimizer states and fp32"
            " copies (1), gradients too (2), parameters too (3). Less memory; 2 and 3 send more.",
        ),
    )  # fmt: skip
    recompute: Recompute = setting(
        Recompute.MODEL,
        Rerun(Recompute, yes=Recompute.STAGE, no=Recompute.MODEL),
        "run forwards again in place of keeping activations (checkpointing): stage (the same without a word:"
        " stages may), layers (every layer that the model repeats does), operators (in these all but products and"
        " fused attention), budget (on each device the operators that its memory asks for), none; without the flag,"
        " model: what the model itself checkpoints",
        control=Control(
            id="recompute", label="Recompute", what="Activations that are recomputed", place=PIPELINES,
            in_widget=MORE, word="Recompute activations",
            labels={
                "model": "as traced", "budget": "to fit", "stage": "stages", "layers": "layers",
                "operators": "cheap ops", "none": "never",
            },
            meaning="Throw saved activations away and compute them again in the backward: less memory, more work."
            " To fit: on each GPU the operators that its memory asks for, cheapest first. Cheap ops: all of a layer but"
            " products and fused attention.",
        ),
    )  # fmt: skip
    offload: bool = setting(
        False,
        Switch(),
        "let stages keep what they save for the backward in their hosts' memory where a device has no room for it",
        control=Control(
            id="offload", label="Offload activations", shape=SWITCH, place=PIPELINES,
            meaning="Where a GPU has no room for what its forward saves, send that to the host's memory and fetch it"
            " before the backward.",
        ),
    )  # fmt: skip
    offload_optimizer: bool = setting(
        False,
        Switch(),
        "keep optimizer states and fp32 masters in the hosts' memory; they come to the device for the update",
        control=Control(
            id="offload-optimizer", label="Offload optimizer", shape=SWITCH, place=PIPELINES,
            meaning="Keep optimizer states and fp32 masters in the host's memory. For the update they come to the GPU"
            " and go back, piece by piece, which takes longer.",
        ),
    )  # fmt: skip
    host_link_bytes_per_s: float | None = setting(
        None,
        RATE,
        "between a device and its host's memory, each way (of its kind: PCIe or NVLink-C2C)",
        name="host_link",
        metavar="RATE",
    )
    mixed_micro_batches: bool = setting(False, Switch(), "let stages differ in the size of their micro-batches")
    in_sequence: bool = setting(
        False,
        Switch(),
        "let operators wait for one another in one linear order, branch after branch: pipelines are sequential",
        control=Control(
            id="in-sequence", label="Linear pipeline", shape=SWITCH, place=PIPELINES, term="sequence",
            meaning="Every stage waits for the one before it, as in systems whose stages form a chain. Off, branches"
            " run side by side.",
        ),
    )  # fmt: skip
    copy_tied: bool = setting(
        False,
        Switch(),
        "let every operator that reads a tied parameter (an embedding that is the head, too) hold a copy of it, in"
        " place of sharing a device; in inference",
    )
    subgraphs_per_device: int | None = setting(
        None,
        Whole(1),
        "most stages of one device in a latency plan: makespan with execution call (any number)",
        flag="--subgraphs",
        metavar="Q",
    )
    pins: Mapping[str, int] = setting(
        {},
        Pins(parse_pin),
        "put an operator, or all of a module, on a device; may be repeated",
        flag="--pin",
        metavar="OPERATOR=DEVICE",
        link="pins",
    )
    together: tuple[tuple[str, ...], ...] = setting(
        (),
        Together(parse_together),
        "keep operators, or all of modules, on one device, whichever it is; may be repeated",
        metavar="NAME,NAME",
        link="together",
    )
    whole: Unit | None = setting(
        None,
        Choice(Unit, optional=True),
        "let no device hold a part of a layer (a numbered member of a module list), or of a module in a layer"
        " (attention, MLP): what launchers that take whole layers can run (operators may part anywhere)",
        control=Control(
            id="whole", label="Keep whole", place=PIPELINES, term="whole", word="Keep whole",
            labels={"auto": "operators", "modules": "modules", "layers": "layers"},
            meaning="What no cut may go through: a whole layer, as Megatron, vLLM and Hugging Face place them, a module"
            " in a layer (attention, MLP), or single operators, so that stages may end inside of a layer.",
        ),
    )  # fmt: skip


@dataclass(frozen=True, init=False)
class SearchSettings(Group):
    """Which planner searches, and for how long."""

    planner: str | Planner = setting(
        "auto",
        Name(),
        "`placement-explorer planners` lists them",
        metavar="NAME[:OPTION=VALUE,...]",
        control=Control(
            id="planner", label="", what="Planner", word="Planner", in_widget=FIRST_ROW,
            meaning="The algorithm that looks for a plan. auto runs several and keeps the best.",
        ),
    )  # fmt: skip
    effort: Effort = setting(
        Effort.NORMAL,
        Choice(Effort),
        "how much work is done, counted, so that the same question gives the same plan anywhere (normal)",
        control=Control(
            id="effort", label="Effort", what="Effort of the search", shape=SEGMENTS, in_widget=MORE,
            labels={effort.value: effort.value for effort in Effort},
            meaning="How much work the search counts before it ends: quick about a seventh of normal, thorough eight"
            " times as much. The same question and effort give the same plan on every machine.",
        ),
    )  # fmt: skip
    time_limit_s: float = setting(
        60.0,
        Number(0.1, MAX_TIME_LIMIT_S, "more than 0 seconds", lambda value: value > 0),
        "seconds that end a search early",
        flag="--time-limit",
        metavar="S",
        link="time_limit",
        control=Control(
            id="time-limit", label="Stop after", what="Time limit in seconds (safety)", shape=NUMBER, width=84,
            least=0.1, most=MAX_TIME_LIMIT_S, suffix="s", default=TIME_LIMIT_S, term="guard", in_widget=MORE,
            meaning="A guard only: most searches end by themselves, by counted work. One that it stops depends on the"
            " machine.",
        ),
    )  # fmt: skip
    gap: float = setting(
        0.0,
        Number(0.0, 1.0, "at least 0 and less than 1", lambda value: 0 <= value < 1),
        "stop within this share of the bound (0)",
        metavar="G",
    )
    seed: int = setting(
        0,
        Whole(0, MAX_SEED),
        "random seed of the search (0)",
        metavar="N",
        control=Control(
            id="seed", label="Seed", shape=NUMBER, whole=True, width=84, least=0, empty="0",
            meaning="Random seed of the search. Another one may find another plan; the same one finds the same.",
        ),
    )  # fmt: skip


@dataclass(frozen=True, init=False)
class Settings(ClusterSettings, MemorySettings, TrainingSettings, PipelineSettings, TracingSettings):
    """All that a problem is made of: one state of the command line's flags or of the page's left rail."""


GROUPS: tuple[type[Group], ...] = (
    TracingSettings, ClusterSettings, MemorySettings, TrainingSettings, PipelineSettings, SearchSettings,
)  # fmt: skip


def declared(*groups: type[Group]) -> tuple[Setting, ...]:
    """The settings of ``groups``, of all by default, in order; without what another setting sets."""
    return tuple(one for group in groups or GROUPS for one in settings_of(group) if one.help)


SETTINGS = {one.name: one for one in declared()}
"""By name."""
