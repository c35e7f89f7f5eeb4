"""``compare``: one table for a family of planners."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from solvers.errors import InvalidPlan
from solvers.planners.baselines import SingleDevice
from solvers.planners.registry import PLANNERS
from solvers.problem.problem import Problem
from solvers.search.monitor import Monitor
from tests.explorer.cli.command import Command, workload, write

THREE = "single,linear-dp,brute-force"


def two_chains() -> dict:
    """7 -> 6 and 4 -> 3 ms, transfers of 1 us: {a, d} and {b, c} balance, but only as a circle."""
    shown = workload(maxCPUs=0)
    for node, milliseconds in zip(shown["nodes"], (7.0, 6.0, 4.0, 3.0), strict=True):
        node["fpgaLatency"] = milliseconds
    shown["edges"] = [{"sourceId": a, "destId": b, "cost": 0.001} for a, b in ((0, 1), (2, 3))]
    return shown


def lines(out: str) -> list[str]:
    return [line for line in out.splitlines() if line.strip()]


def test_every_planner_that_can_has_a_row_and_the_best_is_marked_and_first(command: Command, model: Path) -> None:
    ran = command("compare", model, "--time-limit", 0.3)
    assert ran.status == 0
    assert ran.err == ""
    table = lines(ran.out)
    head = next(i for i, line in enumerate(table) if line.split()[0] == "planner")
    assert table[head].split()[:5] == ["planner", "status", "max-load", "bound", "gap"]
    assert table[head + 1].startswith("*")
    assert "9.000 ms" in table[head + 1]
    assert all(name in ran.out for name in PLANNERS if name != "expert")


def test_beside_iterations_are_the_time_of_a_sample_and_the_throughput(command: Command, model: Path) -> None:
    arguments = ("compare", model, "--planners", "single", "--mini-batch", 8, "--objective")
    head, row = (line.split() for line in command(*arguments, "iteration").out.splitlines()[4:6])
    assert head[5:8] == ["a", "sample", "samples/s"]
    assert row[9:12] == ["16", "ms", "62.5"]
    head, row = (line.split() for line in command(*arguments, "max-load").out.splitlines()[4:6])
    assert head[5:8] == ["makespan", "iteration", "samples/s"]
    assert "sample" not in head
    assert row[9:14] == ["128", "ms", "128", "ms", "62.5"]
    assert command(*arguments, "iteration", "--json").json[0]["seconds_per_sample"] == pytest.approx(16e-3)


def test_json_is_a_list_of_plans_in_the_order_of_the_table(command: Command, model: Path) -> None:
    ran = command("compare", model, "--planners", f"{THREE},brute-force:placement-limit=1", "--cpus", 0, "--json")
    printed = ran.json
    assert ran.status == 0
    assert {"model", "planner", "planner_options", "status", "objective_s", "bound_s", "gap", "runtime_s", "metrics",
            "placement", "guarantee", "source", "contiguity", "best_bound_s", "gap_to_best_bound", "best",
            "peak_memory_bytes", "reason"} <= printed[0].keys()  # fmt: skip
    assert [entry["planner"] for entry in printed][-2:] == ["single", "brute-force"]
    objectives = [entry["objective_s"] for entry in printed[:-1]]
    assert objectives == sorted(objectives)
    assert objectives == pytest.approx([9e-3, 9e-3, 16e-3])
    assert [entry["gap_to_best_bound"] for entry in printed[:-1]] == pytest.approx([0, 0, 7 / 16])
    assert {entry["best_bound_s"] for entry in printed} == {printed[0]["objective_s"]}
    left_out = printed[-1]
    assert (left_out["status"], left_out["metrics"], left_out["objective_s"]) == ("UNSUPPORTED", None, None)
    assert "placements" in left_out["reason"]
    assert left_out["planner_options"] == {"placement_limit": 1}
    assert left_out.keys() == printed[0].keys()


def test_the_whole_family_of_contiguities_in_one_table(command: Command, tmp_path: Path) -> None:
    path = write(tmp_path, two_chains())
    printed = command("compare", path, "--planners", "brute-force", "--contiguity", "all", "--json").json
    seconds = {entry["contiguity"]: entry["objective_s"] for entry in printed}
    assert seconds == pytest.approx({"acyclic": 11.002e-3, "convex": 10.002e-3, "none": 10.002e-3})
    out = command("compare", path, "--planners", "brute-force", "--contiguity", "all").out
    assert "contiguity  acyclic 11.002 ms, convex 10.002 ms (−9.1 %), none 10.002 ms (equal)" in out
    some = command("compare", path, "--planners", "brute-force", "--contiguity", "convex,none", "--json").json
    assert [entry["contiguity"] for entry in some] == ["convex", "none"]


def test_a_placement_that_is_no_plan_is_shown_with_the_reason(command: Command, model: Path, tmp_path: Path) -> None:
    circle = write(tmp_path, {"a": 0, "b": 1, "c": 0, "d": 1}, "expert.json")
    ran = command("compare", model, "--planners", "single", "--expert", circle)
    assert "no plan  expert (acyclic): the placement is no plan: " in ran.out


@pytest.mark.parametrize(
    ("flag", "message"),
    [("none", "none"), ("all,none", "acyclic, convex and none"), ("none,acyclic", "acyclic and none")],
)
def test_the_contiguity_of_the_flags_is_shown(command: Command, model: Path, flag: str, message: str) -> None:
    ran = command("compare", model, "--planners", "single", "--contiguity", flag)
    assert f"asked for  contiguity {message}, at most 10 s a planner" in ran.out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--planners", "linear"), "no planner 'linear'"),
        (("--planners", "single,,linear-dp"), "expected planners as"),
        (("--planners", "single,single"), "given twice"),
        (("--planners", "downset-dp:budget=7"), "no option 'budget'"),
        (("--planners", "downset-dp:downset-budget=many"), "a whole number"),
        (("--contiguity", "round"), "no contiguity 'round'"),
        (("--time-limit", "0"), "more than 0 seconds"),
        (("--devices", "0"), "devices"),
    ],
)
def test_bad_input_is_one_line(command: Command, model: Path, flags: tuple[str, ...], message: str) -> None:
    assert message in command.refused("compare", model, *flags)


def test_a_file_that_is_not_there_is_one_line(command: Command) -> None:
    assert "no-such-model" in command.refused("compare", "no-such-model")


def test_infeasible_ends_with_3_and_says_what_would_fit(command: Command, model: Path) -> None:
    ran = command("compare", model, "--planners", THREE, "--memory", "15", "--cpus", 0)
    assert ran.status == 3
    assert ran.out.count("infeasible") >= 3
    assert "a plan was found at 20 B" in ran.out
    printed = command("compare", model, "--planners", THREE, "--memory", "15", "--cpus", 0, "--json").json
    assert {entry["status"] for entry in printed} == {"INFEASIBLE"}
    assert printed[0]["infeasible"]["smallest_cap_bytes"] == 20


def test_no_plan_ends_with_4(command: Command, tmp_path: Path) -> None:
    heavy = workload(maxCPUs=0)
    for node in heavy["nodes"][:3]:
        node["size"] = 60.0
    ran = command("compare", write(tmp_path, heavy), "--planners", "equal,brute-force:placement-limit=1")
    assert ran.status == 4
    assert "no plan" in ran.out
    assert "more than 1 placements" in ran.out


def test_a_planner_that_breaks_costs_its_own_row_and_is_reported(
    command: Command, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PLANNERS, "broken", Broken)
    ran = command("compare", model, "--planners", "broken,linear-dp")
    assert ran.status == 0
    assert "failed" in ran.out
    assert "a stage has no operators" in ran.err
    assert ran.err.count("\n") == 1
    assert command("compare", model, "--planners", "broken").status == 1


@dataclass(frozen=True)
class Broken:
    """Gives a plan that breaks a rule."""

    name: ClassVar[str] = "broken"
    source: ClassVar[str] = "test"
    guarantee: ClassVar[str] = "heuristic"

    def unsupported(self, problem: Problem) -> str | None:
        return None

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        raise InvalidPlan("a stage has no operators")


@dataclass(frozen=True)
class Endless:
    """Offers one plan, then somebody presses Ctrl-C, then it searches until it is stopped."""

    name: ClassVar[str] = "endless"
    source: ClassVar[str] = "test"
    guarantee: ClassVar[str] = "heuristic"

    def unsupported(self, problem: Problem) -> str | None:
        return None

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        SingleDevice()(problem, monitor)
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            monitor.check()


def test_ctrl_c_keeps_the_finished_rows(command: Command, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLANNERS, "endless", Endless)
    ran = command("compare", model, "--planners", "linear-dp,endless,single,downset-dp", "--json")
    assert ran.status == 0
    assert [(entry["planner"], entry["stop_reason"]) for entry in ran.json] == [
        ("linear-dp", "FINISHED"),
        ("endless", "CANCELLED"),
    ]
    assert ran.err == "placement-explorer: stopped before single, downset-dp\n"
