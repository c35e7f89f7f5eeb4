"""Graphs of demos that were traced here, with a batch or a precision that does not ship: kept in a folder of the
user's, by all that makes them. A folder that cannot be read or written costs a trace, and nothing else."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from contextlib import suppress
from pathlib import Path

from explorer.files import write_file
from explorer.question.graphs.demos import MAX_BYTES, packed_graph
from explorer.question.graphs.traced_by import traced_here
from solvers.errors import PlacementError
from solvers.formats.graph_json import read_graph
from solvers.formats.workload import Workload

MOST = 64
"""Graphs in a folder: those that were not asked for for longest go first."""
ENDING = ".graph.json.gz"
_DAMAGED = (OSError, EOFError, zlib.error, PlacementError)


def find(folder: Path, model: str, training: bool, dtype: str | None, members: str = "") -> Workload | None:
    """What was traced here of a demo, with what is said of its example ("gpt,batch=8"), by the code of today. What is
    there and is no such graph is removed. members: by whose times it is divided, "" for those of no plan."""
    path = _path(folder, model, training, dtype, members)
    try:
        with gzip.open(path, "rb") as file:
            workload = read_graph(file.read(MAX_BYTES), path.name)
        if (workload.reference, workload.training) != (model, training):
            raise PlacementError("the graph of another model")
    except FileNotFoundError:
        return None
    except _DAMAGED:
        with suppress(OSError):
            path.unlink()
        return None
    with suppress(OSError):
        os.utime(path)
    return workload


def store(folder: Path, workload: Workload, dtype: str | None, members: str = "") -> None:
    """Store what `find` is to find. dtype: as it was asked for."""
    path = _path(folder, workload.reference, workload.training, dtype, members)
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(path, packed_graph(workload), "keeping a graph", mode=0o600)
        paths = sorted(folder.glob(f"*{ENDING}"), key=lambda path: path.stat().st_mtime)
        for old in paths[:-MOST]:
            old.unlink()


def _path(folder: Path, model: str, training: bool, dtype: str | None, members: str) -> Path:
    key = json.dumps([model, training, dtype, traced_here(), *filter(None, [members])])
    return folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}{ENDING}"
