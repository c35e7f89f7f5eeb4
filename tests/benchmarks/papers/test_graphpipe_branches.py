"""GraphPipe's figure 7, left: the gain on CANDLE-Uno by the number of its branches."""

from __future__ import annotations

import os

import pytest

from tests.benchmarks.papers.drawing import Line, plot, save
from tests.benchmarks.papers.questions import make_question, uno, wasted_share
from tests.benchmarks.papers.rivals import data_parallel, published, searched
from tests.benchmarks.table import show

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(24 * 3600)]

DEVICES = (4, 8, 16)
BRANCHES = (2, 4, 8, 16)
SAMPLES = tuple(int(n) for n in os.environ.get("BENCHMARK_SAMPLES", "16,128").split(","))
"""A GPU; the paper's mini-batches are in a picture (table of A.2)."""


def test_gain_by_branches():
    """Replicas allowed; roofline. The wasted share is that of the micro-batch that graph-pipeline takes."""
    for samples in SAMPLES:
        gains_with(samples)


def gains_with(samples: int) -> None:
    rows, gains = [], {}
    for devices in DEVICES:
        for branches in BRANCHES:
            problem = make_question(uno(branches), devices, samples * devices)
            paper, search = published(problem), searched(problem)
            rows.append(
                (devices, branches, f"{wasted_share(problem, search.graph.smallest):.0%}", paper.sequence.milliseconds,
                 paper.sequence.shape, paper.graph.milliseconds, paper.graph.shape, f"**{paper.gain:.2f}**",
                 search.sequence.milliseconds, search.sequence.shape, search.graph.milliseconds, search.graph.shape,
                 f"**{search.gain:.2f}**", data_parallel(problem).milliseconds)
            )  # fmt: skip
            gains[devices, branches] = search.gain
            print(*rows[-1], sep=" | ", flush=True)
    show(
        f"CANDLE-Uno with 2 to 16 branches, {samples} samples a GPU, ms an iteration",
        ("GPUs", "branches", "wasted", "published, sequence", "stages/depth", "published, graph",
         "stages/depth", "gain", "best sequence", "stages/depth", "graph-pipeline", "stages/depth", "gain",
         "data-parallel"),
        rows, "numba",
    )  # fmt: skip
    save(
        f"graphpipe-branches-{samples}",
        plot(
            f"CANDLE-Uno, {samples} samples a GPU: gain of graph-pipeline over the best sequence",
            "branches",
            [str(branches) for branches in BRANCHES],
            [Line(f"{devices} GPUs", [gains[devices, b] for b in BRANCHES]) for devices in DEVICES],
            least=1.0,
        ),
    )
