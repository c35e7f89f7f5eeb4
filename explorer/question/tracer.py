"""Tracing in a process of its own, which stays warm for the next model and can be ended at any moment.

`torch.export` cannot be interrupted. Who asks waits here, and where the answer is no longer wanted that process alone
is killed. Nothing a model's code says can run code in the asking process (`ProcessSpec.trusted`).
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from explorer.question.nodes.groups import ANY_MEMBERS, Members
from solvers.errors import InvalidProblem, PlacementError, TraceError
from solvers.formats.graph_json import read_graph, write_graph
from solvers.formats.workload import Workload
from solvers.programs.processes.entry import Channel
from solvers.programs.processes.process import ChildProcess
from solvers.programs.processes.spec import ProcessSpec

LOOK_S = 0.05
"""How often it is asked whether to stop."""
PROGRESS_S = 0.25
"""How often the child sends how far it is."""

Progress = Callable[[int, float], None]
"""Given the calls of the forward so far (0 before it begins) and the seconds since the start."""


class Stopped(Exception):
    """Work that ends without an answer: nobody wants it any more, or it is done again later."""


class Tracer:
    """One child process at most, started when first needed."""

    def __init__(self) -> None:
        self.process: ChildProcess | None = None

    def trace(
        self,
        model: str,
        training: bool | None,
        dtype: str | None,
        on_progress: Progress,
        should_stop: Callable[[], bool],
        graphs: Path | None = None,
        members: Members = ANY_MEMBERS,
    ) -> Workload:
        """`loading.load` of ``model`` there, graphs of demos in the folder ``graphs``, divided by the times of
        ``members``. Raises Stopped soon after ``should_stop``, and what `load` raises."""
        began = time.perf_counter()
        request = {"model": model, "training": training, "dtype": dtype, "graphs": graphs and str(graphs),
                   "members": asdict(members)}  # fmt: skip
        process = self._started()
        process.send(("start", model, request))
        calls = 0
        while True:
            if should_stop():
                self.close()
                raise Stopped
            ended = process.exit_code is not None
            try:
                kind, *content = process.inbox.get(timeout=LOOK_S)
            except queue.Empty:
                on_progress(calls, time.perf_counter() - began)
                if ended:
                    self.close()
                    raise TraceError(
                        f"the tracing process ended unexpectedly (exit code {process.exit_code})"
                    ) from None
                continue
            event = content[1] if kind == "event" else {}
            if "calls" in event:
                calls = event["calls"]
            elif "graph" in event:
                return read_graph(event["graph"].encode(), model)
            elif "failed" in event:
                raise (InvalidProblem if event["invalid"] else TraceError)(event["failed"])

    def close(self) -> None:
        """End the child and what it has started."""
        process, self.process = self.process, None
        if process is not None:
            process.close()

    def _started(self) -> ChildProcess:
        if self.process is None or self.process.exit_code is not None:
            self.close()
            self.process = ChildProcess(SPEC)
        return self.process


def main(channel: Channel) -> None:
    """The child: `Channel.serve`. A payload names a model; out, as ("event", model, ...), how far it is and in the end
    its graph or what is wrong."""

    def work(model: str, request: dict[str, Any]) -> bool:
        channel.send("event", model, _answer(request, lambda calls: channel.send("event", model, {"calls": calls})))
        return True

    channel.serve(work)


def _answer(request: dict[str, Any], on_progress: Callable[[int], None]) -> dict[str, object]:
    from explorer.question.loading import load

    last_s = 0.0

    def on_call(calls: int) -> None:
        nonlocal last_s
        if time.perf_counter() - last_s >= PROGRESS_S:
            last_s = time.perf_counter()
            on_progress(calls)

    try:
        graphs = None if request["graphs"] is None else Path(request["graphs"])
        workload = load(
            request["model"],
            training=request["training"],
            dtype=request["dtype"],
            on_call=on_call,
            graphs=graphs,
            members=Members(**request["members"]),
        )
        return {"graph": write_graph(workload)}
    except PlacementError as error:
        return {"failed": str(error), "invalid": isinstance(error, InvalidProblem)}
    except MemoryError:
        return {"failed": f"{request['model']}: the model is too large for this machine's memory", "invalid": False}


SPEC = ProcessSpec(main=main, name="placement-tracer")
