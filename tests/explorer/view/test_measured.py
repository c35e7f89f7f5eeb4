"""What the page shows of a run: bars over bars, errors as colours, and a statement that adds up."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest

from explorer.measured import compare_run, comparison_object
from explorer.runner.bundles.outcome import Agreement, Environment
from explorer.view import measured_panel
from explorer.view.graph import errors
from explorer.view.graph.elements import expanded_to, graph_view
from explorer.view.graph.palette import SURFACES, THEMES, contrast
from explorer.view.graph.skeleton import skeleton
from explorer.view.timeline import measured_gantt
from solvers.evaluation.simulation import simulate
from solvers.problem.graph import Phase
from tests.explorer.measured.measured_runs import run_of, slowed
from tests.explorer.view.small import chain_problem, chain_workload, even_plan

NAMES = ["GPU 0", "GPU 1", "GPU 2", "GPU 3"]
PROBLEM = chain_problem()
PLAN = even_plan(PROBLEM)
SLOW = {(1, o): 2.0 for o in PLAN.stages[1].operators} | {
    (2, o): 0.5 for o in PLAN.stages[2].operators if PROBLEM.graph.operators[o].phase is Phase.FORWARD
}
"""Stage 1 takes twice as long, the forward of stage 2 half as long."""
SLOWED = slowed(PROBLEM, SLOW, {(0, 1): 3.0})
PEAKS = simulate(PROBLEM, PLAN).peak_bytes()
RUN = replace(
    run_of(SLOWED, PLAN, more_s=1e-3),
    peak_bytes=tuple(peak * more for peak, more in zip(PEAKS, (1.0, 1.1, 1.0), strict=False)),
    noise=0.012,
    agreement=Agreement(1e-12, 3e-10, 0.0, "blocks.0.weight", "float64"),
    environment=Environment(("h",) * 4, ("Xeon",) * 4, "gloo", "2.13.0", "3.11", 1, "2026-11-21", True),
)
WAITING = replace(
    RUN,
    actions=tuple(replace(a, wait_s=1e-4) if a.action == "1F0" else a for a in RUN.actions),
)
COMPARISON = comparison_object(compare_run(PROBLEM, PLAN, WAITING))
SKELETON = skeleton(chain_workload())


def lanes(figure: dict, of: str) -> list[dict]:
    return [lane for lane in figure["lanes"] if lane["of"] == of]


@pytest.mark.parametrize("theme", THEMES)
def test_predicted_bars_lie_above_measured_ones_on_one_time_axis(theme):
    drawn = measured_gantt.figure(COMPARISON, NAMES, theme)
    predicted, measured = (lanes(drawn, of) for of in ("predicted", "measured"))
    assert sum(len(t["at"]) for t in predicted) == sum(len(t["at"]) for t in measured) == 4 * 2 * 8
    assert {round(t["y"] % 1, 2) for t in predicted} == {0.8}
    assert {round(t["y"] % 1, 2) for t in measured} == {0.2}
    assert {t["opacity"] for t in predicted} == {measured_gantt.PALE}
    ends = [start + long for t in measured for start, long in zip(t["from"], t["long"], strict=True)]
    assert max(ends) == pytest.approx((COMPARISON["drawn_s"] - 1e-3) * 1e3, abs=1e-4)  # in ms
    assert drawn["axis"]["end"] == pytest.approx(COMPARISON["drawn_s"] * 1e3 * 1.005)
    assert len(measured_gantt.run_rows(COMPARISON, NAMES).rows) == 4
    json.dumps(drawn, allow_nan=False)


def test_lanes_of_one_device_do_not_overlap():
    assert 2 * measured_gantt.LANE_OFFSET >= measured_gantt.LANE_HEIGHT
    assert measured_gantt.LANE_OFFSET + measured_gantt.LANE_HEIGHT / 2 < 0.5


def test_a_dashed_line_marks_where_the_prediction_ends():
    mark = measured_gantt.figure(COMPARISON, NAMES, "light")["mark"]
    assert mark["words"].startswith("predicted end ")
    assert mark["at"] == pytest.approx(COMPARISON["predicted_s"] * 1e3)


def test_a_measured_bar_says_what_was_predicted_and_the_other_way_round():
    drawn = measured_gantt.figure(COMPARISON, NAMES, "light")
    by_name = {lane["name"]: lane for lane in drawn["lanes"]}
    assert "measured 9.6 ms · predicted 4.8 ms (+100 %)" in by_name["GPU 1 forward, measured"]["words"][0]
    assert "waited 100 µs before" in by_name["GPU 1 forward, measured"]["words"][0]
    assert "as predicted" in by_name["GPU 0 forward, measured"]["words"][0]
    above = by_name["GPU 1 forward, predicted"]["words"][0]
    assert re.search(r"predicted 4\.8 ms · measured 9\.6 ms", above)


def test_waiting_is_drawn_just_before_the_action_that_waited():
    drawn = measured_gantt.figure(COMPARISON, NAMES, "dark")
    (wait,) = lanes(drawn, "wait")
    bars = COMPARISON["bars"]["measured"]
    (bar,) = (i - len(COMPARISON["bars"]["predicted"]["device"]) for i in wait["at"])
    assert (bars["device"][bar], bars["kind"][bar], bars["micro_batch"][bar]) == (1, "F", 0)
    assert wait["from"][0] + wait["long"][0] == pytest.approx(bars["start_s"][bar] * 1e3, abs=1e-5)
    assert wait["hatch"]["shape"] == "/"


def test_a_run_alone_has_its_lanes_in_the_middle_of_the_rows():
    drawn = measured_gantt.figure(COMPARISON, NAMES, "light", both=False)
    assert {lane["of"] for lane in drawn["lanes"]} == {"measured", "wait"}
    assert {lane["y"] % 1 for lane in drawn["lanes"]} == {0}
    assert max(i for lane in drawn["lanes"] for i in lane["at"]) < len(COMPARISON["bars"]["measured"]["device"])


def test_the_table_twin_tells_both_times():
    rows = measured_gantt.table(COMPARISON, NAMES, limit=2)
    assert len(rows) == 2
    assert rows[0]["what"] == "forward, segment 0, micro-batch 0"
    assert rows[0]["off"] == "as predicted"


@pytest.mark.parametrize(
    ("ratio", "name"),
    [(1.0, "error8"), (1.05, "error8"), (2.0, "error12"), (4.0, "error16"), (9.0, "error16"), (0.5, "error4"),
     (0.25, "error0"), (0.01, "error0"), (0.0, "error0"), (math.inf, "error16"), (None, errors.NONE),
     (math.nan, errors.NONE)],
)  # fmt: skip
def test_a_ratio_has_a_class_on_a_logarithmic_scale(ratio, name):
    assert errors.class_of(ratio) == name


@pytest.mark.parametrize("theme", THEMES)
def test_every_shade_can_be_read_and_distinguished_from_its_opposite(theme):
    shades = {shade["class"]: shade for shade in errors.shades(theme)}
    assert len(shades) == errors.SHADES + 1
    for shade in shades.values():
        assert contrast(shade["text"], shade["fill"]) >= 4.0
        assert shade["border"] != shade["fill"]
    ends = shades["error0"]["fill"], shades["error16"]["fill"]
    for end in ends:
        assert contrast(end, shades["error8"]["fill"]) >= 2.5
    fast, slow = (tuple(int(end[i : i + 2], 16) for i in (1, 3, 5)) for end in ends)
    assert fast[2] > fast[0]  # blue
    assert slow[0] > slow[2]  # orange
    fills = [shade["fill"] for shade in errors.shades(theme)[:-1]]
    assert len(set(fills)) == errors.SHADES


@pytest.mark.parametrize("theme", THEMES)
def test_the_middle_is_the_quietest_shade_on_its_page(theme):
    ground = SURFACES[theme].background
    *scale, none = errors.shades(theme)
    assert min(scale, key=lambda shade: contrast(shade["fill"], ground))["class"] == "error8"
    assert none["border_style"] == "dashed"
    assert {shade["border_style"] for shade in scale} == {"solid"}


def test_the_legend_names_whole_octaves():
    shown = errors.legend("light")
    assert [stop["label"] for stop in shown["stops"] if stop["label"]] == ["¼×", "½×", "1×", "2×", "4×"]
    assert len(shown["stops"]) == errors.SHADES
    assert shown["none"]["label"] == "no measurement"


def test_boxes_have_the_error_of_their_operators_together():
    view = graph_view(SKELETON, expanded_to(SKELETON, 2))
    shown = errors.box_errors(view, COMPARISON)
    by_label = {view.labels[name]: shown["classes"][name] for name in view.boxes}
    # Blocks 0 and 1 are on GPU 0, 2 and 3 on GPU 1; forward of 4 and 5 is halved: 0.5 x 1/3 + 1 x 2/3.
    assert by_label["blocks.0"] == "error8"
    assert by_label["blocks.2"] == errors.class_of(2.0)
    assert by_label["blocks.4"] == errors.class_of(5 / 6)
    assert shown["labels"][next(n for n in view.boxes if view.labels[n] == "blocks.2")] == "2×"
    assert set(shown["titles"]) == set(view.boxes)


def test_a_box_without_a_measurement_is_grey():
    view = graph_view(SKELETON, expanded_to(SKELETON, 2))
    unknown = {**COMPARISON, "operators": [None] * len(COMPARISON["operators"])}
    shown = errors.box_errors(view, unknown)
    assert set(shown["classes"].values()) == {errors.NONE}
    assert shown["labels"] == {}
    assert errors.table(view, SKELETON, unknown) == []


def test_the_worst_box_comes_first_in_the_table():
    view = graph_view(SKELETON, expanded_to(SKELETON, 2))
    rows = errors.table(view, SKELETON, COMPARISON)
    assert [row["name"] for row in rows[:2]] == ["blocks.2", "blocks.3"]
    assert rows[0]["ratio"] == "2×"
    assert rows[0]["how"] == "from its segment"


def made(measured_s: float, predicted_s: float, *parts_s: float) -> dict:
    """A comparison object of nothing but the headline's figures."""
    parts = dict(zip(("operators", "links", "schedule"), parts_s, strict=True))
    return {
        "measured_s": measured_s,
        "predicted_s": predicted_s,
        "errors": {key: {"s": s, "share": s / measured_s} for key, s in parts.items()},
    }


def test_the_statement_adds_up():
    assert (
        measured_panel.statement(made(0.112, 0.098, 0.009, 0.001, 0.004))
        == "Measured 112 ms, predicted 98 ms: operators +9 ms, links +1 ms, schedule +4 ms"
    )


@pytest.mark.parametrize("seed", range(40))
def test_the_statement_adds_up_whatever_is_rounded(seed):
    import random

    rng = random.Random(seed)
    predicted = rng.uniform(1e-4, 100)
    parts = [rng.uniform(-0.3, 0.5) * predicted for _ in range(3)]
    shown = measured_panel.statement(made(predicted + sum(parts), predicted, *parts))
    numbers = [float(n.replace("−", "-").replace(",", "")) for n in re.findall(r"[−+]?[\d.,]*\d", shown)]
    assert numbers[0] == pytest.approx(sum(numbers[1:]), abs=1e-9)
    assert len(set(re.findall(r" (s|ms|µs|ns)\b", shown))) == 1


def test_the_panel_tells_everything_as_text():
    shown = measured_panel.panel(COMPARISON, NAMES)
    json.dumps(shown, allow_nan=False)
    assert shown["statement"].startswith("Measured ")
    assert [part["key"] for part in shown["parts"]] == ["operators", "links", "schedule"]
    assert sum(part["width"] for part in shown["parts"]) == pytest.approx(1)
    assert re.fullmatch(
        r"Fed with measured times, the simulation is 0\.4 % too short; each iteration with its own, 0\.4 % too short\.",
        shown["fed"],
    )
    assert shown["agreement"] == {
        "text": "Agrees with the whole model in one process: loss 1e-12, gradients 3e-10, parameters 0 (float64)",
        "tone": "good",
    }
    assert shown["noise"]["text"] == "Quiet machine: a fixed piece of work varied by 1.2 %"
    assert shown["where"] == "4 ranks on Xeon (1 host), gloo, torch 2.13.0, 1 thread each, pinned"
    assert [row["device"] for row in shown["memory"]] == NAMES
    assert [row["off"] for row in shown["memory"]] == ["as predicted", "+10 %", "as predicted", "–"]
    assert shown["busy"][1]["off"] == "+100 %"
    assert shown["busy"][1]["waited"] == "100 µs"
    assert ("GPU 0 → GPU 1", "3×") in [(row["link"], row["ratio"]) for row in shown["links"]]
    for columns, rows in (
        (measured_panel.MEMORY, "memory"),
        (measured_panel.BUSY, "busy"),
        (measured_panel.LINKS, "links"),
    ):
        assert {key for key, _ in columns} == set(shown[rows][0])


@pytest.mark.parametrize(
    ("gradient", "dtype", "tone"),
    [(2e-9, "float64", "bad"), (1e-6, "float32", "good"), (2e-4, "float32", "bad"), (1e-2, "bfloat16", "good"),
     (None, "float32", "bad")],
)  # fmt: skip
def test_agreement_depends_on_the_dtype(gradient, dtype, tone):
    given = {"loss": 0.0, "gradient": gradient, "parameter": 0.0, "worst": "w", "dtype": dtype, "way": "stages",
             "undefined": 0}  # fmt: skip
    shown = measured_panel.agreement(given)
    assert shown["tone"] == tone
    assert ("worst in w" in shown["text"]) is (tone == "bad")
    assert "the model computed stage after stage: " in shown["text"]


def test_values_that_are_no_numbers_in_both_are_no_good_agreement():
    given = {"loss": 0.0, "gradient": 0.0, "parameter": 0.0, "worst": "", "dtype": "float32", "way": "whole"}
    shown = measured_panel.agreement(given | {"undefined": 4})
    assert shown["tone"] == "bad"
    assert shown["text"].endswith("4 are no finite numbers, alike in both")


def test_a_run_that_was_not_verified_says_nothing_of_agreement():
    assert measured_panel.agreement(None) is None
