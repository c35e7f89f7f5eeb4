"""Tracing in a process of its own, which stays warm for the next model and can be ended at any moment.

`torch.export` cannot be interrupted. Who asks waits here, and where the answer is no longer wanted that process alone
is killed. Both ends exchange JSON lines, so that nothing a model's code says can run code in the asking process.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from solvers.errors import InvalidProblem, PlacementError, TraceError
from solvers.formats.graph_json import read_graph, write_graph
from solvers.formats.workload import Workload

ASK_S = 0.05
"""How often it is asked whether to stop."""
TELL_S = 0.25
"""How often the child tells how far it is."""

Progress = Callable[[int, float], None]
"""Given the calls of the forward so far (0 before it begins) and the seconds since the start."""


class Stopped(Exception):
    """Work that ends without an answer: nobody wants it any more, or it is done again later."""


class Tracer:
    """One child process at most, started when first needed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._said: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def trace(
        self,
        model: str,
        training: bool | None,
        dtype: str | None,
        on_progress: Progress,
        should_stop: Callable[[], bool],
        graphs: Path | None = None,
    ) -> Workload:
        """`loading.load` of ``model`` there, graphs of demos in the folder ``graphs``. Raises Stopped soon after
        ``should_stop``, and what `load` raises."""
        child, said = self._started(), self._said
        began = time.perf_counter()
        assert child.stdin is not None
        with suppress(OSError):  # its end is told by its reader
            asked = {"model": model, "training": training, "dtype": dtype}
            child.stdin.write(json.dumps(asked | {"graphs": None if graphs is None else str(graphs)}) + "\n")
            child.stdin.flush()
        calls = 0
        while True:
            if should_stop():
                self.close()
                raise Stopped
            try:
                told = said.get(timeout=ASK_S)
            except queue.Empty:
                on_progress(calls, time.perf_counter() - began)
                continue
            if "calls" in told:
                calls = told["calls"]
            elif "graph" in told:
                return read_graph(told["graph"].encode(), model)
            else:
                if "ended" in told:
                    self.close()
                raise (InvalidProblem if told.get("invalid") else TraceError)(told["failed"])

    def close(self) -> None:
        """End the child and what it has started."""
        child, self._process = self._process, None
        if child is None:
            return
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
        child.kill()
        child.wait()
        if child.stdin is not None:
            with suppress(OSError):
                child.stdin.close()

    def _started(self) -> subprocess.Popen[str]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        self._said = queue.SimpleQueue()
        paths = [os.path.abspath(path) for path in sys.path]  # "" is the folder of now
        self._process = subprocess.Popen(
            [sys.executable, "-m", "explorer.question.tracer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            start_new_session=True,  # a group of its own: killed with all it has started
        )
        threading.Thread(target=_listen, args=(self._process, self._said), daemon=True).start()
        return self._process


def _listen(child: subprocess.Popen[str], said: queue.SimpleQueue[dict[str, Any]]) -> None:
    assert child.stdout is not None
    with child.stdout:
        for line in child.stdout:
            with suppress(ValueError):  # half a line, cut short by a kill
                said.put(json.loads(line))
    said.put({"failed": f"the tracing process ended unexpectedly (exit code {child.wait()})", "ended": True})


def main() -> None:
    """The child: a line in, a model; lines out, how far it is and in the end its graph or what is wrong."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a model prints is not an answer
    asked: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_asked, args=(asked,), daemon=True).start()

    def tell(**said: object) -> None:
        answers.write(json.dumps(said) + "\n")
        answers.flush()

    while True:
        tell(**_answer(asked.get(), tell))


def _asked(asked: queue.SimpleQueue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        asked.put(json.loads(line))
    os._exit(0)  # nobody waits any more


def _answer(request: dict[str, Any], tell: Callable[..., None]) -> dict[str, object]:
    from explorer.question.loading import load

    last_s = 0.0

    def on_call(calls: int) -> None:
        nonlocal last_s
        if time.perf_counter() - last_s >= TELL_S:
            last_s = time.perf_counter()
            tell(calls=calls)

    try:
        graphs = None if request["graphs"] is None else Path(request["graphs"])
        workload = load(
            request["model"], training=request["training"], dtype=request["dtype"], on_call=on_call, graphs=graphs
        )
        return {"graph": write_graph(workload)}
    except PlacementError as error:
        return {"failed": str(error), "invalid": isinstance(error, InvalidProblem)}
    except MemoryError:
        return {"failed": f"{request['model']}: the model is too large for this machine's memory"}


if __name__ == "__main__":
    main()
