"""What a child process runs, and what it may use."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass

TEMPORARY = "placement-solver-"
"""How the name of a child's folder for temporary files begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """What is the same for all processes of a kind; functions are sent by name, so they stand at the top of a module.

    main: called in the child with its `entry.Channel` and ``arguments``; the child ends when it returns.
    name: shown in lists of processes and threads.
    trusted: messages are pickled. Otherwise they are JSON both ways, so that nothing the child says can run code here.
    quiet: what it prints goes nowhere; otherwise to the standard error of this process.
    own_temporary: it has a folder of its own for temporary files, which goes with it.
    ignored: signals that it ignores from its first moment on; they are its parent's to act on.
    memory_bytes: limit of its data, and of that of each process it starts; 0: none.
    end_s: seconds that it has to end processes of its own, after a cancel that counts its work and at its end.
    heed_s: seconds that it has to end a cancelled task before it is killed.
    """

    main: Callable[..., None]
    name: str
    arguments: tuple[object, ...] = ()
    trusted: bool = False
    quiet: bool = False
    own_temporary: bool = False
    ignored: tuple[signal.Signals, ...] = (signal.SIGINT,)
    memory_bytes: int = 0
    end_s: float = 0.0
    heed_s: float = 2.0
