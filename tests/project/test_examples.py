"""The examples of the documentation run as they are written, and print the figures that stand on their pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.project.examples import EXAMPLES, FOLDER, Example, numbers

QUICK = ("onnx_file", "paper_workload", "resnet50_two_gpus")
LIMIT_S = 280


def check(example: Example, folder: Path) -> None:
    if example.missing:
        pytest.skip(f"{', '.join(example.missing)} is not on this machine; set SHARED to the folder that has workloads")
    if example.folder.name == "onnx_file":
        pytest.importorskip("onnx", reason="onnx is not installed")
    printed = example.run(folder, LIMIT_S)
    stale = f"other figures: python -m tests.project.save_examples {example.folder.name}"
    assert numbers(printed) == numbers(example.output), stale
    drawn = {path.name for path in folder.glob("*.svg")}
    assert drawn == {path.name for path in example.folder.glob("*.svg")}, stale


@pytest.mark.first(1)
@pytest.mark.parametrize("name", QUICK)
def test_a_quick_example_prints_the_figures_of_its_page(name: str, tmp_path: Path) -> None:
    check(EXAMPLES[name], tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", sorted(EXAMPLES.keys() - set(QUICK)))
def test_an_example_prints_the_figures_of_its_page(name: str, tmp_path: Path) -> None:
    check(EXAMPLES[name], tmp_path)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_has_a_command_its_output_and_a_picture_that_it_shows(name: str) -> None:
    example = EXAMPLES[name]
    assert example.commands
    assert "objective" in example.output
    pictures = {path.name for path in example.folder.glob("*.svg")}
    assert pictures
    assert pictures == set(re.findall(r"\]\(([\w-]+\.svg)\)", example.page))
    assert f"({name}/README.md)" in (FOLDER / "README.md").read_text(encoding="utf-8")


def test_figures_are_compared_without_how_long_a_search_took() -> None:
    first = "planner    auto, 1.5 s (finished)\nobjective  41.7 ms\n"
    assert numbers(first) == numbers(first.replace("1.5 s", "900 ms"))
    assert numbers(first) != numbers(first.replace("41.7", "41.8"))
