"""A constraint program at work in a child process, seen from the planner."""

from __future__ import annotations

import time
from typing import Any, Self

from solvers.programs.background import Background
from solvers.search.monitor import Monitor

LOOK_EVERY_S = 0.03
"""How often a planner looks at what the solver has told."""


class CPSearch:
    """CP-SAT in a process of its own; plans and bounds go to the monitor when looked for.

    task and payload: as `Background` takes them. A subclass says in `hear` what a message means.
    """

    def __init__(self, task: str, payload: dict[str, Any], monitor: Monitor) -> None:
        self.monitor = monitor
        self.child = Background(task, payload)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.child.error is not None:
            self.monitor.note(f"the constraint program ended early: {self.child.error}")
        self.child.close()

    @property
    def done(self) -> bool:
        """Whether the child has ended and its messages are dealt with."""
        return self.child.done

    def look(self) -> None:
        """Deal with what the child has told meanwhile; does not wait."""
        for message in self.child.poll():
            self.hear(message)

    def wait(self) -> None:
        """Wait a moment, and look; raises Stop as ``monitor.check`` does."""
        self.monitor.check()
        time.sleep(LOOK_EVERY_S)
        self.look()

    def hear(self, message: dict[str, Any]) -> None:
        """Deal with one message."""
        raise NotImplementedError
