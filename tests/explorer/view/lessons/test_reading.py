"""A lesson is read as data; what is wrong with one is reported with its file and step, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.costs.devices import DEVICES
from explorer.view.lessons.lesson import Goal, Piece
from explorer.view.lessons.reading import (
    MAX_BYTES,
    MAX_FILES,
    MAX_STEPS,
    MAX_TEXT,
    SHIPPED,
    all_lessons,
    lesson_name,
    read_file,
    read_lesson,
)
from explorer.view.session import Choices
from solvers.errors import InvalidProblem
from solvers.planners.registry import PLANNERS
from tests.explorer.view.lessons.written import CHOICES, GOOD, read, spoiled


def refused(text: str | bytes) -> str:
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(InvalidProblem) as caught:
        read_lesson(data, "two-devices", CHOICES, "2-two-devices.toml")
    message = str(caught.value)
    assert message.startswith("2-two-devices.toml")
    assert "\n" not in message
    return message


def test_a_lesson_is_what_its_file_says():
    lesson = read()
    assert (lesson.name, lesson.title, len(lesson.steps)) == ("two-devices", "Two devices", 2)
    first, second = lesson.steps
    assert first.light == ("devices", "bubble")
    assert first.settings == {"model": "chain", "devices": 1, "micro_batches": 4}
    assert second.settings == {"model": "chain", "devices": 2, "micro_batches": 4, "memory": "1GiB"}
    assert second.question is not None
    assert second.question.goals == (Goal("bubble", "<", None, 0.9),)
    assert second.text == (Piece("It took "), Piece(figure="iteration", begun=True), Piece("."))


def test_text_that_looks_like_markup_stays_text():
    assert read().steps[0].text[:3] == (Piece("It takes "), Piece(figure="iteration"), Piece(" & <b>idles</b> "))
    assert read(spoiled({"More pieces.": "<script>alert(1)</script> %s {{ }}"})).steps[1].question.wrong == (
        Piece("<script>alert(1)</script> %s {{ }}"),
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"[settings]": "[settings"}, "not TOML"),
        ({'title = "Two devices"': ""}, "title: expected a text"),
        ({'about = "What': 'aboot = "What'}, "'aboot' has no place here"),
        ({'title = "One"': 'title = "One\u202etwo"'}, "step 1: title: has a character that cannot be seen"),
        ({"{bubble}.": "{bubbel}."}, "step 1: text: {bubbel} is no figure; there are iteration"),
        ({"{begin.iteration}": "{end.iteration}"}, "step 2: text: {end.iteration} is no figure"),
        ({"{bubble}.": "{bubble.__class__}."}, "step 1: text: {bubble.__class__} is no figure"),
        ({"It takes": "x" * MAX_TEXT}, "step 1: text: 637 characters, at most 600"),
        ({'light = ["devices",': 'light = ["device",'}, "step 1: light: 'device' is none; there are model"),
        ({"devices = 2,": "devices = 99999,"}, "step 2: devices: expected a number from 1 to 16384, found 99999"),
        ({"devices = 2,": "device = 2,"}, "step 2: device: no setting of this name; there are model"),
        ({"devices = 2,": "devices = [2],"}, "step 2: devices: expected a text, a number"),
        ({'"1GiB"': '"1 parsec"'}, "step 2: memory: expected a size such as 16GiB"),
        ({'model = "chain"': 'model = "chian"'}, "step 1: model: expected one of chain, other; found 'chian'"),
        ({'model = "chain"': 'model = "chain"\nplanner = "magic"'}, "step 1: planner: expected one of auto, single"),
        ({'model = "chain"': 'model = "chain"\ndevice_kind = "2xtoy"'}, "step 1: device_kind: expected one of toy"),
        ({'model = "chain"': 'model = "chain"\nprofile = "a"'}, "step 1: profile: no setting of this name"),
        ({'figure = "bubble"': 'figure = "bubbles"'}, "step 2: figure: 'bubbles' is none; there are iteration"),
        ({'is = "<"': 'is = "is not"'}, "step 2: is: expected one of < <= > >= =, found 'is not'"),
        ({'than = "begin", times = 0.9': 'than = "2*3"'}, "step 2: than: expected a number or \"begin\", found '2*3'"),
        ({'than = "begin", times = 0.9': "than = nan"}, 'step 2: than: expected a number or "begin", found nan'),
        ({'than = "begin", times': "than = 1, times"}, 'step 2: times: belongs to than = "begin"'),
        ({"times = 0.9": "times = 0"}, "step 2: times: expected a number from 0.001 to 1000"),
        ({'move = ["micro_batches"]': "move = []"}, "step 2: move: expected the names of the settings"),
        ({'move = ["micro_batches"]': 'move = ["bubble"]'}, "step 2: move: 'bubble' is none; there are model"),
        ({'right = "Now {bubble}."': ""}, "step 2: right: expected a text"),
        ({"[steps.question]": "[[steps]]\n[steps.question]"}, "step 3: title: expected a text"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_reported_with_its_step(changes, message):
    assert message in refused(spoiled(changes))


def test_a_lesson_is_limited_in_size_and_steps():
    assert "at most 64 KiB" in refused(b"#" * (MAX_BYTES + 1))
    assert "expected 1 to 12 of them" in refused(GOOD.split("[[steps]]")[0])
    step = '\n[[steps]]\ntitle = "x"\ntext = "y"\n'
    assert "expected 1 to 12 of them" in refused(GOOD + step * (MAX_STEPS - 1))
    assert "the last step asks no question" in refused(GOOD + step)
    assert "not UTF-8" in refused(b"\xff\xfe")
    assert "not TOML" in refused("a = " + "[" * 5000)


def test_a_name_of_a_lesson_is_plain():
    for name in ("Two", "two devices", "../two", "x" * 41, ""):
        with pytest.raises(InvalidProblem, match="small letters"):
            read_lesson(GOOD.encode(), name, CHOICES)
    assert lesson_name(Path("3-bubbles.toml")) == "bubbles"


def test_a_folder_is_read_in_the_order_of_its_names(tmp_path):
    for name in ("2-later", "1-sooner", "unnumbered"):
        (tmp_path / f"{name}.toml").write_text(GOOD)
    (tmp_path / "notes.txt").write_text("not a lesson")
    lessons = all_lessons(CHOICES, str(tmp_path))
    assert [lesson.name for lesson in lessons] == ["sooner", "later", "unnumbered"]


def test_what_is_wrong_with_a_folder_is_reported(tmp_path):
    for folder, expected in ((tmp_path / "away", "expected a folder"), (tmp_path, "no lesson in it")):
        with pytest.raises(InvalidProblem, match=expected):
            all_lessons(CHOICES, str(folder))
    (tmp_path / "1-one.toml").write_text(GOOD)
    (tmp_path / "2-one.toml").write_text(GOOD)
    with pytest.raises(InvalidProblem, match=r"2-one.toml: has the name of 1-one.toml, one"):
        all_lessons(CHOICES, str(tmp_path))
    (tmp_path / "2-one.toml").write_text(spoiled({"{bubble}.": "{bubbel}."}))
    with pytest.raises(InvalidProblem, match=r"1-one.toml|2-one.toml, step 1"):
        all_lessons(CHOICES, str(tmp_path))
    for number in range(MAX_FILES):
        (tmp_path / f"{number}-more-{number}.toml").write_text(GOOD)
    with pytest.raises(InvalidProblem, match="26 lessons, at most 24"):
        all_lessons(CHOICES, str(tmp_path))
    (tmp_path / "sub").mkdir()
    with pytest.raises(InvalidProblem, match="expected a plain file"):
        read_file(tmp_path / "sub", CHOICES)


def test_eight_lessons_are_shipped_and_an_owners_one_takes_the_place_of_its_namesake(tmp_path):
    from demo_models import MODELS

    choices = Choices(tuple(MODELS), tuple(PLANNERS), tuple(DEVICES))
    shipped = all_lessons(choices)
    assert len(shipped) == len(list(SHIPPED.glob("*.toml"))) == 8
    assert all(lesson.steps[-1].question for lesson in shipped)
    (tmp_path / "bubbles.toml").write_text(GOOD.replace('"chain"', '"gpt-small"'))
    both = all_lessons(choices, str(tmp_path))
    assert [lesson.name for lesson in both].count("bubbles") == 1
    assert both[-1].title == "Two devices"
