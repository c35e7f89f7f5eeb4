"""A solver in a process of its own, so that it can be stopped at once.

Solvers written in C++ answer an interrupt only between certain steps, up to seconds apart. Here such a solver runs in a
child process and is killed when its answer is no longer wanted.
"""

from __future__ import annotations

import importlib
import queue
from collections.abc import Callable
from types import TracebackType
from typing import Any

from solvers.programs.processes.entry import Channel
from solvers.programs.processes.process import ChildProcess
from solvers.programs.processes.spec import ProcessSpec

Message = dict[str, Any]
Send = Callable[[Message], None]
Receive = Callable[[], list[Message]]

TASKS = {
    "mip": "solvers.programs.mip:run",
    "cover-bound": "solvers.bounds.cover.bound:run",
    "partition": "solvers.programs.metis:run",
    "latency-positions": "solvers.latency.positions:run",
    "max-load": "solvers.noncontiguous.max_load_program:run",
    "joint-pass": "solvers.joint.exact.cp_program:run",
}
"""What a child can do: task -> module:function, a function ``run(payload, send, receive) -> None``.

send gives the parent a message, from any thread. receive returns the messages that came meanwhile;
it does not wait.
"""


class Background:
    """One task in a child process; its constructor does not wait for the child to start.

    Messages are dicts that JSON can carry; numpy arrays and numbers are sent as lists and numbers.
    Close it when done (it is a context manager): that kills the child and all it has started.
    """

    def __init__(self, task: str, payload: Message) -> None:
        if task not in TASKS:
            raise ValueError(f"there is no background task {task!r}; there are: {', '.join(sorted(TASKS))}")
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._error: str | None = None
        self._returned = False
        self.process = ChildProcess(SPEC, self._received)
        self.process.send(("start", task, payload))

    def poll(self) -> list[Message]:
        """The messages that came since the last call; does not wait."""
        messages = []
        while not self._inbox.empty():
            messages.append(self._inbox.get())
        return messages

    def send(self, message: Message) -> None:
        """Give the child a message; does not wait. Silently dropped if the child has ended."""
        self.process.send(("message", message))

    @property
    def done(self) -> bool:
        """Whether the child has ended, well or not, and every message of it has been polled."""
        return self.process.exit_code is not None and self._inbox.empty()

    @property
    def error(self) -> str | None:
        """Once `done`: what went wrong in the child, in one line, or None. None while it runs."""
        if self.process.exit_code is None:
            return None
        if self._returned:
            return self._error
        return f"the solver process ended unexpectedly (exit code {self.process.exit_code})"

    def close(self) -> None:
        """Kill the child and all it has started, and wait for their end. Harmless when repeated."""
        self.process.close()

    def __enter__(self) -> Background:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _received(self, message: list[Any]) -> None:
        kind, content = message
        if kind == "message":
            self._inbox.put(content)
        else:
            self._returned, self._error = True, content


def main(channel: Channel) -> None:
    """The child: run the task of the first message. Out: ("message", content), and ("end", what went wrong or None)."""
    first = channel.next()
    if first is None:
        return
    _, task, payload = first
    error = None
    try:
        module, function = TASKS[task].split(":")
        run = getattr(importlib.import_module(module), function)
        run(
            payload,
            lambda message: channel.send("message", message),
            lambda: [message for _, message in channel.receive()],
        )
    except Exception as problem:
        error = " ".join(f"{type(problem).__name__}: {problem}".split())
    channel.send("end", error)


SPEC = ProcessSpec(main=main, name="placement-solver", quiet=True, own_temporary=True)
