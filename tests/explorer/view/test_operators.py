"""A schedule of single operators: every span is kept, what is drawn can be seen, and links and readers are listed."""

from dataclasses import replace
from functools import cache

import pytest

from explorer.view.graph.elements import expanded_to, graph_view
from explorer.view.graph.inspect import box_facts, device_facts, operator_facts
from explorer.view.graph.skeleton import skeleton
from explorer.view.graph.stage_boxes import stage_boxes
from explorer.view.plan_view import plan_view
from explorer.view.session import Look
from explorer.view.timeline import gantt_rows, why
from explorer.view.timeline.bars import COLUMNS
from explorer.view.timeline.lanes import endpoints, lane_label, link_uses
from explorer.view.timeline.operator_bars import OperatorWords, drawn
from explorer.view.timeline.shapes import lanes
from explorer.web.parts import panels
from explorer.web.redraw import drawing
from solvers.evaluation.simulation import simulate
from solvers.planners.check import check
from solvers.problem.problem import Transfers
from tests.explorer.view.lattice import lattice_problem, lattice_workload, operator_plan

SMALL = (4, 4, 3, 4)
LARGE = (4, 20, 6, 6)
NAMES = ["GPU 0", "GPU 1", "GPU 2", "GPU 3"]


def view(problem, plan=None):
    plan = plan or operator_plan(problem)
    end = simulate(problem, plan).makespan_s
    return plan_view(problem, plan, planner="hand", objective_s=end, bound_s=end / 2)


@cache
def large():
    return view(lattice_problem(*LARGE))


PROBLEM = lattice_problem(*SMALL)
PLAN = operator_plan(PROBLEM)
SCHEDULE = simulate(PROBLEM, PLAN)
VIEW = view(PROBLEM)
WHOLE = (0.0, SCHEDULE.makespan_s)


def test_the_instances_hold():
    assert check(PROBLEM, PLAN) == ()


def test_every_span_is_kept_with_its_operator():
    columns = VIEW["bars"]
    assert len(columns["device"]) == len(SCHEDULE.spans)
    assert VIEW["all_spans"]
    ran = sorted(o for o, kind in zip(columns["operator"], columns["kind"], strict=True) if kind != "T")
    assert ran == list(range(len(PROBLEM.graph)))


def test_a_transfer_tells_who_sends_and_who_reads_it_first():
    graph, start = PROBLEM.graph, {s.operator: s.start_s for s in SCHEDULE.spans if s.operator >= 0}
    place = {o: devices[0] for o, devices in PLAN.placement().items()}
    seen = 0
    for span, (sender, reader) in zip(SCHEDULE.spans, endpoints(SCHEDULE), strict=True):
        if not span.is_transfer:
            continue
        seen += 1
        assert place[sender] == span.device
        there = {c for t in graph.outputs[sender] for c in graph.tensors[t].consumers if place[c] == span.to_device}
        assert reader in there
        assert start[reader] == min(start[c] for c in there) >= span.end_s
    assert seen > 20


def test_zoomed_out_narrow_neighbours_are_runs_that_lose_no_time():
    picture = large()
    columns = picture["bars"]
    shown, merged = drawn(columns, (0.0, picture["span_s"]))
    assert merged
    assert len(shown["device"]) < len(columns["device"]) / 2
    assert sum(shown["spans"]) == len(columns["device"])
    for device in range(4):
        ends = [
            max(e for d, e, kind in zip(b["device"], b["end_s"], b["kind"], strict=True) if d == device and kind != "T")
            for b in (columns, shown)
        ]
        assert ends[0] == ends[1]


def test_a_run_is_of_one_lane_and_does_not_mix_forward_with_backward():
    picture = large()
    kinds = {
        o: kind for o, kind in zip(picture["bars"]["operator"], picture["bars"]["kind"], strict=True) if kind != "T"
    }
    shown, _ = drawn(picture["bars"], (0.0, picture["span_s"]), most=40)
    forward_end = max(
        e for o, e in zip(picture["bars"]["operator"], picture["bars"]["end_s"], strict=True) if kinds.get(o) == "F"
    )
    runs = [i for i, kind in enumerate(shown["kind"]) if kind == "F"]
    assert runs
    assert max(shown["end_s"][i] for i in runs) <= forward_end
    assert {shown["kind"][i] for i in range(len(shown["kind"]))} <= set("FBIWUT")


def test_zoomed_in_every_operator_in_sight_is_a_bar():
    picture = large()
    columns, end = picture["bars"], picture["span_s"]
    window = (end * 0.5, end * 0.52)
    shown, merged = drawn(columns, window)
    assert not merged
    inside = [
        i
        for i in range(len(columns["device"]))
        if columns["start_s"][i] < window[1] and columns["end_s"][i] > window[0]
    ]
    bars = set(zip(*(shown[name] for name in COLUMNS), strict=True))
    assert {tuple(columns[name][i] for name in COLUMNS) for i in inside} <= bars


@pytest.mark.parametrize("most", [100, 500])
def test_never_more_bars_than_the_limit(most):
    picture = large()
    shown, _ = drawn(picture["bars"], (0.0, picture["span_s"]), most)
    assert len(shown["device"]) <= most


def test_links_are_listed_with_what_they_carry():
    uses = link_uses(SCHEDULE, NAMES)
    moves = [span for span in SCHEDULE.spans if span.is_transfer]
    assert sum(use["transfers"] for use in uses) == len(moves)
    assert sum(use["nbytes"] for use in uses) == pytest.approx(sum(span.nbytes for span in moves))
    assert uses[0]["label"] == "GPU 0 → 1"
    shared = link_uses(*(lambda p: (simulate(p, operator_plan(p)), NAMES))(lattice_problem(*SMALL, shared=True)))
    assert [(use["label"], len(use["senders"])) for use in shared] == [("PCIe root", 3)]


def test_the_names_of_resources_read_well():
    names = ["GPU 0", "GPU 1", "CPU 0"]
    shown = [lane_label(name, names) for name in ("0->1", "1->2", "lane 1", "out 0", "node0->node1", "7->9")]
    assert shown == ["GPU 0 → 1", "GPU 1 → CPU 0", "GPU 1 channel", "GPU 0 out", "node0 → node1", "7 → 9"]
    assert [lane_label(name, names) for name in ("to host 1", "from host 0")] == ["GPU 1 → host", "host → GPU 0"]


def test_links_have_rows_below_the_devices_unless_switched_off():
    rows = gantt_rows.rows_of(VIEW, "auto", "auto")
    labels = [row.label for row in rows.rows]
    assert labels == [*NAMES, *(use["label"] for use in VIEW["links"])]
    kinds = VIEW["bars"]["kind"]
    assert all((row >= 4) == (kind == "T") for row, kind in zip(rows.of_bar, kinds, strict=True))
    assert len(gantt_rows.rows_of(VIEW, "auto", "off").rows) == 4
    assert list(rows.middles()) == sorted(rows.middles())
    assert rows.total() == pytest.approx(4 + gantt_rows.LINK_HEIGHT * len(VIEW["links"]))


def test_of_many_links_the_busiest_have_a_row_and_the_others_one():
    shown = view(lattice_problem(8, 16, 8, 2))
    assert len(shown["links"]) > gantt_rows.MAX_LINK_ROWS
    rows = gantt_rows.rows_of(shown, "auto", "on").rows
    assert len(rows) == 8 + gantt_rows.MAX_LINK_ROWS
    assert rows[-1].label == f"{len(shown['links']) - gantt_rows.MAX_LINK_ROWS + 1} more links"
    alone = [shown["links"][row.links[0]]["busy_s"] for row in rows[8:-1]]
    assert min(alone) >= max(shown["links"][i]["busy_s"] for i in rows[-1].links)
    assert sorted(i for row in rows for i in row.links) == list(range(len(shown["links"])))


def test_one_channel_a_device_has_a_row_each():
    shown = view(lattice_problem(*SMALL, transfers=Transfers.LANE))
    assert {use["label"] for use in shown["links"]} == {"GPU 0 channel", "GPU 1 channel", "GPU 2 channel"}


def test_transfers_on_devices_themselves_have_no_rows():
    shown = view(lattice_problem(*SMALL, transfers=Transfers.BLOCKING))
    assert shown["links"] == []
    assert len(gantt_rows.rows_of(shown, "auto", "on").rows) == 4


def test_pipelines_keep_transfers_beside_their_devices_unless_set_otherwise():
    from tests.explorer.view.small import chain_problem, even_plan

    problem = chain_problem()
    shown = view(problem, even_plan(problem))
    assert len(gantt_rows.rows_of(shown, "devices", "auto").rows) == 4
    rows = gantt_rows.rows_of(shown, "devices", "on")
    assert len(rows.rows) == 4 + len(shown["links"]) > 4


def test_hover_tells_operator_phase_time_bytes_and_who_waits():
    columns = VIEW["bars"]
    names = [o.name for o in PROBLEM.graph.operators]
    words = OperatorWords(columns, names, NAMES, VIEW["links"])
    sent = next(i for i, kind in enumerate(columns["kind"]) if kind == "T" and columns["start_s"][i] < 1e-4)
    shown = words.hover(columns, sent)
    assert "<b>GPU 0 → " in shown
    assert "8 MiB" in shown
    assert "of encoder.layers.0.norm.entry" in shown
    assert f"then runs {names[columns['reader'][sent]]}" in shown
    first = next(i for i, operator in enumerate(columns["operator"]) if operator == 0 and columns["kind"][i] == "F")
    shown = words.hover(columns, first)
    assert "forward<br>encoder.layers.0.norm.entry<br>40 µs" in shown
    assert "sent to GPU 1 and GPU 2" in shown
    run, _ = drawn(columns, WHOLE, most=8)
    assert "operators, " in words.hover(run, run["spans"].index(max(run["spans"])))


def test_hundreds_of_stages_are_not_drawn_as_stages():
    shown = large()
    assert stage_boxes(shown)["too_many"]
    assert not gantt_rows.can_stages(shown)
    assert gantt_rows.rows_of(shown, "stages").kind == "devices"


def test_facts_speak_of_operators():
    outline = skeleton(lattice_workload(*SMALL[1:]))
    facts = operator_facts(0, outline, VIEW)
    assert facts.title == "encoder.layers.0.norm.entry"
    rows = dict(facts.rows)
    assert rows["Forward"] == "40 µs at 0 s"
    assert {"Input gradient", "Weight gradient", "Update", "Sends"} <= set(rows)
    assert operator_facts(len(PROBLEM.graph.operators) - 1, outline, VIEW).title in outline["names"]
    assert operator_facts(10**6, outline, VIEW) is None
    boxes = graph_view(outline, expanded_to(outline, 3))
    assert "Stages" not in dict(box_facts("m:encoder.layers.1", boxes, outline, VIEW).rows)
    assert "Stages" not in dict(device_facts(1, VIEW).rows)


def test_figures_and_messages_are_small_and_complete():
    workload = lattice_workload(*LARGE[1:])
    outline, model = large(), skeleton(workload)
    boxes = graph_view(model, expanded_to(model, 3))
    message = drawing.plan_message(boxes, model, outline, "light", None, Look())
    count = sum(len(lane["at"]) for lane in message["figure"]["lanes"])
    assert count == len(message["bars"]["device"]) <= 1500
    assert len(message["spans"]["device"]) == len(outline["bars"]["device"])
    assert message["detail"]["merged"]
    assert not message["can_draw_stages"]
    owner = {key for keys in message["keys"].values() for key in keys}
    assert owner == {o for o, phase in enumerate(model["phases"]) if phase == "forward"}
    window = drawing.window_message(model, outline, "light", Look(), (10.0, 11.0), outline["span_s"])
    assert not window["detail"]["merged"]
    low = min(window["bars"]["start"])
    assert low > 8


def test_the_table_twin_names_operators():
    from explorer.view.timeline.bars import table

    rows = table(VIEW["bars"], NAMES, operators=[o.name for o in PROBLEM.graph.operators])
    assert rows[0]["what"] == "forward, encoder.layers.0.norm.entry"


def test_panels_of_one_pass_speak_of_no_micro_batches():
    from explorer.web.serving.live import encode

    shown = encode({"kpis": panels.kpis(VIEW, None), "why": panels.why_panel(VIEW), "table": panels.device_table(VIEW)})
    assert "micro-batch" not in shown
    assert "Longest on the path" in shown
    assert "GPU 0 → 1".encode("unicode_escape").decode() in shown


def test_memory_binds_in_a_pass_too():
    peak = max(SCHEDULE.peak_bytes())
    tight = lattice_problem(*SMALL, memory_bytes=peak * 1.01)
    assert why.explain(view(tight))["binding"].startswith("Memory is the bottleneck: GPU ")
    slow = replace(PROBLEM, cluster=replace(PROBLEM.cluster, links=tuple(
        replace(link, bandwidth_bytes_per_s=2e9) for link in PROBLEM.cluster.links)))  # fmt: skip
    assert why.explain(view(slow))["binding"].startswith("Transfers are the bottleneck: ")


def test_a_figure_of_operators_has_a_lane_for_each_row_and_kind():
    rows = gantt_rows.rows_of(VIEW, "auto", "auto")
    drawn = lanes(VIEW["bars"], rows, NAMES, str)
    transfers = [lane for lane in drawn if lane.name.endswith("transfer")]
    assert len(transfers) == len(VIEW["links"])
    assert all(lane.middle > 3.5 for lane in transfers)
