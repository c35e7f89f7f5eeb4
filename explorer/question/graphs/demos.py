"""Graphs of the demo models that ship, traced before: they are planned at once, without PyTorch.

``python -m explorer.question.graphs.demos`` traces them again; a test says when that is due.
"""

from __future__ import annotations

import gzip
import io
from pathlib import Path

from explorer.files import write_file
from explorer.question.graphs.traced_by import STATED, holds_still, of_today, stated_text
from solvers.formats.graph_json import read_graph, write_graph
from solvers.formats.workload import Workload

FOLDER = Path(__file__).parent / "traced"
MAX_BYTES = 64 * 2**20


SHIPPED = tuple((training, dtype) for training in (True, False) for dtype in (None, "bf16"))
"""Traced of every demo: for training and for inference, in its own dtype and in bf16."""
NAMES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
"""What is asked for, as a graph calls it."""
FLOATING = frozenset((*NAMES.values(), "float64"))


def in_dtype(workload: Workload, dtype: str) -> Workload | None:
    """The workload as if it had been traced in ``dtype``: the same, if its floating tensors are all of that dtype; None
    if only a trace can tell. Not even bf16 and fp16 follow from one another: PyTorch saves different tensors."""
    dtypes = {tensor.dtype for tensor in workload.graph.tensors} & FLOATING
    return workload if dtypes == {NAMES[dtype]} else None


def traced_before(model: str, training: bool, dtype: str | None, folder: Path = FOLDER) -> Workload | None:
    """The demo as it was traced, also where its own dtype is the one that is asked for; None for what was not, for
    anything else, and for all where the code of a demo, of the tracer or of PyTorch is another one now."""
    shipped = _shipped(model, training, dtype, folder)
    if shipped is None and dtype is not None and (own := _shipped(model, training, None, folder)) is not None:
        return in_dtype(own, dtype)
    return shipped


def _shipped(model: str, training: bool, dtype: str | None, folder: Path) -> Workload | None:
    path = folder / name_of(model, training, dtype)
    if (training, dtype) not in SHIPPED or not model.replace("-", "_").isidentifier() or not path.is_file():
        return None
    if not holds_still(folder / STATED):
        return None
    with gzip.open(path, "rb") as file:
        return read_graph(file.read(MAX_BYTES), path.name)


def name_of(model: str, training: bool, dtype: str | None) -> str:
    """ "gpt.bf16.inference.json.gz"."""
    return f"{model}{f'.{dtype}' if dtype else ''}{'' if training else '.inference'}.json.gz"


def packed_graph(workload: Workload) -> bytes:
    """The same bytes for the same workload, whenever they are made."""
    made = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=made, compresslevel=9, mtime=0) as file:
        file.write(write_graph(workload).encode())
    return made.getvalue()


def main() -> None:
    """Write the graphs of every demo, and in the end by what they were traced."""
    from demo_models import MODELS
    from explorer.tracing import trace_demo

    FOLDER.mkdir(exist_ok=True)
    by = of_today()
    for model in MODELS:
        for training, dtype in SHIPPED:
            data, name = packed_graph(trace_demo(model, training, dtype)), name_of(model, training, dtype)
            write_file(FOLDER / name, data, "packing a demo's graph")
            print(f"{name:40} {len(data):>9,} bytes", flush=True)
    write_file(FOLDER / STATED, stated_text(by), "saying what traced them")


if __name__ == "__main__":
    main()
