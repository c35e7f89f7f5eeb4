"""Values show themselves: cards in notebooks, a line in terminals, and values of other libraries."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

import explorer
from explorer.sweeps.answers import Sweep
from solvers.errors import InvalidProblem
from solvers.formats.workload import Workload
from solvers.plan.result import Result
from solvers.problem import displayed
from tests.instances import forward_graph

ROOT_TAGS = {"div", "span", "b", "img", "style", "table", "thead", "tbody", "tr", "th", "td"}


class Reader(HTMLParser):
    """Tags that are opened and closed, attributes, and the text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.images: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "img":
            self.images.append(dict(attrs)["src"])
        else:
            self.open.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    assert set(reader.tags) <= ROOT_TAGS
    return reader


@pytest.fixture(scope="module")
def result() -> Result:
    graph = forward_graph([(0, 1), (1, 2), (2, 3)], 4, nbytes=8, param_bytes=2.0**20)
    return explorer.plan(graph, devices=2, planner="equal", objective="makespan", execution="operator")


def test_a_result_is_a_card_with_its_schedule_in_both_themes(result):
    card = read(result._repr_html_())
    assert "2 × H100-80GB" in card.text
    assert "Makespan" in card.text
    assert len(card.images) == 2
    for source in card.images:
        kind, _, content = source.partition(",")
        assert kind == "data:image/svg+xml;base64"
        svg = ElementTree.fromstring(base64.b64decode(content))
        assert "GPU 1" in "".join(svg.itertext())
    assert card.images[0] != card.images[1]


def test_all_values_have_a_card_and_a_line(result, model):
    for value, words in (
        (result, "graph on 2 × H100-80GB: "),
        (result.plan, "Plan: 4 operators in 2 stages on 2 devices"),
        (model, "chain: 192 operators (96 forward), 191 tensors, batch 1, 1 M parameters, costs estimated"),
        (model.graph, "chain: 192 operators (96 forward), 191 tensors, batch 1"),
    ):
        assert read(value._repr_html_()).text
        assert str(value).startswith(words)
        assert "\n" not in str(value)


def test_a_notebook_writes_the_line_and_not_all_that_is_in_a_value(result, model):
    from IPython.lib.pretty import pretty

    for value in (result, result.plan, model, model.graph):
        assert pretty(value) == str(value)


def test_a_result_without_a_plan_says_why(model):
    result = explorer.plan(model, devices=2, memory="1MiB", planner="equal")
    assert "infeasible" in str(result)
    assert "infeasible" in read(result._repr_html_()).text
    with pytest.raises(InvalidProblem, match="no plan to draw"):
        result.figure()
    assert "devices" not in result.frame().columns


def test_names_of_a_model_are_text_and_never_markup():
    graph = forward_graph([(0, 1)], 2, nbytes=8)
    evil = Workload(graph, "<script>alert(1)</script>", notes=("<img src=x onerror=alert(1)>",))
    card = read(evil._repr_html_())
    assert "<script>alert(1)</script>" in card.text
    assert "<img src=x onerror=alert(1)>" in card.text
    assert all(source.startswith("data:") for source in card.images)


def test_a_figure_a_graph_and_a_frame_tell_the_same_plan(result):
    figure = result.figure()
    assert sum(len(trace.x) for trace in figure.data if "forward" in trace.name) == 4
    graph = result.graph()
    assert sorted(graph.nodes) == ["a", "b", "c", "d"]
    assert list(graph.edges) == [("a", "b"), ("b", "c"), ("c", "d")]
    assert [graph.edges[edge]["cut"] for edge in graph.edges] == [False, True, False]
    assert graph.edges["a", "b"]["nbytes"] == 8 * result.problem.mini_batch or graph.edges["a", "b"]["nbytes"] == 8
    frame = result.frame()
    assert list(frame.index) == ["a", "b", "c", "d"]
    assert frame.devices.tolist() == [("GPU 0",), ("GPU 0",), ("GPU 1",), ("GPU 1",)]
    assert frame.parameters.sum() == 4 * 2.0**20
    for name in frame.index:
        assert frame.compute_s[name] == graph.nodes[name]["compute_s"] > 0


@pytest.mark.parametrize(("method", "library"), [("frame", "pandas"), ("figure", "plotly")])
def test_a_library_that_is_not_there_is_named(result, monkeypatch, method, library):
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setitem(sys.modules, f"{library}.graph_objects", None)
    with pytest.raises(ImportError, match=f"pip install {library}"):
        getattr(result, method)()


def test_without_explorer_values_show_themselves_as_python_does(result, monkeypatch):
    monkeypatch.setattr(displayed, "_handed", {})
    assert str(result.plan) == repr(result.plan)
    assert result._repr_html_() is None
    with pytest.raises(ImportError, match="import explorer first"):
        result.frame()


def test_a_sweep_shows_its_curve_and_its_rows(model):
    swept = explorer.sweep(model, devices=[1, 2, 4], planner="equal", memory=["1GiB"])
    assert isinstance(swept, Sweep)
    assert isinstance(swept, tuple)
    card = read(swept._repr_html_())
    svg = "".join(ElementTree.fromstring(base64.b64decode(card.images[0].partition(",")[2])).itertext())
    assert "Iteration time by devices" in svg
    assert [re.match(r"\d device", line)[0] for line in str(swept).splitlines()] == ["1 device", "2 device", "4 device"]
    assert "no plan" in svg, "a point without a plan is told in the picture"
    assert explorer.sweep(model, devices=[1, 2], memory=["1GiB", "2GiB"], planner="equal").curve() is None


def test_a_difference_shows_what_moved(model):
    a, b = (explorer.plan(model, devices=n, planner="equal") for n in (2, 4))
    compared = explorer.diff(a, b)
    card = read(compared._repr_html_())
    assert "asked otherwise" in card.text
    assert "iteration" in card.text
    assert str(compared).splitlines()[0] == f"{compared.moved_operators} of 192 operators moved"


def test_importing_is_light():
    program = (
        "import sys, explorer; heavy = {'torch', 'plotly', 'ipywidgets', 'anywidget', 'dash', 'pandas', 'PIL'};"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=240)
