"""Graphs of the demo models, traced before: the page answers at once, without PyTorch.

``python -m explorer.jobs.demo_graphs`` traces them anew; a test says when that is due.
"""

from __future__ import annotations

import gzip
import io
from pathlib import Path

from explorer.files import write_file
from solvers.formats.graph_json import read_graph, write_graph
from solvers.formats.workload import Workload

FOLDER = Path(__file__).parent / "graphs"
MAX_BYTES = 64 * 2**20


SHIPPED = tuple((training, dtype) for training in (True, False) for dtype in (None, "bf16"))
"""Traced of every demo: for training and for inference, in its own dtype and in bf16."""


def traced_before(model: str, training: bool, dtype: str | None) -> Workload | None:
    """The demo as it was traced; None for what was not, and for anything else."""
    place = FOLDER / name_of(model, training, dtype)
    if (training, dtype) not in SHIPPED or not model.replace("-", "_").isidentifier() or not place.is_file():
        return None
    with gzip.open(place, "rb") as file:
        return read_graph(file.read(MAX_BYTES), place.name)


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
    """Write the graphs of every demo."""
    from demo_models import MODELS
    from explorer.question.loading import load

    FOLDER.mkdir(exist_ok=True)
    for model in MODELS:
        for training, dtype in SHIPPED:
            data, name = packed_graph(load(model, training=training, dtype=dtype)), name_of(model, training, dtype)
            write_file(FOLDER / name, data, "packing a demo's graph")
            print(f"{name:40} {len(data):>9,} bytes")


if __name__ == "__main__":
    main()
