"""One row: a model traced for training, and its products against torch's own counter."""

from __future__ import annotations

import resource
import sys
import time

import torch
from torch._subclasses import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from explorer.question.loading import load
from explorer.question.models.example import split_example
from explorer.question.models.libraries import make_of_library
from explorer.tracing.capture import quiet
from explorer.tracing.fake import fake_inputs, fake_module
from explorer.tracing.flops import PRODUCTS
from solvers.errors import PlacementError
from solvers.problem.graph import Phase


def counted(name: str) -> float:
    """FLOPs of one forward by torch's counter, on fake tensors, with attention as its two products."""
    model, example = split_example(name)
    module, inputs, _ = make_of_library(model, example, training=True)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    twin = fake_module(module, mode, training=True, dtype=None)
    _, by_name = fake_inputs(inputs, mode, None)
    counter = FlopCounterMode(display=False)
    with quiet(), mode, counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        twin(**by_name)
    return float(counter.get_total_flops())


def row(name: str) -> str:
    """Of the table of Markdown."""
    begun = time.process_time()
    try:
        workload = load(name)
    except PlacementError as error:
        return f"| {name} | | | | | | | {str(error).replace('|', '/')[:260]} |"
    seconds = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    forward = [o for o in workload.graph.operators if o.phase is Phase.FORWARD]
    products = sum(o.flops.at(workload.graph.samples) for o in forward if o.op_type in PRODUCTS)
    try:
        shown = f"{products / (counted(name) or float('nan')) - 1:+.2%}"
    except Exception as error:
        shown = f"did not run ({type(error).__name__})"
    notes = "; ".join(note for note in workload.notes if "tied" not in note and "share a device" not in note)
    return (
        f"| {name} | {seconds:.1f} | {peak:.2f} | {len(workload.graph):,} ({len(forward):,}) |"
        f" {workload.parameters:,} | {products / 1e9:,.2f} | {shown} | {notes[:200]} |"
    )


if __name__ == "__main__":
    print(row(sys.argv[1]))
