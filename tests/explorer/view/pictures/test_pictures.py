"""Pictures are well formed, stay inside their frame, and name only colours that there are."""

from __future__ import annotations

import io
import sys
import xml.etree.ElementTree as ET

import pytest

from explorer.view.graph.elements import expanded_to
from explorer.view.graph.palette import THEMES, css_variables, palette
from explorer.view.graph.skeleton import skeleton
from explorer.view.pictures.gantt import gantt_picture
from explorer.view.pictures.graph import graph_picture
from explorer.view.pictures.picture import Picture
from explorer.view.pictures.shapes import Label, Rect, Stroke
from explorer.view.pictures.stages import stages_picture
from explorer.view.plan_types import PlanView
from explorer.view.plan_view import plan_view
from solvers.errors import UnsupportedProblem
from solvers.evaluation.evaluate import judge
from solvers.problem.problem import Pipeline
from tests.explorer.view.small import branches_problem, chain_problem, chain_workload, even_plan, pair_plans

EVIL = "</title><script>alert('x')</script>&\x00\x1b[31m"


def view(devices: int = 4, micro_batches: int = 8, pipeline: Pipeline = Pipeline.ONE_F_ONE_B) -> PlanView:
    problem = chain_problem(devices, mini_batch=micro_batches, micro_batches=micro_batches, pipeline=pipeline)
    plan = even_plan(problem)
    return plan_view(problem, plan, planner="", objective_s=judge(problem, plan).objective_s, bound_s=0.0)


def branched() -> PlanView:
    problem = branches_problem()
    return plan_view(problem, pair_plans(problem)[0], planner="", objective_s=1.0, bound_s=0.0)


def drawn_stages(plan: PlanView) -> Picture:
    picture = stages_picture(plan, heading="stages")
    assert picture is not None
    return picture


PICTURES = {
    "few": lambda: gantt_picture(view()),
    "many": lambda: gantt_picture(view(micro_batches=64), heading="sixty-four"),
    "gpipe": lambda: gantt_picture(view(micro_batches=64, pipeline=Pipeline.GPIPE)),
    "links": lambda: gantt_picture(view(), links="on"),
    "branches": lambda: gantt_picture(branched()),
    "stages": lambda: drawn_stages(branched()),
    "chain of stages": lambda: drawn_stages(view()),
    "graph": lambda: graph_picture(skeleton(chain_workload()), view()),
    "deep graph": lambda: graph_picture(
        skeleton(chain_workload()), view(), expanded=expanded_to(skeleton(chain_workload()), 4)
    ),
    "bare graph": lambda: graph_picture(skeleton(chain_workload())),
}


@pytest.mark.parametrize("name", PICTURES)
def test_shapes_are_inside_the_frame_and_colours_are_known(name: str) -> None:
    picture = PICTURES[name]()
    colours = palette("light", picture.devices)
    assert colours.keys() == palette("dark", picture.devices).keys()
    for shape in picture.shapes:
        named = [getattr(shape, key) for key in ("fill", "stroke", "ink", "colour", "halo") if hasattr(shape, key)]
        assert {colour for colour in named if colour} <= colours.keys(), shape
        if isinstance(shape, Rect):
            assert -1e-6 <= shape.x <= shape.x + shape.width <= picture.width + 1e-6, shape
            assert -1e-6 <= shape.y <= shape.y + shape.height <= picture.height + 1e-6, shape
        elif isinstance(shape, Label):
            assert 0 <= shape.x <= picture.width, shape
            assert 0 <= shape.y <= picture.height, shape
        elif isinstance(shape, Stroke):
            assert all(0 <= y <= picture.height for _, y in shape.points), shape


@pytest.mark.parametrize("name", PICTURES)
def test_svg_is_xml_of_that_size(name: str) -> None:
    picture = PICTURES[name]()
    for theme in THEMES:
        root = ET.fromstring(picture.svg(theme))
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert float(root.attrib["width"]) == pytest.approx(picture.width, abs=0.01)
        assert root[0].text == picture.title


def test_names_are_text_and_never_markup() -> None:
    picture = Picture((Label(1, 1, EVIL, "text"), Rect(0, 0, 1, 1, "text", title=EVIL)), 10, 10, EVIL, 0)
    markup = picture.svg()
    assert "<script" not in markup
    assert "\x1b" not in markup
    texts = ["".join(element.itertext()) for element in ET.fromstring(markup)]
    assert texts.count("</title><script>alert('x')</script>&  [31m") == 3


def test_many_micro_batches_keep_the_first_and_the_last_numbered() -> None:
    labels = {shape.text for shape in PICTURES["many"]().shapes if isinstance(shape, Label)}
    assert {"0", "1", "62", "63"} <= labels
    assert "31" not in labels
    assert any("micro-batches of the steady state are left out" in label for label in labels)


def test_equal_bars_too_narrow_to_be_distinguished_are_one() -> None:
    """GPipe runs all forwards in a row: 256 of 2 to 3 pixels each."""
    bars = [shape for shape in PICTURES["gpipe"]().shapes if isinstance(shape, Rect) and "forward" in shape.title]
    assert len(bars) <= 3 * 4
    labels = {shape.text for shape in PICTURES["gpipe"]().shapes if isinstance(shape, Label)}
    assert "0–63" in labels


def test_graph_says_what_crosses() -> None:
    shapes = PICTURES["graph"]().shapes
    thick = [shape for shape in shapes if isinstance(shape, Stroke) and shape.colour == "accent" and shape.title]
    assert len(thick) == 3
    assert all("4 MiB" in stroke.title for stroke in thick)


def test_stages_say_who_runs_them_and_what_they_send() -> None:
    """Three branches of two stages each, and the join."""
    shapes = PICTURES["stages"]().shapes
    labels = [shape.text for shape in shapes if isinstance(shape, Label)]
    assert [f"{i} · GPU {i}" in labels for i in range(7)] == [True] * 7
    assert labels.count("8 MiB") == 6, "2 samples of 4 MiB, from each to the next"
    assert any(label.startswith("7 stages, depth 3") for label in labels)


def test_more_stages_than_can_be_read_are_not_drawn() -> None:
    plan = view()
    assert stages_picture({**plan, "stages": plan["stages"] * 40}) is None


def test_inline_pictures_take_their_colours_from_the_page() -> None:
    markup = PICTURES["few"]().inline_svg("a")
    declared = css_variables(4)
    used = {part.split(")")[0] for part in markup.split("var(")[1:]}
    assert used
    assert all(declared.count(f"{name}:#") == 2 for name in used)


def test_png_is_an_image_of_twice_the_size() -> None:
    image = pytest.importorskip("PIL.Image", reason="pip install 'placement-explorer[png]'")
    picture = PICTURES["many"]()
    for theme in THEMES:
        png = image.open(io.BytesIO(picture.png(theme)))
        assert png.format == "PNG"
        assert png.size == (round(picture.width * 2), round(picture.height * 2))
        background = palette(theme, 4)["background"]
        assert "#{:02x}{:02x}{:02x}".format(*png.getpixel((1, 1))) == background


def test_png_of_letters_that_the_font_lacks() -> None:
    pytest.importorskip("PIL", reason="pip install 'placement-explorer[png]'")
    picture = Picture((Label(1, 5, "漢字 → é \x00 😀", "text"),), 80, 10, "", 0)
    assert picture.png().startswith(b"\x89PNG")


def test_without_pillow_png_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UnsupportedProblem, match=r"pip install 'placement-explorer\[png\]'"):
        PICTURES["few"]().png()
