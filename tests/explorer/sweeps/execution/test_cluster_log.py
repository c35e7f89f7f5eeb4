"""What a job says of answers is read as it was written; what is not ours, or not whole, is no answer."""

from __future__ import annotations

import random

from explorer.runner.targets.ray_log import PART
from explorer.sweeps.execution.job_text import AnswerLog, answer_lines, course_line, refusal_line


def test_answers_come_back_as_they_were_written_in_whatever_pieces_the_log_is_fetched() -> None:
    rng = random.Random(0)
    long = "".join(rng.choice("abcdefgh\u00e4\n") for _ in range(40_000))
    lines = [*answer_lines(3, '{"a": 1}'), course_line([1, 2]), "a warning", *answer_lines(0, long)]
    assert sum(line.startswith("@answer 0 ") for line in lines) > 1
    assert all(len(line) < PART + 40 for line in lines)
    text = "\n".join(lines) + "\n"
    log, answers = AnswerLog(), []
    for end in (*sorted(rng.sample(range(len(text)), 20)), len(text)):
        answers += log.feed(text[:end])
    assert answers == [(3, '{"a": 1}'), (0, long)]
    assert (log.running, log.last, log.refusal) == ((1, 2), "a warning", "")
    log.feed(text + refusal_line("no\nroom"), ended=True)
    assert log.refusal == "no room"


def test_what_is_damaged_is_no_answer() -> None:
    good = answer_lines(1, "x" * 10)[0]
    damaged = [
        good.replace("1/1", "2/1"), good.replace("1/1", "1/2"), good[:-8], "@answer 1 1/1 AAAA", "@answer x",
        "@course {}", "@refusal [", "@answer 1 1/1 " + "\u00e4",
    ]  # fmt: skip
    for line in damaged:
        log = AnswerLog()
        assert log.feed(line + "\n") == []
        assert log.running == ()
    assert AnswerLog().feed(good) == []  # without its end
    assert AnswerLog().feed(good, ended=True) == [(1, "x" * 10)]


def test_no_line_steers_a_terminal() -> None:
    log = AnswerLog()
    log.feed('\x1b[31mred\n@refusal {"reason": "\\u001b[31mred"}\n')
    assert "\x1b" not in log.last + log.refusal
