"""``python -m explorer.costs gpt resnet50``: estimated time per sample against the batch, as a table in Markdown."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from demo_models import MODELS
from explorer.costs.devices import DEVICES
from explorer.costs.roofline import estimate
from explorer.words import text
from solvers.problem.graph import Phase

BATCHES = (1, 4, 16, 64, 256)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m explorer.costs", description=__doc__)
    parser.add_argument("models", nargs="+", choices=MODELS, metavar="DEMO")
    parser.add_argument("--device-kind", nargs="+", choices=DEVICES, default=["H100-80GB", "A100-80GB"])
    parser.add_argument("--dtype", nargs="+", choices=("fp32", "bf16", "fp16"), default=["fp32", "bf16"])
    args = parser.parse_args(argv)
    print("| demo | device | dtype | " + " | ".join(f"batch {batch}" for batch in BATCHES) + " |")
    print("|---|---|---|" + "---:|" * len(BATCHES))
    for model in args.models:
        rows = {dtype: seconds_per_sample(model, args.device_kind, dtype) for dtype in args.dtype}
        for kind in args.device_kind:
            for dtype in args.dtype:
                print(f"| {model} | {kind} | {dtype} | " + " | ".join(map(text.seconds, rows[dtype][kind])) + " |")


def seconds_per_sample(model: str, kinds: Sequence[str], dtype: str) -> dict[str, list[float]]:
    """By kind, forward and backward of one sample at each of `BATCHES`: the sum over all operators but updates."""
    from explorer.tracing import trace_demo

    graph = trace_demo(model, dtype=dtype).graph
    counted = np.array([operator.phase is not Phase.UPDATE for operator in graph.operators])
    table = estimate(graph, kinds, dtype)
    at = [table.samples.index(batch) for batch in BATCHES]
    return {
        kind: [float(table.seconds[kind][counted, i].sum()) / batch for i, batch in zip(at, BATCHES, strict=True)]
        for kind in kinds
    }


if __name__ == "__main__":
    main()
