"""What docs/examples/lessons.md says is so: its example is a lesson, and every name that there is stands in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from demo_models import MODELS
from explorer.costs.devices import DEVICES
from explorer.view.lessons.figures import FIGURES
from explorer.view.lessons.lesson import PARTS
from explorer.view.lessons.reading import RELATIONS, all_lessons, read_lesson
from explorer.view.session import Choices
from solvers.planners.registry import PLANNERS

TEXT = (Path(__file__).parents[4] / "docs" / "examples" / "lessons.md").read_text(encoding="utf-8")
CHOICES = Choices(tuple(MODELS), tuple(PLANNERS), tuple(DEVICES))


def test_the_example_is_a_lesson():
    (example,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    lesson = read_lesson(example.encode(), "slow-links", CHOICES)
    assert [step.settings["planner"] for step in lesson.steps] == ["layer-split", "equal"]


@pytest.mark.parametrize(
    "name", [*FIGURES, *PARTS, *RELATIONS, *(f"?lesson={one.name}" for one in all_lessons(CHOICES))]
)
def test_every_name_is_documented(name):
    assert f"`{name}`" in TEXT
