"""GraphPipe's figure 6 with little memory, as in the paper ("close to the memory limit", A.2): the transformer."""

from __future__ import annotations

import pytest

from tests.benchmarks.papers.drawing import Line, plot, save
from tests.benchmarks.papers.questions import make_question, transformer, wasted_share
from tests.benchmarks.papers.rivals import data_parallel, searched
from tests.benchmarks.table import show

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(24 * 3600)]

CELLS = ((4, 4), (4, 8), (16, 4))
"""GiB a GPU, and GPUs. The parameters, gradients and Adam's states of the whole model are 6.1 GiB."""
FIXED = (2.0, None)
"""Samples a micro-batch; None is the roofline estimate."""
PAPER = {4: 1.15, 8: 1.28}
SIZE = 4


def test_gain_by_memory_and_fixed_cost():
    """Replicas allowed on both sides."""
    rows, gains = [], {}
    for memory, devices in CELLS:
        for fixed in FIXED:
            problem = make_question(
                transformer(4, 8), devices, 16 * devices, fixed=fixed, memory_bytes=memory * 2.0**30
            )
            search, same = searched(problem), data_parallel(problem)
            rows.append(
                (memory, devices, "roofline" if fixed is None else f"{fixed:g}", f"{wasted_share(problem, SIZE):.0%}",
                 search.sequence.milliseconds, search.sequence.shape, search.graph.milliseconds, search.graph.shape,
                 f"**{search.gain:.2f}**", same.milliseconds, f"{PAPER[devices]:.2f}")
            )  # fmt: skip
            gains[memory, devices, fixed] = search.gain
            print(*rows[-1], sep=" | ", flush=True)
    show(
        "Multi-modal transformer, replicas allowed, ms an iteration",
        ("GiB a GPU", "GPUs", "fixed cost, samples", f"wasted at b={SIZE}", "best sequence", "stages/depth",
         "graph-pipeline", "stages/depth", "gain", "data-parallel", "paper"),
        rows, "numba",
    )  # fmt: skip
    save(
        "graphpipe-memory",
        plot(
            "Multi-modal transformer: gain of graph-pipeline over the best sequence",
            "fixed cost of a micro-batch, samples",
            ["roofline" if fixed is None else f"{fixed:g}" for fixed in FIXED],
            [
                *(
                    Line(f"{n} GPUs of {memory} GiB", [gains[memory, n, fixed] for fixed in FIXED])
                    for memory, n in CELLS
                ),
                *(Line(f"paper, {n} GPUs", [PAPER[n]] * len(FIXED), from_paper=True) for n in PAPER),
            ],
            least=1.0,
        ),
    )
