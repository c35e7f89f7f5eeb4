"""Launch lines of Megatron-LM."""

from __future__ import annotations

import pytest

from explorer.exports.configurations.megatron import layout_counts, megatron
from explorer.exports.launchers.megatron import layout_text
from solvers.errors import InvalidProblem
from solvers.problem.collectives import Axis
from solvers.problem.problem import Pipeline, Precision

SCRIPT = """#!/bin/bash
# Runs the "175B" parameter model's little sister
GPUS_PER_NODE=8
NUM_NODES=${NUM_NODES:-2}
WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
    --master_addr $MASTER_ADDR
)
MODEL=(--num-layers 32 --hidden-size 4096 --attention-backend auto) # (flash/fused/local)
TRAINING="--micro-batch-size 1 --global-batch-size $((WORLD_SIZE * 4)) --bf16"
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py "${MODEL[@]}" $TRAINING \\
    --tensor-model-parallel-size 4 --pipeline-model-parallel-size=2 --num-layers-per-virtual-pipeline-stage 8 \\
    --sequence-parallel --use-distributed-optimizer --recompute-granularity selective
"""


def test_a_script_becomes_a_configuration() -> None:
    configuration = megatron(SCRIPT, "train.sh")
    assert (configuration.tensor, configuration.pipeline, configuration.chunks, configuration.world) == (4, 2, 2, 16)
    assert (configuration.layers, configuration.counts, configuration.schedule) == (
        32,
        (8, 8, 8, 8),
        Pipeline.INTERLEAVED,
    )
    assert (configuration.dtype, configuration.precision, configuration.zero) == (
        "bf16",
        Precision.MIXED_FP32_GRADIENTS,
        1,
    )
    assert (configuration.recompute, configuration.sequence_parallel) == ("operators", True)
    assert configuration.replicas(None) == 2
    assert configuration.settings(None)["mini_batch"] == 64
    assert configuration.replicas(64) == 8


@pytest.mark.parametrize(
    ("flags", "counts"),
    [
        ("--num-layers 8 --pipeline-model-parallel-size 4", (2, 2, 2, 2)),
        (
            "--num-layers 7 --pipeline-model-parallel-size 4 --account-for-embedding-in-pipeline-split",
            (1, 2, 2, 2),
        ),
        (
            "--num-layers 6 --pipeline-model-parallel-size 4 --account-for-embedding-in-pipeline-split"
            " --account-for-loss-in-pipeline-split",
            (1, 2, 2, 1),
        ),
        ("--num-layers 8 --pipeline-model-parallel-size 3 --decoder-first-pipeline-num-layers 2", (2, 3, 3)),
        (
            "--num-layers 16 --pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 2"
            " --decoder-last-pipeline-num-layers 6 --num-virtual-stages-per-pipeline-rank 2",
            (1, 2, 2, 3, 1, 2, 2, 3),
        ),
        ("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et|(tt|)*2tL'", (1, 2, 2, 1)),
    ],
)
def test_layers_of_every_stage(flags: str, counts: tuple[int, ...]) -> None:
    assert megatron(flags, "f").counts == counts


@pytest.mark.parametrize("counts", [(1,), (3, 2), (5, 12, 0, 7)])
def test_a_layout_that_is_written_is_read(counts: tuple[int, ...]) -> None:
    assert layout_counts(layout_text(list(counts)), "f") == counts


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("echo hello", "no flag of Megatron-LM"),
        (
            "--num-layers 8 --tensor-model-parallel-size $TP",
            r"size is \$TP, which the file does not set",
        ),
        ("--num-layers eight", "--num-layers must be a whole number"),
        ("--num-layers -8", "--num-layers must be a whole number"),
        ("--num-layers", "--num-layers must be a whole number"),
        ("--num-layers 8 --context-parallel-size 2 --expert-model-parallel-size 4", "context 2 and expert 4: a group"),
        ("--num-layers 8 --expert-tensor-parallel-size 2", "matrices of an expert are whole"),
        ("--num-layers 7 --pipeline-model-parallel-size 2", "Megatron-LM wants a multiple of 2 layers, found 7"),
        ("--num-layers 8 --optimizer muon", "--optimizer muon: only adam, sgd"),
        ("--num-layers 8 --num-layers-per-virtual-pipeline-stage 3", "8 layers are no multiple of 3"),
        (
            "--num-layers 8 --pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 9",
            "-1 layers cannot be shared",
        ),
        ("--num-layers 8 --pipeline-model-parallel-layout Exy", "'Exy' in the layout is not made of E, t, m and L"),
        ("--num-layers 8 --pipeline-model-parallel-layout '(tt'", "parentheses do not close"),
        ("--num-layers 8 --pipeline-model-parallel-layout '((((t)*9999)*9999)*9999)*9999'", "too long"),
    ],
)
def test_what_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidProblem, match=why):
        megatron(text, "f")


def test_contexts_and_experts_are_read_as_groups() -> None:
    tokens = megatron("--num-layers 8 --context-parallel-size 4 --pipeline-model-parallel-size 2", "f")
    assert (tokens.axes, tokens.members, tokens.replicas(16)) == ({Axis.CONTEXT: 4}, 4, 2)
    experts = megatron("--num-layers 8 --expert-model-parallel-size 4 --micro-batch-size 2 --global-batch-size 64", "f")
    assert (experts.axes, experts.members, experts.replicas(16)) == ({Axis.EXPERT: 4}, 4, 4)
    assert experts.group_micro_batch == 8
    assert experts.settings(16)["mini_batch"] == 64
    assert experts.words(16).startswith("expert 4, pipeline 1, data 4, micro-batches of 8")
    both = megatron("--num-layers 8 --context-parallel-size 2 --tensor-model-parallel-size 4", "f")
    assert (both.axes, both.members, both.replicas(16)) == ({Axis.CONTEXT: 2, Axis.TENSOR: 4}, 8, 2)
    assert both.words(16).startswith("context 2 x tensor 4, pipeline 1, data 2")
