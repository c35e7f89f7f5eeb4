"""Rows of a comparison: their order, the bound they share, and what cannot be true."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.view.comparison import (
    FAILED,
    UNSUPPORTED,
    Row,
    best_bound_s,
    cells,
    contradictions,
    family_story,
    left_out,
    ranked,
    table,
)
from explorer.view.figures import Figures

PLAN = Row("a", "acyclic", "exact", "paper", "FEASIBLE", bound_s=4e-3, runtime_s=1.0)
FIGURES = Figures(question="?", graph="g", objective="iteration", mini_batch=1, objective_s=None)


def row(planner, objective_s=10e-3, bound_s=0.0, contiguity="acyclic", status="FEASIBLE", runtime_s=1.0, **more):
    numbers = {name: more.pop(name) for name in ("max_load_s", "peak_bytes") if name in more}
    return replace(
        PLAN,
        planner=planner,
        figures=None if objective_s is None else replace(FIGURES, objective_s=objective_s, **numbers),
        bound_s=bound_s,
        contiguity=contiguity,
        status=status,
        runtime_s=runtime_s,
        **more,
    )


def names(rows):
    return [entry.row.planner for entry in ranked(rows)]


def test_rows_come_by_objective_and_those_without_a_plan_last():
    rows = [
        row("unsupported", None, status=UNSUPPORTED, runtime_s=None),
        row("none", None, status="NO_PLAN"),
        row("slow", 12e-3),
        row("best", 10e-3),
    ]
    assert names(rows) == ["best", "slow", "none", "unsupported"]
    assert [entry.best for entry in ranked(rows)] == [True, False, False, False]
    assert [entry.place for entry in ranked(rows)] == [3, 2, 1, 0]


def test_among_equals_the_quicker_is_first_and_all_are_best():
    rows = [row("slow", runtime_s=5.0), row("quick", 10e-3 * (1 + 1e-12), runtime_s=0.1), row("worse", 10.1e-3)]
    assert names(rows) == ["quick", "slow", "worse"]
    assert [entry.best for entry in ranked(rows)] == [True, True, False]


def test_every_gap_is_to_the_best_bound_that_anybody_proved():
    rows = [row("exact", 10e-3, 10e-3), row("heuristic", 12.5e-3, 1e-3)]
    assert [entry.gap for entry in ranked(rows)] == pytest.approx([0.0, 0.2])
    assert {entry.bound_s for entry in ranked(rows)} == {10e-3}


def test_a_bound_holds_for_stricter_contiguities_only():
    rows = [
        row("a", bound_s=3e-3),
        row("b", bound_s=2e-3, contiguity="convex"),
        row("c", bound_s=1e-3, contiguity="none"),
    ]
    assert [best_bound_s(rows, c) for c in ("acyclic", "convex", "none")] == [3e-3, 2e-3, 1e-3]
    rows = [row("a", bound_s=1e-3), row("c", bound_s=3e-3, contiguity="none")]
    assert [best_bound_s(rows, c) for c in ("acyclic", "convex", "none")] == [3e-3, 3e-3, 3e-3]


def test_contiguities_are_listed_strictest_first_with_the_best_of_each():
    rows = [row("a", 8e-3, contiguity="none"), row("a", 10e-3, contiguity="convex"), row("a", 10e-3), row("b", 11e-3)]
    assert [(e.row.contiguity, e.best) for e in ranked(rows)] == [
        ("acyclic", True),
        ("acyclic", False),
        ("convex", True),
        ("none", True),
    ]
    assert family_story(rows) == "acyclic 10 ms, convex 10 ms (equal), none 8 ms (−20 %)"
    assert family_story(rows[2:]) == ""


def test_claims_that_cannot_all_be_true_are_reported():
    assert contradictions([row("a", 10e-3, 10e-3), row("b", 11e-3, 9e-3)]) == []
    assert "a (acyclic) proves a bound" in contradictions([row("a", 10e-3, 10e-3), row("b", 9e-3)])[0]
    strict = [row("a", 10e-3, 10e-3), row("b", 9e-3, contiguity="none")]
    assert contradictions(strict) == []
    assert "no plan fits" in contradictions([row("a", None, status="INFEASIBLE"), row("b")])[0]


def test_a_table_shows_every_column_in_one_unit():
    rows = [row("a", 10e-3, 10e-3, max_load_s=1.25e-3, peak_bytes=2**30), row("b", 123.456e-3, 1e-3)]
    shown = cells(ranked(rows))
    assert [s["objective"] for s in shown] == ["10.000 ms", "123.456 ms"]
    assert [s["bound"] for s in shown] == ["10.000 ms", "1.000 ms"]
    assert [s["gap"] for s in shown] == ["0 %", "91.9 %"]
    assert (shown[0]["max-load"], shown[0]["peak"], shown[1]["max-load"]) == ("1.25 ms", "1 GiB", "–")


def test_why_a_search_ended_is_stated_where_it_is_not_the_usual_end():
    shown = cells(
        ranked(
            [
                row("a", stop_reason="TIME_LIMIT"),
                row("b", status="OPTIMAL", stop_reason="FINISHED"),
                row("c", None, status="NO_PLAN", stop_reason="CANCELLED"),
                row("d", None, status=FAILED, reason="broke", runtime_s=None),
            ]
        )
    )
    assert [s["status"] for s in shown] == ["feasible, time limit", "optimal", "no plan, cancelled", "failed"]


def test_those_left_out_for_one_reason_are_listed_together():
    out = {"objective_s": None, "status": UNSUPPORTED, "runtime_s": None}
    rows = [
        row("a"),
        row("a", contiguity="none"),
        row("b", **out, reason="it is\nround"),
        row("b", contiguity="none", **out, reason="it is round"),
        row("c", contiguity="none", **out, reason="it is round"),
        row("d", **(out | {"status": FAILED}), reason="a wheel came off"),
    ]
    assert left_out(rows) == [
        {"planners": "b, c (none)", "status": "unsupported", "reason": "it is round"},
        {"planners": "d (acyclic)", "status": "failed", "reason": "a wheel came off"},
    ]
    assert [expected["cells"]["planner"] for expected in table(rows, ("a", "none"))] == ["a", "a"]
    assert [expected["current"] for expected in table(rows, ("a", "none"))] == [False, True]
