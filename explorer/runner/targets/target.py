"""What a target is: something that runs a plan, and reports its progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol

from explorer.runner.bundles.outcome import Outcome
from explorer.runner.bundles.request import RunRequest
from explorer.runner.bundles.words import Name
from solvers.formats.records import Within

MAX_COUNT = 10**9


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run is: ``done`` of ``of`` in a phase ("measuring"); 0 of 0 where that is not known.

    line: a line of the log, without its end; phase, done and of are then those reported last. stall: which rank stands
    still, or that none does any more, where that has just changed.
    """

    phase: Name
    done: Annotated[int, Within(0, MAX_COUNT)] = 0
    of: Annotated[int, Within(0, MAX_COUNT)] = 0
    line: str = ""
    stall: str = ""


OnProgress = Callable[[RunProgress], None]


class Target(Protocol):
    """Runs plans somewhere."""

    @property
    def name(self) -> str: ...

    def run(
        self,
        plan_text: str,
        request: RunRequest,
        ranks: int,
        folder: Path,
        on_progress: OnProgress,
        should_stop: Callable[[], bool],
    ) -> Outcome:
        """Run the plan of ``folder``, a bundle that holds ``plan_text`` and ``request``, on ``ranks`` processes.

        Blocks until it has ended; nothing of it runs afterwards. A run that fails, is cancelled (``should_stop``
        is asked several times a second) or runs out of time is an Outcome that says so. Raises RunError where
        the target cannot be asked at all, and InvalidProblem for a request that it cannot meet.
        """
        ...
