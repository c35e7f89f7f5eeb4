"""Llama-3-70B as a graph of its embedding, blocks and head: the sizes of its parameters, and nothing else.

``python -m tests.solvers.problem.llama_graph llama70b.json`` writes it, for the commands in docs/memory.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from solvers.formats.graph_json import write_graph
from solvers.formats.workload import Workload
from solvers.problem.cluster import Device, uniform_cluster
from solvers.problem.graph import Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import ComputeTable, Precision, Problem

WIDTH, LAYERS, WORDS, KEYS, INNER = 8192, 80, 128_256, 8 * 128, 28_672
EMBEDDING = WORDS * WIDTH
BLOCK = 2 * WIDTH * WIDTH + 2 * WIDTH * KEYS + 3 * WIDTH * INNER + 2 * WIDTH
LAST = WIDTH + WORDS * WIDTH
PARAMETERS = EMBEDDING + LAYERS * BLOCK + LAST
"""Embedding, blocks (attention of 64 heads that read 8, gated products, two norms), norm and head."""


def llama(gpus: int, zero: int, precision: Precision) -> Problem:
    """An operator for the embedding, each block, and norm with head; 2 bytes a parameter."""
    sizes = [EMBEDDING, *[BLOCK] * LAYERS, LAST]
    count = len(sizes)
    forward = [Operator(f"o{i}", param_bytes=2.0 * size) for i, size in enumerate(sizes)]
    backward = [Operator(f"o{i}'", phase=Phase.BACKWARD_WEIGHT, forward_of=i) for i in range(count)]
    tensors = [Tensor(i, (i + 1,), dtype="bfloat16") for i in range(count - 1)]
    tensors += [Tensor(count + i + 1, (count + i,)) for i in range(count - 1)]
    tensors += [Tensor(i, (count + i,)) for i in range(count)]
    graph = OpGraph((*forward, *backward), tuple(tensors))
    cluster = uniform_cluster(tuple(Device(f"GPU {i}", "gpu", 80e9) for i in range(gpus)), 450e9)
    table = ComputeTable((1,), {"gpu": np.ones((2 * count, 1))})
    return Problem(
        graph, cluster, table, mini_batch=64, micro_batches=1, max_replicas=gpus, precision=precision, zero=zero
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(write_graph(Workload(llama(1, 0, Precision.PURE).graph, "llama70b")))
