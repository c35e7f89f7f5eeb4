"""What a widget does, without a browser and without a solver: traits, answers, and what is refused."""

from __future__ import annotations

import asyncio
import re

import pytest
import traitlets

import explorer
from explorer.notebook.selection import Selection
from explorer.notebook.solving import InvalidTrait, NoPlan
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.view import events
from solvers.errors import InvalidProblem
from solvers.planners.baselines import EqualSplit
from solvers.planners.solve import solve
from solvers.problem.problem import Objective
from tests.instances import forward_graph
from tests.notebook.fakes.worker import ListedWidget, drawn, receive

GIB = 2**30


def test_a_widget_asks_at_once_and_shows_the_model_before_there_is_a_plan(widget):
    assert widget.status == "waiting"
    assert widget.result is None
    assert len(widget.problem.cluster) == 4
    assert len(widget.listed.requests) == 1
    shown = drawn(widget)
    assert shown["_graph"]["elements"]
    assert shown["_plan"] == {}
    assert shown["_status"]["busy"]
    assert not shown["_status"]["stale"]


def test_an_answer_becomes_the_result_and_the_picture(widget):
    messages = []
    widget.observe(lambda change: messages.append(change["new"]), "result")
    outcome = widget.listed.answer()
    assert widget.result.plan == outcome.plan
    assert widget.result.problem is widget.problem
    assert messages == [widget.result]
    assert widget.status in ("feasible", "optimal")
    shown = drawn(widget)
    assert [card["name"] for card in shown["_plan"]["cards"]][:2] == ["Throughput", "Iteration time"]
    assert {len(devices) for devices in shown["_overlay"]["nodes"].values()} <= {1, 2}
    assert not shown["_status"]["busy"]


def test_steps_of_the_search_are_shown_while_it_goes_on(widget):
    widget.listed.step()
    assert widget.status == "solving"
    assert widget.result is None
    assert drawn(widget)["_plan"]["figure"]["lanes"]
    assert drawn(widget)["_status"]["busy"]


def test_once_kernels_are_compiled_the_search_stands_as_before(widget):
    widget.listed.step()
    before = drawn(widget)["_status"]
    for seconds in (12.0, 13.0):
        widget.listed.report(events.compiling("annealing", seconds))
        assert drawn(widget)["_status"]["words"] == "compiling, once"
    widget.listed.report(events.compiling("", 14.0))
    assert drawn(widget)["_status"] == before
    widget.listed.report(events.compiling("", 14.0))
    assert drawn(widget)["_status"] == before, "of another question of this worker"


def test_another_value_asks_anew_and_stops_the_search_before(widget):
    widget.listed.answer()
    held = drawn(widget)["_plan"]
    widget.devices = 8
    assert widget.listed.cancelled == []
    assert len(widget.problem.cluster) == 8
    assert widget.result is None
    assert drawn(widget)["_status"]["stale"]
    assert drawn(widget)["_plan"] == held
    widget.memory = 24 * GIB
    assert widget.listed.cancelled == ["job2"]
    widget.listed.answer(1)
    assert widget.result is None, "an answer to a question that was replaced is not heard"
    widget.listed.answer(2)
    assert len(widget.result.problem.cluster) == 8
    assert drawn(widget)["_status"]["stale"] is False
    assert any(card["change"] for card in drawn(widget)["_plan"]["cards"])


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("devices", -3, "the number of devices must be at least"),
        ("devices", 2.5, "devices must be a whole number, found 2.5"),
        ("devices", True, "devices must be a whole number, found True"),
        ("devices", 10**9, "at most 16,384"),
        ("devices", "four", "devices must be a whole number"),
        ("memory", "16 bananas", "16 bananas"),
        ("memory", float("nan"), "memory must be more than 0"),
        ("memory", {"GPU 0": 1}, "memory must be bytes"),
        ("planner", "best", "there is no planner 'best'"),
        ("objective", "speed", "no objective 'speed'; there are: "),
        ("pipeline", None, "no pipeline None"),
        ("device_kind", "H200", "H200"),
        ("device_kind", 7, "device_kind must be a name"),
        ("bandwidth", [1], "bandwidth must be a number"),
        ("micro_batches", 0, "micro-batches must be at least 1"),
        ("time_limit_s", 0, "time_limit_s must be more than 0 seconds"),
        ("time_limit_s", "soon", "time_limit_s must be a number, found 'soon'"),
        ("effort", "heroic", "no effort 'heroic'"),
        ("pins", {"blocks.0": 9}, "device 9"),
        ("pins", {"bloks.0": 1}, "did you mean 'blocks.0"),
        ("pins", ["blocks.0"], "pins must be a mapping"),
        ("selection", "blocks.9", "there is no operator, module, stage or device 'blocks.9'"),
        ("selection", 3, "select an operator or module by its name"),
    ],
)
def test_nonsense_raises_at_the_assignment_and_the_old_value_stays(widget, name, value, words):
    widget.listed.answer()
    before, problem, count = getattr(widget, name), widget.problem, len(widget.listed.requests)
    with pytest.raises(InvalidTrait, match=re.escape(words)) as refused:
        setattr(widget, name, value)
    assert "\n" not in str(refused.value)
    assert isinstance(refused.value, InvalidProblem)
    assert isinstance(refused.value, traitlets.TraitError)
    assert getattr(widget, name) == before
    assert widget.problem is problem
    assert len(widget.listed.requests) == count


def test_values_that_only_make_sense_together_are_set_together(widget):
    with widget.hold_trait_notifications():
        widget.pins = {"blocks.0": 5}
        widget.devices = 6
    assert len(widget.problem.cluster) == 6
    assert set(widget.problem.pins.values()) == {5}
    with pytest.raises(InvalidTrait, match="device 5"), widget.hold_trait_notifications():
        widget.devices = 2
    assert widget.devices == 6
    assert len(widget.problem.cluster) == 6


def test_arguments_that_make_no_sense_raise_before_there_is_a_widget(model):
    with pytest.raises(InvalidProblem, match=r"a widget has no setting 'gpus'"):
        explorer.PlacementWidget(model, gpus=4)
    with pytest.raises(InvalidProblem, match=r"expected what .* returns, found int"):
        explorer.PlacementWidget(7)
    with pytest.raises(InvalidProblem, match="devices must be a whole number"):
        explorer.PlacementWidget(model, devices="4")


def test_a_problem_that_is_handed_in_is_solved_as_it_is(widget, model):
    problem = make_problem(model, Settings(devices=3, objective=Objective.MAX_LOAD))
    widget.problem = problem
    assert widget.problem is problem
    assert drawn(widget)["_controls"]["given"]
    assert widget.listed.answer().problem.objective == "max-load"
    assert widget.result.problem is problem
    widget.devices = 2
    assert not drawn(widget)["_controls"]["given"]
    assert widget.problem.objective == "iteration"


def test_a_result_that_is_handed_in_is_shown_and_nothing_is_solved(widget):
    other = forward_graph([(0, 1), (1, 2)], 3, nbytes=8)
    result = explorer.plan(other, devices=2, planner="equal")
    before = len(widget.listed.requests)
    widget.result = result
    assert widget.result is result
    assert widget.problem is result.problem
    assert len(widget.listed.requests) == before
    assert {box["data"]["id"] for box in drawn(widget)["_graph"]["elements"] if "source" not in box["data"]} == {
        "o:0", "o:1", "o:2",
    }  # fmt: skip
    assert drawn(widget)["_status"]["model"]["detail"] == "3 operators"


def test_show_is_a_widget_with_a_result_in_it():
    result = explorer.plan(forward_graph([(0, 1)], 2, nbytes=8), devices=2, planner="equal")
    shown = explorer.show(result)
    assert shown.result is result
    assert shown.status == "feasible"
    shown.close()
    with pytest.raises(InvalidProblem, match=r"expected what .* returns, found int"):
        explorer.show(3)


def test_waiting_gives_the_answer(widget):
    async def wait():
        waiting = asyncio.ensure_future(widget.solved())
        await asyncio.sleep(0)
        assert not waiting.done()
        widget.devices = 2
        widget.listed.answer()
        return await asyncio.wait_for(waiting, 10)

    assert len(asyncio.run(wait()).problem.cluster) == 2


def test_waiting_raises_what_went_wrong(widget):
    widget.memory = "1MiB"
    outcome = widget.listed.answer(fits_memory_bytes=3.0 * GIB)
    with pytest.raises(NoPlan, match="No plan fits 4 devices of 1 MiB") as refused:
        asyncio.run(widget.solved())
    assert refused.value.result.status == outcome.status == "INFEASIBLE"
    assert widget.status == "infeasible"
    assert drawn(widget)["_status"]["banner"]["cap"] == {
        "bytes": 3.0 * GIB, "words": "Set the cap to 3 GiB, where a plan was found",
    }  # fmt: skip
    widget.solve()
    widget.listed.report({"kind": "failed", "message": "the solving process ended unexpectedly (exit code -9)"})
    with pytest.raises(NoPlan, match="ended unexpectedly") as refused:
        asyncio.run(widget.solved())
    assert refused.value.result is None
    assert widget.status == "failed"


def test_cancel_stops_the_search_and_keeps_its_best_plan(widget):
    widget.cancel()
    assert widget.listed.cancelled == ["job1"]
    widget.listed.answer()
    assert widget.result.plan is not None
    widget.cancel()
    assert widget.listed.cancelled == ["job1"]


def test_closing_while_solving_stops_and_hears_no_more(widget):
    widget.close()
    assert widget.listed.cancelled == ["job1"]
    widget.listed.answer()
    assert widget.result is None


def test_inside_an_event_loop_nothing_changes_while_a_cell_runs(model):
    async def cell():
        made = ListedWidget(model, devices=2)
        made.listed.answer()
        assert made.result is None, "the answer waits for the cell to end"
        await asyncio.sleep(0)
        assert made.result is not None
        made.close()

    asyncio.run(cell())


def test_a_loop_that_is_over_is_no_reason_to_lose_an_answer(model):
    async def make():
        return ListedWidget(model, devices=2)

    made = asyncio.run(make())
    made.listed.answer()
    assert made.result is not None
    made.close()


def test_selection_from_python_is_drawn_and_from_the_browser_is_heard(widget):
    widget.listed.answer()
    widget.selection = "blocks.2"
    assert widget.selection.kind == "module"
    assert len(widget.selection.operators) == 12
    shown = drawn(widget)["_selected"]
    assert shown["boxes"] == ["m:blocks.2.attention", "m:blocks.2.mlp"]
    assert shown["column"] == "key"
    selections = []
    widget.observe(lambda change: selections.append(change["new"]), "selection")
    receive(widget, {"type": "select", "kind": "device", "id": "3"})
    assert selections == [widget.selection]
    assert (widget.selection.kind, widget.selection.name, widget.selection.devices) == ("device", "GPU 3", (3,))
    assert drawn(widget)["_selected"]["facts"]["title"] == "GPU 3"
    receive(widget, {"type": "select", "kind": "none", "id": ""})
    assert widget.selection is None
    assert drawn(widget)["_selected"] == {}


def test_a_device_that_the_next_plan_does_not_have_is_selected_no_more(widget):
    widget.listed.answer()
    widget.selection = "GPU 3"
    widget.devices = 2
    widget.listed.answer()
    assert widget.selection is None
    widget.selection = "stage 1"
    assert isinstance(widget.selection, Selection)
    assert set(widget.selection.devices) <= {0, 1}


def test_pins_from_the_browser_are_a_trait_and_pins_from_python_are_drawn(widget):
    widget.listed.answer()
    receive(widget, {"type": "select", "kind": "box", "id": "m:blocks.1.mlp"})
    receive(widget, {"type": "pin", "device": "2"})
    assert widget.pins == {"blocks.1.mlp": 2}
    assert set(widget.problem.pins.values()) == {2}
    widget.pins = {"blocks.0": 0}
    widget.listed.answer(planner="auto")
    assert drawn(widget)["_overlay"]["pinned"] == ["m:blocks.0.attention", "m:blocks.0.mlp"]
    assert drawn(widget)["_selected"]["pinned"] is None


def test_numbers_of_somebodys_own_colour_the_boxes(widget):
    widget.listed.answer()
    widget.node_data = {"blocks.0.mlp": 1.0, "blocks.1.mlp": 3.5}
    assert drawn(widget)["_overlay"]["values"]["labels"] == {"m:blocks.0.mlp": "1", "m:blocks.1.mlp": "3.5"}
    with pytest.raises(InvalidProblem, match="values are numbers"):
        widget.node_data = {"blocks.0.mlp": {"value": "fast"}}
    assert widget.node_data == {"blocks.0.mlp": 1.0, "blocks.1.mlp": 3.5}
    sent = []
    widget.send = sent.append
    receive(widget, {"type": "peek", "element": "m:blocks.1.mlp"})
    assert [message["id"] for message in sent] == ["m:blocks.1.mlp"]
    assert "GPU" in sent[0]["text"]
    widget.node_data = None
    assert drawn(widget)["_overlay"]["values"] is None


def test_a_control_sets_the_trait(widget):
    widget.listed.answer()
    receive(widget, {"type": "set", "name": "devices", "value": "2"})
    assert widget.devices == 2
    assert len(widget.listed.requests) == 2
    receive(widget, {"type": "set", "name": "micro_batches", "value": ""})
    assert widget.micro_batches is widget.problem.micro_batches is None
    receive(widget, {"type": "set", "name": "memory", "value": "24GiB"})
    assert widget.problem.cluster.devices[0].memory_bytes == 24 * GIB


def test_what_a_control_may_not_hold_is_refused_beside_it(widget):
    widget.listed.answer()
    receive(widget, {"type": "set", "name": "memory", "value": "much"})
    refused = drawn(widget)["_status"]["refused"]
    assert refused["name"] == "memory"
    assert "much" in refused["message"]
    assert widget.memory == "16GiB"
    receive(widget, {"type": "set", "name": "devices", "value": "3"})
    assert drawn(widget)["_status"]["refused"] is None


def test_the_graph_is_arranged_for_the_frame_that_a_browser_tells(widget):
    def columns():
        boxes = [element for element in drawn(widget)["_graph"]["elements"] if "position" in element]
        return len({box["position"]["x"] for box in boxes})

    receive(widget, {"type": "canvas", "width": 280, "height": 320})
    tall = columns()
    receive(widget, {"type": "canvas", "width": 590, "height": 120})
    assert columns() > tall


def test_what_somebody_opened_stays_open_in_a_frame_of_another_size(widget):
    receive(widget, {"type": "expand", "element": "m:blocks.0"})
    boxes = {element["data"]["id"] for element in drawn(widget)["_graph"]["elements"]}
    receive(widget, {"type": "canvas", "width": 280, "height": 120})
    assert {element["data"]["id"] for element in drawn(widget)["_graph"]["elements"]} == boxes


def test_levels_finding_and_looking_closer(widget):
    widget.listed.answer()
    boxes = len(drawn(widget)["_overlay"]["nodes"])
    receive(widget, {"type": "depth", "step": -1})
    assert len(drawn(widget)["_overlay"]["nodes"]) < boxes
    receive(widget, {"type": "expand", "element": "m:blocks.0"})
    assert "m:blocks.0.mlp" in drawn(widget)["_overlay"]["nodes"]
    sent = []
    widget.send = sent.append
    receive(widget, {"type": "find", "text": "blocks.0.mlp.op7"})
    receive(widget, {"type": "window", "from": 0.0, "to": 1.0})
    assert [message["type"] for message in sent] == ["found", "bars"]
    assert sent[0]["items"][0]["name"] == "blocks.0.mlp.op7"
    assert sent[1]["detail"]["to"] == 1.0


def test_the_theme_of_the_notebook_is_the_pictures(widget):
    widget.listed.answer()
    receive(widget, {"type": "theme", "theme": "dark"})
    assert drawn(widget)["_theme"] == "dark"
    assert drawn(widget)["_plan"]["figure"]["colours"]["text"] == "#e8eaee"
    assert "#161b21" in widget.picture()


@pytest.fixture
def outputs(monkeypatch) -> list[dict]:
    """What goes to the output of a cell: bundles by kind, with the number of the output that each is or replaces."""
    display = pytest.importorskip("IPython.display", reason="IPython is not installed")
    shown: list[dict] = []

    def show(bundle, *, raw, display_id=None, metadata=None):
        assert raw
        shown.append({**bundle, "id": display_id})

    monkeypatch.setattr(display, "display", show)
    monkeypatch.setattr(display, "update_display", show)
    return shown


def test_a_cell_shows_a_picture_beside_the_widget_and_the_picture_becomes_the_plan(widget, outputs):
    widget._ipython_display_()
    first, live = outputs
    assert f'data-placement-explorer="{widget.get_state()["_mark"]}"' in first["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in live
    assert first.keys().isdisjoint(live.keys() - {"text/plain", "id"}), "a picture that is shown twice where both are"
    widget.listed.answer()
    later = outputs[-1]
    assert len(outputs) == 3
    assert later["id"] == first["id"]
    assert len(later["text/html"]) > len(first["text/html"])
    assert later["text/plain"].startswith("PlacementWidget(chain on 4 devices: best found")


def test_a_widget_that_nobody_shows_draws_no_picture(widget, outputs):
    widget.listed.answer()
    assert outputs == []


def test_a_closed_widget_is_shown_as_a_picture(widget, outputs):
    widget.listed.answer()
    widget.close()
    widget._ipython_display_()
    (shown,) = outputs
    assert "<img" in shown["text/html"]


def test_a_browser_sets_a_setting_by_a_link_as_by_its_control(widget):
    widget.set_state({"devices": 3})
    assert widget.devices == 3
    assert len(widget.listed.requests) == 2
    assert len(widget.problem.cluster) == 3
    assert widget.get_state("devices") == {"devices": 3}


def test_what_a_link_may_not_set_stays(widget, monkeypatch):
    back = []
    monkeypatch.setattr(widget, "send_state", back.append)
    module = widget._esm
    widget.set_state({"devices": -1, "_esm": "alert(1)", "cluster": "/etc/passwd", "status": "optimal"})
    assert (widget.devices, widget.cluster, widget.status, widget._esm) == (4, None, "waiting", module)
    assert sorted(back[-1]) == ["_esm", "devices", "status"], "what stands is sent back"
    assert drawn(widget)["_status"]["refused"]["name"] == "devices"


def test_settings_are_sent_as_text_and_numbers(model):
    widget = ListedWidget(model, devices=2, planner=EqualSplit(), memory=["1GiB", 2**30])
    sent = widget.get_state(["planner", "memory", "mini_batch", "recompute"])
    assert sent == {"planner": "equal", "memory": ["1GiB", 2**30], "mini_batch": None, "recompute": "model"}
    widget.close()


def test_a_widget_of_a_problem_is_solved_alike_twice(widget):
    first = widget.listed.answer()
    assert solve(widget.problem, "equal").objective_s == first.objective_s
