"""A launch line of Megatron-LM as a configuration.

Flags: megatron-core 0.16.1 and its megatron/training/arguments.py. Names of ranks: tensor first, then data, then
pipeline ("tp-cp-ep-dp-pp", core/parallel_state.py), so that the replicas of a stage follow one another. Layouts:
core/transformer/pipeline_parallel_layer_layout.py, as `explorer.exports.launchers.megatron` writes them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from explorer.exports.configurations.configuration import MOST, Configuration, even_counts, whole_number
from explorer.exports.configurations.shell_words import words_of
from solvers.errors import InvalidProblem
from solvers.problem.problem import Pipeline, Precision

IGNORED = ("--use-torch-fsdp2", "--use-megatron-fsdp", "--num-experts", "--cpu-offloading-num-layers", "--fp8-format")
"""Flags that change a run's times or memory and are not planned here."""
MAX_LAYOUT = 100_000
"""Characters of a layout once its repetitions are written out."""
KNOWN = ("--num-layers", "--tensor-model-parallel-size", "--pipeline-model-parallel-size")
"""A file of Megatron-LM has one of these."""
Flags = dict[str, str | None]
UNIT = re.compile(r"(?P<kind>[EtLm])(?:\*(?P<times>\d{1,4}))?")


def megatron(text: str, path: str) -> Configuration:
    """The configuration of a script or of a list of arguments, as torchrun or a scheduler starts it.

    text: of the file. path: for messages. Raises InvalidProblem, in one line with the flag, where a value is missing,
    is set outside of the file, or asks for what is not planned here.
    """
    flags = _flags(words_of(text, path))
    if (parts := _number(path, flags, "--expert-tensor-parallel-size", 1) or 1) > 1:
        raise InvalidProblem(f"{path}: --expert-tensor-parallel-size {parts}: matrices of an expert are whole here")
    if not any(flag in flags for flag in KNOWN):
        raise InvalidProblem(f"{path}: no flag of Megatron-LM in it, such as {KNOWN[0]} or {KNOWN[1]}")
    pipeline = _number(path, flags, "--pipeline-model-parallel-size", 1)
    layers = _number(path, flags, "--num-layers", None)
    counts, chunks = _stages(path, flags, pipeline, layers)
    if counts:
        layers = sum(counts)
    mixed = Precision.MIXED_FP32_GRADIENTS if "--bf16" in flags else Precision.MIXED
    dtype = "bf16" if "--bf16" in flags else "fp16" if "--fp16" in flags else "fp32"
    return Configuration(
        launcher="Megatron-LM",
        path=path,
        tensor=_number(path, flags, "--tensor-model-parallel-size", 1) or 1,
        context=_number(path, flags, "--context-parallel-size", 1) or 1,
        expert=_number(path, flags, "--expert-model-parallel-size", 1) or 1,
        pipeline=pipeline or 1,
        chunks=chunks,
        micro_batch=_number(path, flags, "--micro-batch-size", 1) or 1,
        mini_batch=_number(path, flags, "--global-batch-size", None),
        layers=layers,
        counts=counts,
        schedule=Pipeline.INTERLEAVED if chunks > 1 else Pipeline.ONE_F_ONE_B,
        recompute=_recompute(flags),
        dtype=dtype,
        precision=Precision.PURE if dtype == "fp32" else mixed,
        zero=1 if "--use-distributed-optimizer" in flags else 0,
        optimizer=_one_of(path, flags, "--optimizer", {"adam": "adamw", "sgd": "momentum"}),
        sequence_parallel="--sequence-parallel" in flags,
        world=_world(path, flags),
        ignored=tuple(flag for flag in IGNORED if flag in flags),
    )


def _flags(words: Sequence[str]) -> Flags:
    """Flag -> its value, None without one; the last of several counts. Underscores in torchrun's flags are hyphens."""
    flags: dict[str, str | None] = {}
    for position, word in enumerate(words):
        if not word.startswith("--") or len(word) < 3:
            continue
        name, _, value = word.partition("=")
        after = words[position + 1] if position + 1 < len(words) else "--"
        flags[name.replace("_", "-")] = value or (None if after.startswith("--") else after)
    return flags


def _number(path: str, flags: Flags, flag: str, usual: int | None) -> int | None:
    if flag not in flags:
        return usual
    value = flags[flag]
    if value is not None and "$" in value:
        raise InvalidProblem(f"{path}: {flag} is {value[:60]}, which the file does not set; write the number in")
    return whole_number(path, flag, value)


def _one_of(path: str, flags: Flags, flag: str, known: dict[str, str]) -> str | None:
    value = flags.get(flag)
    if flag not in flags:
        return None
    if value not in known:
        raise InvalidProblem(f"{path}: {flag} {value}: only {', '.join(known)} are planned here")
    return known[value]


def _world(path: str, flags: Flags) -> int | None:
    """Processes that torchrun starts; None where the file does not say, or leaves it to the machine."""
    each, nodes = flags.get("--nproc-per-node"), flags.get("--nnodes", "1")
    if each is None or nodes is None or not each.isdigit() or not nodes.isdigit():
        return None
    return whole_number(path, "--nproc-per-node", each) * whole_number(path, "--nnodes", nodes)


def _recompute(flags: Flags) -> str:
    granularity = flags.get("--recompute-granularity")
    if granularity == "full":
        return "layers"
    return "operators" if granularity == "selective" or "--recompute-activations" in flags else "none"


def _stages(path: str, flags: Flags, pipeline: int | None, layers: int | None) -> tuple[tuple[int, ...], int]:
    """Layers of every stage (empty for an even split without a number of layers), and stages of each rank."""
    ranks = pipeline or 1
    layout = flags.get("--pipeline-model-parallel-layout")
    if layout is not None:
        counts = layout_counts(layout, path)
        if len(counts) % ranks:
            raise InvalidProblem(
                f"{path}: a layout of {len(counts)} stages for pipeline {ranks}; it must be a multiple"
            )
        return counts, len(counts) // ranks
    chunks = _number(path, flags, "--num-virtual-stages-per-pipeline-rank", None) or 1
    each = _number(path, flags, "--num-layers-per-virtual-pipeline-stage", None)
    if each is not None and layers is not None:
        if layers % (each * ranks):
            raise InvalidProblem(
                f"{path}: {layers} layers are no multiple of {each} a virtual stage x pipeline {ranks}"
            )
        chunks = layers // (each * ranks)
    if layers is None:
        return (), chunks
    first = _number(path, flags, "--decoder-first-pipeline-num-layers", None)
    last = _number(path, flags, "--decoder-last-pipeline-num-layers", None)
    ends = (
        int("--account-for-embedding-in-pipeline-split" in flags),
        int("--account-for-loss-in-pipeline-split" in flags),
    )
    if first is None and last is None:
        if (layers + sum(ends)) % (ranks * chunks):
            raise InvalidProblem(f"{path}: Megatron-LM wants a multiple of {ranks * chunks} layers, found {layers}")
        return tuple(even_counts(path, layers, ranks * chunks, ends)), chunks
    return _uneven(path, layers, ranks, chunks, first, last), chunks


def _uneven(path: str, layers: int, ranks: int, chunks: int, first: int | None, last: int | None) -> tuple[int, ...]:
    """Layers of every stage where the first and last ranks have their own number."""
    between = ranks - (first is not None) - (last is not None)
    rest = layers - (first or 0) - (last or 0)
    if rest < 0 or (between == 0) != (rest == 0) or (between and rest % between):
        raise InvalidProblem(f"{path}: {rest} layers cannot be shared by the {between} ranks between first and last")
    of_rank = ([] if first is None else [first]) + [rest // between] * between + ([] if last is None else [last])
    if any(count % chunks for count in of_rank):
        raise InvalidProblem(f"{path}: {of_rank} layers a rank are no multiples of {chunks} virtual stages")
    return tuple(count // chunks for _ in range(chunks) for count in of_rank)


def layout_counts(layout: str, path: str) -> tuple[int, ...]:
    """Layers of every stage: "Et*3|ttL" -> (3, 2). Raises InvalidProblem where it is no layout or has no layers."""
    counts = []
    for stage in _unrolled(layout.replace(",", ""), path).split("|"):
        if UNIT.sub("", stage):
            raise InvalidProblem(f"{path}: {stage[:40]!r} in the layout is not made of E, t, m and L")
        counts.append(sum(int(match["times"] or 1) for match in UNIT.finditer(stage) if match["kind"] == "t"))
    if len(counts) > MOST or not sum(counts):
        raise InvalidProblem(f"{path}: the layout {layout[:40]!r} has no layers")
    return tuple(counts)


def _unrolled(layout: str, path: str) -> str:
    """With "(tt|)*3" written out."""
    for _ in range(8):
        match = re.search(r"\(([^()]*)\)\*(\d{1,4})", layout)
        if match is None or len(layout) + len(match[1]) * int(match[2]) > MAX_LAYOUT:
            break
        layout = layout[: match.start()] + match[1] * int(match[2]) + layout[match.end() :]
    if len(layout) > MAX_LAYOUT or "(" in layout:
        raise InvalidProblem(f"{path}: the layout is too long or its parentheses do not close")
    return layout
