"""Solve through the library: what is known is there at once, and what is found is kept. Whatever is wrong with the
library, the answer is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from explorer.library.place import LibraryTrouble
from explorer.library.question_key import SearchQuestion, Terms
from explorer.library.rows import ALIKE, worth_keeping
from explorer.words import text
from solvers.errors import PlacementError
from solvers.plan.plan import Plan
from solvers.plan.result import Progress, Result
from solvers.planners.registry import named
from solvers.problem.problem import Problem
from solvers.search.monitor import ignore, never
from solvers.search.planner import Planner

if TYPE_CHECKING:
    from explorer.library.library import Library


NO_SQLITE = "this Python was built without sqlite3, which the library of plans needs"


def discard(_: str) -> None:
    return None


def _solve(
    problem: Problem,
    planner: Planner,
    should_stop: Callable[[], bool],
    on_progress: Callable[[Progress, Plan | None], None],
    **terms: Unpack[Terms],
) -> Result:
    from solvers.planners.solve import solve  # imports bounds and planners, which whoever knows the answer does without

    return solve(problem, planner, should_stop=should_stop, on_progress=on_progress, **terms)


@contextmanager
def noting(
    path: Path | None, model: str, fresh: bool = False
) -> Iterator[tuple[CachedSolver, Callable[[Result], Result]]]:
    """What solves through a library, for whoever has no place for lines but the notes of a result; and what adds
    them there. Folders are not named: whoever reads the notes may be a visitor."""
    lines: list[str] = []

    def note(line: str) -> None:
        lines.append(line if path is None else line.replace(str(path), path.name))

    def noted(result: Result) -> Result:
        notes, lines[:] = tuple(lines), []
        return replace(result, notes=(*result.notes, *notes)) if notes else result

    with CachedSolver(path, model, fresh, note) as solver:
        yield solver, noted


@dataclass
class CachedSolver:
    """`solve` with a library before and after it: called like that, without its clock.

    path: of the library, opened with the first question; None is none. model: the reference of the model in
    question. fresh: search, even where the answer is known. report: gets a line for every trouble that the library has,
    once. solve: what searches.
    """

    path: Path | None
    model: str = ""
    fresh: bool = False
    report: Callable[[str], None] = discard
    solve: Callable[..., Result] = _solve
    _library: Library | None = field(default=None, init=False)
    _reported: set[str] = field(default_factory=set, init=False)

    def __enter__(self) -> CachedSolver:
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
        should_stop: Callable[[], bool] = never,
        on_progress: Callable[[Progress, Plan | None], None] = ignore,
        **terms: Unpack[Terms],
    ) -> Result:
        """Raises what `solve` does."""
        chosen = named(planner) if isinstance(planner, str) else planner
        question = SearchQuestion(problem, chosen, **terms)
        if not self.fresh and (known := self.known(question)) is not None:
            return known
        result = self.solve(problem, chosen, should_stop=should_stop, on_progress=on_progress, **question.terms)
        return self.store(question, result)

    def known(self, question: SearchQuestion) -> Result | None:
        """The answer that is there, in the library or, for whoever has one, among those that ship."""
        if self.path is None:
            return None
        library = self._opened()
        try:
            if library is not None and (stored := library.find(question)) is not None:
                return stored.result
        except LibraryTrouble as error:
            self._report_once(str(error))
        from explorer.library import shipped

        try:
            return shipped.find(question)
        except PlacementError as error:
            self._report_once(f"{error}; it is searched for")
            return None

    def store(self, question: SearchQuestion, result: Result) -> Result:
        """Keep an answer, and give it; where the one that is there is better, with a note that says so."""
        library = self._opened()
        if library is None:
            return result
        try:
            if library.store(question, result, self.model) or not worth_keeping(result):
                return result
            before = library.find(question)
        except LibraryTrouble as error:
            self._report_once(f"{error}; the answer is not kept")
            return result
        if before is None or not (best_s := question.takes_s(before.result)) < question.takes_s(result) * (1 - ALIKE):
            return result
        note = f"the library keeps a better answer, of {text.seconds(best_s)}, {before.listed.since}"
        return replace(result, notes=(*result.notes, note))

    def _report_once(self, line: str) -> None:
        if line not in self._reported:
            self._reported.add(line)
            self.report(line)

    def _opened(self) -> Library | None:
        if self._library is None and self.path is not None:
            try:
                from explorer.library.library import Library

                self._library = Library(self.path)
            except (LibraryTrouble, ImportError) as error:
                self.path = None
                words = NO_SQLITE if isinstance(error, ImportError) else str(error)
                self._report_once(f"{words}; so no answer is looked up or kept")
        return self._library
