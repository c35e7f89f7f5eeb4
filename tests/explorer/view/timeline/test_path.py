"""The critical path of a schedule that can be counted by hand, and of larger ones."""

import pytest

from explorer.view.timeline import gantt_rows, path, why
from explorer.view.timeline.lanes import endpoints
from solvers.evaluation.simulation import simulate
from solvers.plan.schedule import MemoryCurve, Span
from tests.explorer.view.lattice import lattice_problem, operator_plan
from tests.explorer.view.test_operators import view
from tests.oracle.schedules import schedule_of_spans

NAMES = ["GPU 0", "GPU 1"]
CURVES = (MemoryCurve((0.0,), (0.0,), 0.0),) * 2
BY_HAND = schedule_of_spans(
    (
        Span("0F0", "device 0", 0, 0.0, 0.006, operator=0),
        Span("0F0>1", "0->1", 0, 0.006, 0.007, 1024.0, to_device=1),
        Span("1F0", "device 1", 1, 0.007, 0.0095, operator=1),
        Span("2F0", "device 0", 0, 0.006, 0.008, operator=2),
        Span("3F0", "device 1", 1, 0.0095, 0.01, operator=3),
    ),
    CURVES,
    (0, 1, 2, 4),
)


def test_a_step_is_made_of_compute_and_transfers():
    shown = [(part.kind, part.device, part.resource, part.seconds) for part in path.path_parts(BY_HAND)]
    assert shown == [
        ("compute", 0, "", 0.006),
        ("compute", 1, "", pytest.approx(0.003)),
        ("transfer", -1, "0->1", pytest.approx(0.001)),
    ]
    words = path.sentence(path.path_parts(BY_HAND), BY_HAND.makespan_s, NAMES)
    assert words == "Step 10 ms = GPU 0 compute 60 % + GPU 1 compute 30 % + transfer GPU 0 → 1 10 %"


def test_what_nothing_explains_is_waiting():
    spans = (Span("0F0", "device 0", 0, 0.001, 0.002, operator=0),)
    parts = path.path_parts(schedule_of_spans(spans, CURVES, (0,)))
    assert {part.kind: part.seconds for part in parts} == {"waiting": 0.001, "compute": 0.001}


def test_the_longest_spans_come_first():
    ends = [(0, 0), (0, 1), (1, 1), (2, 2), (3, 3)]
    shown = path.heaviest(BY_HAND, ends)
    assert [(heavy.operator, heavy.kind) for heavy in shown] == [(0, "F"), (1, "F"), (0, "T")]
    assert path.heavy_words(shown[2], NAMES) == "1 KiB to GPU 1"


def test_shares_read_the_same_however_many_are_named():
    parts = [(f"p{i}", share) for i, share in enumerate((0.333, 0.333, 0.114, 0.1, 0.07, 0.05))]
    short, long = path.summed(parts, 2), path.summed(parts, 4)
    assert short[:2] == long[:2]
    assert sum(percent for _, percent in short) == sum(percent for _, percent in long) == 100
    assert short[-1][0] == "4 others"
    assert len(path.summed(parts, 5)) == 6


@pytest.mark.parametrize(("devices", "shared"), [(2, False), (4, False), (4, True)])
def test_the_parts_add_up_to_the_makespan(devices, shared):
    problem = lattice_problem(devices, shared=shared)
    schedule = simulate(problem, operator_plan(problem))
    assert sum(part.seconds for part in path.path_parts(schedule)) == pytest.approx(schedule.makespan_s)
    reasons = why.explain(view(problem))
    assert reasons["headline"].startswith("Step ")
    assert sum(int(part["text"].removesuffix(" %")) for part in reasons["parts"]) == 100
    assert len(reasons["heaviest"]) == 3


def test_the_path_is_drawn_from_start_to_end_in_the_rows_it_passes():
    problem = lattice_problem()
    shown = view(problem)
    path = shown["path"]
    assert path["start_s"][0] == 0.0
    assert path["end_s"][-1] == shown["span_s"]
    assert all(a <= b * (1 + 1e-9) for a, b in zip(path["end_s"], path["start_s"][1:], strict=False))
    rows = gantt_rows.rows_of(shown, "auto", "auto")
    places = gantt_rows.path_rows(rows, shown)
    assert all(bool(rows.rows[row].links) == (link >= 0) for row, link in zip(places, path["link"], strict=True))
    beside = gantt_rows.path_rows(gantt_rows.rows_of(shown, "auto", "off"), shown)
    assert set(beside) <= set(range(4))


def test_every_span_of_the_path_is_in_one_of_its_runs():
    problem = lattice_problem()
    plan = operator_plan(problem)
    schedule = simulate(problem, plan)
    shown = view(problem)["path"]
    seconds = sum(end - start for start, end in zip(shown["start_s"], shown["end_s"], strict=True))
    assert seconds == pytest.approx(schedule.makespan_s)
    assert shown["steps"] == len(schedule.critical) == len([endpoints(schedule)[i] for i in schedule.critical])
