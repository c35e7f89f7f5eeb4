"""Ask through the library: what is known is there at once, and what is found is kept. Whatever is wrong with the
library, the answer is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from explorer.library.asked import Asked
from explorer.library.library import Library
from explorer.library.trouble import LibraryTrouble
from solvers.plan.plan import Plan
from solvers.plan.result import Progress, Result
from solvers.planners.solve import named, solve
from solvers.problem.problem import Problem
from solvers.search.effort import Effort
from solvers.search.monitor import ignore, never
from solvers.search.planner import Planner


def unheard(_: str) -> None:
    return None


@dataclass
class Asking:
    """`solve` with a library before and after it: called like that, without its clock.

    path: of the library, opened with the first question; None is none. model: the reference of the model that is asked
    about. fresh: search, even where the answer is known. tell: gets one line for every trouble that the library has;
    after one that is not about a single answer it is let alone. solve: what searches.
    """

    path: Path | None
    model: str = ""
    fresh: bool = False
    tell: Callable[[str], None] = unheard
    solve: Callable[..., Result] = solve
    _library: Library | None = field(default=None, init=False)

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._library is not None:
            self._library.close()
            self._library = None

    def __call__(
        self,
        problem: Problem,
        planner: str | Planner = "auto",
        *,
        start: Plan | None = None,
        time_limit_s: float = 60.0,
        gap: float = 0.0,
        seed: int = 0,
        effort: Effort = Effort.NORMAL,
        should_stop: Callable[[], bool] = never,
        on_progress: Callable[[Progress, Plan | None], None] = ignore,
    ) -> Result:
        """Raises what `solve` does."""
        chosen = named(planner) if isinstance(planner, str) else planner
        asked = Asked(problem, chosen, start, effort, time_limit_s, gap, seed)
        if not self.fresh and (known := self.known(asked)) is not None:
            return known
        result = self.solve(
            problem, chosen, start=start, time_limit_s=time_limit_s, gap=gap, seed=seed, effort=effort,
            should_stop=should_stop, on_progress=on_progress,
        )  # fmt: skip
        self.found(asked, result)
        return result

    def known(self, asked: Asked) -> Result | None:
        """The answer that is there."""
        library = self._opened()
        if library is None:
            return None
        try:
            found = library.find(asked)
        except LibraryTrouble as error:
            self.tell(str(error))
            return None
        return None if found is None else found.result

    def found(self, asked: Asked, result: Result) -> None:
        """Keep an answer."""
        library = self._opened()
        if library is None:
            return
        try:
            library.keep(asked, result, self.model)
        except LibraryTrouble as error:
            self.tell(f"{error}; the answer is not kept")

    def _opened(self) -> Library | None:
        if self._library is None and self.path is not None:
            try:
                self._library = Library(self.path)
            except LibraryTrouble as error:
                self.path = None
                self.tell(f"{error}; so no answer is looked up or kept")
        return self._library
