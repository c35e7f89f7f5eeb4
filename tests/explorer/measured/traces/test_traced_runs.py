"""Traces of a run elsewhere are an outcome of the plan, to the microsecond."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from explorer.measured import compare_run
from explorer.measured.traces import traced_outcome
from explorer.measured.traces.clocks import shifts
from explorer.measured.traces.files import is_archive, traces
from explorer.runner.bundles.outcome import Outcome
from explorer.runner.bundles.result_json import outcome_text, read_outcome
from solvers.errors import InvalidProblem
from tests.explorer.measured.traces.made import RANKS, event, iterations, rank_events, two_stages, write_ranks

US = 1e-6


def traced(folder: Path, **options: str) -> Outcome:
    return traced_outcome(*two_stages(), str(folder), **options)


def spans(outcome: Outcome, iteration: int = 0) -> dict[tuple[int, str], tuple[float, float, float]]:
    """Start, end and waiting of every action in microseconds."""
    return {
        (one.rank, one.action): tuple(round(value / US, 3) for value in (one.start_s, one.end_s, one.wait_s))  # type: ignore[misc]
        for one in outcome.actions
        if one.iteration == iteration
    }


def test_every_action_is_where_its_calls_are(tmp_path: Path) -> None:
    outcome = traced(write_ranks(tmp_path / "t", iterations()))
    assert outcome.iterations_s == pytest.approx([110 * US] * 3)
    assert outcome.rank_devices == (0, 1)
    placed = spans(outcome)
    assert placed[0, "0F0"] == (0, 10, 0)
    assert placed[1, "1F0"] == (15, 25, 15)
    assert placed[0, "0B0"] == (60, 80, 40)
    assert placed[0, "0B1"] == (90, 110, 10)
    assert spans(outcome, 2) == placed


def test_operators_have_the_median_of_their_calls(tmp_path: Path) -> None:
    problem, _ = two_stages()
    outcome = traced(write_ranks(tmp_path / "t", iterations()))
    names = [operator.name for operator in problem.graph.operators]
    assert outcome.operators_s == pytest.approx(dict(zip(names, (10 * US, 10 * US, 20 * US, 20 * US), strict=True)))


def test_a_rank_that_waited_tells_how_long_a_message_took(tmp_path: Path) -> None:
    """The first activation was sent at 10 and read at 15; nobody waited for the second, nor for what rank 0 was
    too busy to read."""
    outcome = traced(write_ranks(tmp_path / "t", iterations(1)))
    fields = {
        (one.action, one.src_rank): (round((one.arrived_s - one.sent_s) / US, 3), one.waited)
        for one in outcome.messages
    }
    assert fields == {("1F0", 0): (5, True), ("1F1", 0): (25, False), ("0B0", 1): (15, True), ("0B1", 1): (15, False)}


def test_it_is_laid_over_the_plan_as_a_run_is(tmp_path: Path) -> None:
    problem, plan = two_stages()
    outcome = traced(write_ranks(tmp_path / "t", iterations()))
    comparison = compare_run(problem, plan, outcome)
    assert comparison.measured_s == pytest.approx(110 * US)
    assert comparison.total_error_s == pytest.approx(
        comparison.operators_error_s + comparison.links_error_s + comparison.schedule_error_s
    )
    assert all(error is not None and error.profiled for error in comparison.operators)
    assert read_outcome(outcome_text(outcome)) == outcome


def test_a_gpus_kernels_count(tmp_path: Path) -> None:
    """Each call of 10 us on the host starts a kernel of 3 us, 100 us later."""
    ranks = []
    for events in iterations(1):
        kernels = []
        for number, one in enumerate(events):
            one["args"]["External id"] = number
            if one["cat"] == "cpu_op":
                kernels.append(event("k", one["ts"] + 100, 3, cat="kernel", External_id=number, tid=7))
        ranks.append([*events, *kernels])
    outcome = traced(write_ranks(tmp_path / "t", tuple(ranks), deviceProperties=[{"name": "NVIDIA H200"}]))
    assert spans(outcome)[0, "0F1"] == (10, 13, 7)
    assert "0U" not in {one.action for one in outcome.actions}  # it started no kernel
    assert outcome.environment is not None
    assert outcome.environment.devices == ("NVIDIA H200", "NVIDIA H200")


def test_steps_of_the_profiler_part_iterations_and_one_that_is_torn_is_left_out(tmp_path: Path) -> None:
    ranks = iterations(3)
    for events in ranks:
        events[:] = [one for one in events if one["cat"] == "cpu_op"]
        events += [event(f"ProfilerStep#{7 + at}", 1000 + 200 * at, 150, cat="user_annotation") for at in range(3)]
    ranks[1][:] = [one for one in ranks[1] if not 1000 < one["ts"] < 1030]  # the first forward and its backward
    outcome = traced(write_ranks(tmp_path / "t", ranks))
    assert len(outcome.iterations_s) == 2
    assert any("1 iteration of a rank left out" in note for note in outcome.notes)


def test_without_marks_iterations_are_counted(tmp_path: Path) -> None:
    ranks = tuple([one for one in events if one["cat"] == "cpu_op"] for events in iterations(4))
    outcome = traced(write_ranks(tmp_path / "t", ranks))
    assert outcome.iterations_s == pytest.approx([110 * US] * 4)


def test_calls_that_the_plan_does_not_have_are_passed_over(tmp_path: Path) -> None:
    ranks = iterations(2)
    for events in ranks:
        for one in [one for one in events if one["name"].startswith("aten::")]:
            events.append(event("aten::view", one["ts"] - 0.5, 0.2))
    assert spans(traced(write_ranks(tmp_path / "t", ranks)))[0, "0F1"] == (10, 20, 0)


def test_clocks_of_other_hosts_are_put_on(tmp_path: Path) -> None:
    """Rank 1's clock is 40 us behind: it would read at -25 what was sent at 10."""
    first, second = iterations(2)
    for one in second:
        one["ts"] -= 40
    outcome = traced(write_ranks(tmp_path / "t", (first, second), hosts=("one", "two")))
    placed = spans(outcome)
    assert placed[1, "1F0"][0] >= placed[0, "0F0"][1]
    assert any("clocks of hosts" in note for note in outcome.notes)
    assert outcome.messages == ()


def test_clocks_that_no_shift_makes_right() -> None:
    assert shifts(2, [(0, 1, -3.0), (1, 0, 5.0)]) == [0.0, 3.0]
    assert shifts(2, [(0, 1, -3.0), (1, 0, 2.0)]) is None


TIMELINE = [[5, 6, 7], [[0, 4, 0, 0, 0, 0, 0, 0, 0], [0, 4, 8, 1, 0, 16, 4, 0, 0], [0, 4, 8, 0, 0, 0, 4, 0, 0]]]


def test_memory_is_reported_by_category(tmp_path: Path) -> None:
    folder = write_ranks(tmp_path / "t", iterations(1))
    for rank in (0, 1):
        (folder / f"trace{rank}.memory.json").write_text(json.dumps(TIMELINE))
    outcome = traced(folder)
    assert outcome.peak_bytes == (33, 33)
    assert outcome.peak_parts[1] == {
        "parameters": 4, "optimizer states": 8, "inputs": 1, "activations": 16, "gradients": 4
    }  # fmt: skip
    parts = {part.name: part.measured_bytes for part in compare_run(*two_stages(), outcome).devices[0].parts}
    assert parts["activations and all else"] == 17
    assert sum(parts.values()) == 33
    assert read_outcome(outcome_text(outcome)) == outcome


def test_a_zip_is_read_as_a_folder_is(tmp_path: Path) -> None:
    folder = write_ranks(tmp_path / "t", iterations(1))
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        for path in folder.iterdir():
            archive.write(path, f"run/{path.name}")
    assert is_archive(str(tmp_path / "t.zip"))
    assert traced(tmp_path / "t.zip") == traced(folder)
    assert len(list(traces(str(tmp_path / "t.zip")))) == 2


REFUSED = {
    "one rank is missing": (iterations(1)[:1], "rank 1 is missing"),
    "a rank too many": ((*iterations(1), iterations(1)[0]), "2 devices in use"),
    "another model": (([*rank_events("aten::gelu", *RANKS[0][1:])], iterations(1)[1]), "0 are in an iteration"),
    "nothing": ((), "holds no trace"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_of_the_plan_is_refused_in_a_line(tmp_path: Path, case: str) -> None:
    ranks, message = REFUSED[case]
    with pytest.raises(InvalidProblem, match=message) as error:
        traced(write_ranks(tmp_path / "t", ranks))
    assert "\n" not in str(error.value)


SPOILED = [
    [],
    [[1], []],
    [[1], [[1, 2]]],
    [[1], [[0, "4", 0, 0, 0, 0, 0, 0, 0]]],
    [[1], [[0] * 9]],
    [[1, 2], [[0, 1, 0, 0, 0, 0, 0, 0, 0]]],
]


@pytest.mark.parametrize("made", SPOILED)
def test_spoiled_memory_is_refused(tmp_path: Path, made: object) -> None:
    folder = write_ranks(tmp_path / "t", iterations(1))
    (folder / "trace0.memory.json").write_text(json.dumps(made))
    with pytest.raises(InvalidProblem, match=r"trace0\.memory\.json"):
        traced(folder)
