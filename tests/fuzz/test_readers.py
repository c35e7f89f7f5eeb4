"""Whatever is done to a valid input, it is read or refused in one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from solvers.errors import InvalidProblem
from tests.fuzz import trials
from tests.fuzz.mutations import Raw, Twice, written
from tests.fuzz.readers import READERS
from tests.fuzz.trials import FAULT, READ, REFUSED, Outcome, Reader, outcomes

ROOT = Path(__file__).parents[2]
CASES = 300


@pytest.fixture(scope="module")
def by_reader() -> dict[str, list[Outcome]]:
    """In a process of its own: one of many threads must not fork."""
    command = [sys.executable, "-m", "tests.fuzz", "--json", "--cases", str(CASES)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert ran.stdout, ran.stderr
    return {name: [Outcome(*expected) for expected in all_of_it] for name, all_of_it in json.loads(ran.stdout).items()}


@pytest.mark.parametrize("name", READERS)
def test_a_spoiled_input_is_read_or_refused_in_one_line(by_reader: dict[str, list[Outcome]], name: str) -> None:
    assert [outcome for outcome in by_reader[name] if outcome.kind == FAULT] == []
    assert by_reader[name]


def test_a_good_part_of_what_is_spoiled_is_refused(by_reader: dict[str, list[Outcome]]) -> None:
    kinds = [outcome.kind for all_of_it in by_reader.values() for outcome in all_of_it]
    assert kinds.count(REFUSED) > len(kinds) / 3


def test_a_case_is_the_same_each_time() -> None:
    reader = READERS["MSR 2020"]()
    assert reader.spoiled(1, 2) == reader.spoiled(1, 2) != reader.spoiled(1, 3)


def test_spoiled_json_may_be_none() -> None:
    assert written({"a": Raw("NaN"), "b": Twice(c=1, d="é\n")}) == '{"a":NaN,"b":{"c":1,"c":1,"d":"é\\n"}}'.encode()


def _fails(data: bytes, _: Path) -> None:
    match data[:1]:
        case b"t":
            raise TypeError("unhashable")
        case b"e":
            raise InvalidProblem(" ")
        case b"m":
            bytearray(2 * trials.MEMORY_BYTES)
        case b"h":
            while True:
                pass
        case b"k":
            os._exit(3)
        case b"r":
            raise InvalidProblem("f: expected a, found b")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_faults_are_distinguished_and_the_rest_of_the_cases_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "CPU_S", 0.2)
    inputs = [b"ok", b"t", b"e", b"m", b"k", b"h", b"r", b"ok"]
    monkeypatch.setattr(Reader, "spoiled", lambda self, seed, number: inputs[number])
    shown = list(outcomes(Reader((), _fails), len(inputs), 0))
    assert [outcome.number for outcome in shown] == list(range(len(inputs)))
    assert [outcome.kind for outcome in shown] == [READ, *[FAULT] * 5, REFUSED, READ]
    expected = ("TypeError: 'unhashable'", "a message of 0 characters", "more memory", "(3)", "s of CPU time")
    for outcome, words in zip(shown[1:6], expected, strict=True):
        assert words in outcome.words
