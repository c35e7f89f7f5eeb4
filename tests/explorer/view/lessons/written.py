"""A lesson as somebody writes it, for tests to spoil."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.view.lessons.lesson import Lesson
from explorer.view.lessons.reading import read_lesson
from explorer.view.session import Choices

CHOICES = Choices(("chain", "other"), ("auto", "single", "linear-dp"), ("toy",))

GOOD = """
title = "Two devices"
about = "What a second device brings."

[settings]
model = "chain"
devices = 1
micro_batches = 4

[[steps]]
title = "One"
text = "It takes {iteration} & <b>idles</b> {bubble}."
light = ["devices", "bubble"]

[[steps]]
title = "Two"
text = "It took {begin.iteration}."
settings = { devices = 2, memory = "1GiB" }

[steps.question]
goals = [{ figure = "bubble", is = "<", than = "begin", times = 0.9 }]
move = ["micro_batches"]
right = "Now {bubble}."
wrong = "More pieces."
"""


def read(text: str = GOOD, choices: Choices = CHOICES) -> Lesson:
    return read_lesson(text.encode(), "two-devices", choices)


def spoiled(changes: Mapping[str, str]) -> str:
    text = GOOD
    for old, new in changes.items():
        assert text.count(old) >= 1, old
        text = text.replace(old, new)
    return text
