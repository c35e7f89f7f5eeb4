"""GraphPipe's case study (section 7.5): two branches of four transformer layers on 8 GPUs."""

from __future__ import annotations

import pytest

from tests.benchmarks.papers.drawing import Line, plot, save
from tests.benchmarks.papers.questions import make_question, transformer, wasted_share
from tests.benchmarks.papers.rivals import PUBLISHED, best, published, searched
from tests.benchmarks.table import show

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(24 * 3600)]

DEVICES, MINI_BATCH = 8, 128
FIXED = (None, 0.0, 1.0, 2.0, 4.0, 8.0)
"""Samples a micro-batch; None is the roofline estimate."""
PAPER = 1.20
"""Throughput over the sequence: half of it from less depth, half from micro-batches of 4 in place of 2."""


def test_two_branches_of_four_on_eight_gpus():
    """Without replicas, which both of the paper's plans have none of. Depth alone: the published search of graphs
    with the sequence's micro-batch."""
    rows, gains = [], []
    for fixed in FIXED:
        problem = make_question(transformer(2, 4), DEVICES, MINI_BATCH, fixed=fixed, replicas=False)
        paper, search = published(problem), searched(problem)
        assert paper.sequence.plan is not None
        size = paper.sequence.plan.stages[0].micro_batch_size
        alone = best(
            [make_question(transformer(2, 4), DEVICES, MINI_BATCH, fixed=fixed, replicas=False, micro_batch=size)],
            PUBLISHED,
        )
        rows.append(
            ("roofline" if fixed is None else f"{fixed:g}",
             f"{wasted_share(problem, 2):.0%}, {wasted_share(problem, 4):.0%}",
             paper.sequence.milliseconds, paper.sequence.shape, paper.graph.milliseconds, paper.graph.shape,
             f"{paper.sequence.seconds / alone.seconds:.2f}", f"**{paper.gain:.2f}**",
             f"{paper.sequence.peak_bytes / 2**30:.2f}, {paper.graph.peak_bytes / 2**30:.2f}",
             search.sequence.milliseconds, search.sequence.shape, search.graph.milliseconds, search.graph.shape,
             f"**{search.gain:.2f}**")
        )  # fmt: skip
        gains.append((paper.gain, search.gain))
        print(*rows[-1], sep=" | ", flush=True)
    show(
        "Two branches of four layers on 8 GPUs, ms an iteration",
        ("fixed cost, samples", "wasted at b=2, 4", "published, sequence", "stages/depth", "published, graph",
         "stages/depth", "depth alone", "gain", "peak GiB, sequence, graph", "best sequence", "stages/depth",
         "graph-pipeline", "stages/depth", "gain"),
        rows, "numba",
    )  # fmt: skip
    save(
        "graphpipe-case-study",
        plot(
            "Two branches of four layers: gain of a graph of stages over a sequence",
            "fixed cost of a micro-batch, samples",
            ["roofline" if fixed is None else f"{fixed:g}" for fixed in FIXED],
            [
                Line("published search", [one for one, _ in gains]),
                Line("graph-pipeline", [one for _, one in gains]),
                Line("paper, measured", [PAPER] * len(FIXED), from_paper=True),
            ],
            least=1.0,
        ),
    )


MINI_BATCHES = (16, 32, 64, 128, 256)


def test_two_branches_of_four_by_mini_batch():
    """The paper does not say which mini-batch it had: the roofline's costs, and the published search on both sides."""
    rows, alone_gains, gains = [], [], []
    for mini_batch in MINI_BATCHES:
        problem = make_question(transformer(2, 4), DEVICES, mini_batch, replicas=False)
        paper = published(problem)
        assert paper.sequence.plan is not None
        size = paper.sequence.plan.stages[0].micro_batch_size
        alone = best(
            [make_question(transformer(2, 4), DEVICES, mini_batch, replicas=False, micro_batch=size)], PUBLISHED
        )
        alone_gains.append(paper.sequence.seconds / alone.seconds)
        gains.append(paper.gain)
        rows.append(
            (mini_batch, paper.sequence.milliseconds, paper.sequence.shape, paper.graph.milliseconds,
             paper.graph.shape, f"{alone_gains[-1]:.2f}", f"**{paper.gain:.2f}**")
        )  # fmt: skip
        print(*rows[-1], sep=" | ", flush=True)
    show(
        "Two branches of four layers on 8 GPUs by mini-batch, published search, ms an iteration",
        ("mini-batch", "sequence", "stages/depth", "graph", "stages/depth", "depth alone", "gain"),
        rows, "numba",
    )  # fmt: skip
    save(
        "graphpipe-mini-batches",
        plot(
            "Two branches of four layers: gain of a graph of stages over a sequence, published search",
            "mini-batch, samples",
            [str(mini_batch) for mini_batch in MINI_BATCHES],
            [
                Line("in all", gains),
                Line("depth alone", alone_gains),
                Line("paper, measured", [PAPER] * len(MINI_BATCHES), from_paper=True),
            ],
            least=1.0,
        ),
    )
