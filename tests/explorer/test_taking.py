"""What is done with plans, in Python: reviewed, exported, compared, swept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import explorer
from explorer.exports.formats import FORMATS
from explorer.library.answer import is_known
from explorer.question.settings import Settings
from explorer.reviews.lines import Verdict
from solvers.errors import InvalidProblem
from solvers.plan.result import Result
from tests.explorer.view.small import MIB, chain_workload


def planned(devices: int, planner: str = "equal", memory: float | None = None) -> Result:
    return explorer.plan(chain_workload(), devices, memory, planner, mini_batch=8)


def test_a_result_is_reviewed_exported_and_compared(tmp_path: Path) -> None:
    two, four = planned(2), planned(4)
    assert explorer.review(two).verdict is Verdict.WARN
    path = str(tmp_path / "plan.json")
    content = explorer.export(two, "plan", path)
    assert Path(path).read_bytes() == content
    assert explorer.review(path).plan_sha256 == explorer.review(two).plan_sha256
    compared = explorer.diff(path, four)
    assert 0 < compared.moved_operators < compared.operators
    assert explorer.export(path, "gantt-svg", theme="dark").startswith(b"<svg")


def test_a_sweep_gives_rows_as_they_come() -> None:
    seen: list[object] = []
    rows = explorer.sweep(
        chain_workload(), [1, 2], ["1MiB", 80e9], "equal", settings=Settings(mini_batch=8), on_row=seen.append
    )
    assert tuple(seen) == rows
    assert [(row.point.devices, row.status) for row in rows] == [
        (1, "INFEASIBLE"), (1, "OPTIMAL"), (2, "INFEASIBLE"), (2, "FEASIBLE"),
    ]  # fmt: skip
    assert explorer.review(rows[3].result).verdict is Verdict.WARN  # type: ignore[arg-type]


def test_a_sweep_gives_what_is_known_and_stores_what_is_new(tmp_path: Path) -> None:
    path = tmp_path / "plans.sqlite"
    question = (chain_workload(), [1, 2], ["1MiB", 80e9], "equal")
    plain, first, again, anew = (
        explorer.sweep(*question, settings=Settings(mini_batch=8), **more)
        for more in ({}, {"library": path}, {"library": str(path)}, {"library": path, "search_again": True})
    )
    assert [[row.status for row in rows] for rows in (first, again, anew)] == [[row.status for row in plain]] * 3
    assert [[row.plan for row in rows] for rows in (first, again, anew)] == [[row.plan for row in plain]] * 3
    known = [[is_known(row.result.notes) for row in rows] for rows in (plain, first, again, anew)]
    assert known == [[False] * 4, [False] * 4, [True] * 4, [False] * 4]
    with pytest.raises(InvalidProblem, match="library must be True, False or the path of a file, found int"):
        explorer.sweep(*question, library=7)  # type: ignore[arg-type]


def test_what_is_wrong_with_the_library_is_a_note_of_a_row(tmp_path: Path) -> None:
    (tmp_path / "plans.sqlite").write_text("no library")
    rows = explorer.sweep(chain_workload(), [1, 2], planner="equal", library=tmp_path / "plans.sqlite")
    assert ["no library of plans" in " ".join(row.result.notes) for row in rows] == [True, False]


def test_what_is_no_plan_is_refused_in_one_line() -> None:
    with pytest.raises(InvalidProblem, match="the result has no plan: its status is INFEASIBLE"):
        explorer.review(planned(2, memory=MIB))
    with pytest.raises(InvalidProblem, match=r"expected what explorer\.plan returns.*found int"):
        explorer.review(7)  # type: ignore[arg-type]
    with pytest.raises(InvalidProblem, match="nothing is swept"):
        explorer.sweep(chain_workload())
    with pytest.raises(InvalidProblem, match="there is no format"):
        explorer.export(planned(2), "pdf")


def test_names_are_functions_even_after_their_rooms_are_imported() -> None:
    for module in ("explorer.exports.formats", "explorer.reviews.review", "explorer.sweeps.sweep"):
        __import__(module)
    assert all(callable(getattr(explorer, name)) for name in explorer.__all__)


def test_the_menu_of_formats_needs_none_of_the_heavy_packages() -> None:
    heavy = ("torch", "dash", "plotly", "numba", "networkx", "PIL")
    code = f"import explorer, explorer.exports.formats, sys; print(*[m for m in {heavy!r} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == ""
    assert FORMATS
