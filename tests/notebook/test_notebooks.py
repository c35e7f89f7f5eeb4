"""The notebooks of the documentation run, and say what they are there to say."""

from __future__ import annotations

import importlib.util
import json
import re
import warnings
from typing import Any

import pytest

from explorer.notebook.built import FOLDER as BUILT
from tests.notebook.save_notebooks import FOLDER, executed

pytestmark = pytest.mark.slow

MOST_BYTES = 400_000
"""Of a notebook with its outputs, as it is read where no kernel is."""
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))
WITH_WIDGET = ("tour.ipynb", "your_model.ipynb")
TUTORIALS = [name for name in NOTEBOOKS if name not in WITH_WIDGET]
"""Whose figures are compared with those that are saved; the others are looked at one by one."""


def run(name: str) -> list[list[dict[str, Any]]]:
    """The outputs of the cells with code."""
    pytest.importorskip("nbclient", reason="nbclient is not installed")
    if not (BUILT / "widget.js").exists():
        pytest.skip("the widget is not built: `make widget` (needs Node)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the client's own, about its event loop and its transport
        notebook = executed(FOLDER / name)
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


def text_of(outputs: list[dict[str, Any]]) -> str:
    """What a cell prints and shows, as text."""
    return "".join(
        "".join(output["text"] if output["output_type"] == "stream" else output.get("data", {}).get("text/plain", ""))
        for output in outputs
        if output.get("name") != "stderr"
    )


def data(outputs: list[dict[str, Any]]) -> dict[str, Any]:
    """The kinds in which a cell's value is shown."""
    return next(output["data"] for output in outputs if output["output_type"] == "execute_result")


def figures(outputs: list[list[dict[str, Any]]]) -> list[str]:
    """What cells print and show, as text, without what differs from run to run: how long a search took, and how far one
    had come that nobody waited for."""
    took = re.compile(r", [\d.]+ m?s\)|PlacementWidget\(.*\)")
    return [took.sub("", text_of(one)) for one in outputs]


@pytest.mark.timeout(600)
def test_the_tour():
    cells = run("tour.ipynb")
    saved = json.loads((FOLDER / "tour.ipynb").read_text(encoding="utf-8"))["cells"]
    before = [cell["outputs"] for cell in saved if cell["cell_type"] == "code"]
    assert figures(cells) == figures(before), "stale outputs: python -m tests.notebook.save_notebooks"
    assert len(cells) == 10
    assert text_of(cells[0]).startswith("gpt: 787 operators")
    assert "data:image/svg+xml" in data(cells[0])["text/html"]
    within = r"[\d.]+ s, [\d.]+ to [\d.]+ s"
    best = rf"gpt on 4 × H100-80GB: {within} iteration, at most [\d.]+ % slower than the best possible"
    assert re.search(best, text_of(cells[1]))
    assert "data:image/svg+xml" in cells[2][0]["data"]["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in cells[2][1]["data"]
    assert "waiting" in text_of(cells[2]), "the cell did not wait for a plan"
    assert text_of(cells[3]).startswith("gpt on 4 × H100-80GB")
    assert text_of(cells[4]).startswith("device 'GPU 2': ")
    assert "operators moved" in text_of(cells[5])
    assert text_of(cells[6]).splitlines() == ["the number of devices must be at least 0, found -1", "4"]
    assert [line.split(",")[0] for line in text_of(cells[7]).splitlines()] == [
        "1 device", "2 devices", "4 devices", "8 devices",
    ]  # fmt: skip
    assert re.fullmatch(r"787 operators, \d+ of 1419 edges cross devices", text_of(cells[8]).strip())
    assert "Throughput" in data(cells[9])["text/html"]


@pytest.mark.timeout(600)
def test_a_model_of_ones_own():
    pytest.importorskip("torch", reason="PyTorch is not installed")
    cells = run("your_model.ipynb")
    assert text_of(cells[0]).startswith("classifier: ")
    assert "Choosy" in text_of(cells[1])
    assert "line 6, in forward" in text_of(cells[1])
    assert "data:image/svg+xml" in cells[2][0]["data"]["text/html"]
    assert "2 × L4-24GB" in text_of(cells[3])
    assert text_of(cells[4]).splitlines()[0] == "embed/embedding: 62.5 MiB on GPU 0"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_runs_and_gives_the_figures_that_are_saved(name):
    if name == "launch.ipynb":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    saved = json.loads((FOLDER / name).read_text(encoding="utf-8"))["cells"]
    before = [cell["outputs"] for cell in saved if cell["cell_type"] == "code"]
    stale = f"stale outputs: python -m tests.notebook.save_notebooks {name.removesuffix('.ipynb')}"
    assert numbers(run(name)) == numbers(before), stale


def numbers(outputs: list[list[dict[str, Any]]]) -> list[list[str]]:
    """The figures that each cell prints, without how long searches took."""
    return [re.findall(r"\d[\d,.]*", cell) for cell in figures(outputs)]


def test_the_lines_about_transformers_run():
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not among the packages of the tests")
    notebook = json.loads((FOLDER / "your_model.ipynb").read_text(encoding="utf-8"))
    text = "".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    program = re.search(r"```python\n(.*?)```", text, flags=re.DOTALL)[1]
    names: dict[str, Any] = {}
    exec("import torch, explorer\n" + program, names)
    assert len(names["graph"].graph) > 100


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_saved_notebook_has_pictures_and_is_small(name):
    path = FOLDER / name
    assert path.stat().st_size < MOST_BYTES
    text = path.read_text(encoding="utf-8")
    notebook = json.loads(text)
    kinds = {
        kind for cell in notebook["cells"] for output in cell.get("outputs", []) for kind in output.get("data", {})
    }
    assert "text/html" in kinds
    assert ("application/vnd.jupyter.widget-view+json" in kinds) == (name in WITH_WIDGET)
    assert "widgets" not in notebook["metadata"], "the module of the widget is not saved with every notebook"
    assert not re.search(r"/(home|root|tmp|work)/", text), "a path of whoever ran it"
