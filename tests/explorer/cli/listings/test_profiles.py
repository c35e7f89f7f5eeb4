"""Files of the field that state no cluster of ours are planned like any other model."""

from __future__ import annotations

import pytest

from tests.explorer.cli.command import Command
from tests.solvers.formats.test_pipedream import needs_profiles
from tests.solvers.msr_instances import SHARED

FOLDER = SHARED / "workloads"


@needs_profiles
def test_a_profile_is_planned_on_the_devices_of_the_flags(command: Command) -> None:
    ran = command("plan", FOLDER / "pipedream" / "vgg16.txt", "--devices", 4, "--objective", "max-load", "--json")
    assert ran.status == 0
    assert ran.json["status"] == "OPTIMAL"
    # No cut of the chain can take the first convolutions' transfers away, and the whole takes 672 ms.
    assert 0.672535 / 4 < ran.json["objective_s"] < 0.672535


@needs_profiles
def test_a_graph_of_too_many_downsets_is_planned_and_says_so(command: Command) -> None:
    path = FOLDER / "pipedream" / "nasnetalarge.txt"
    ran = command(
        "plan", path, "--devices", 4, "--objective", "max-load", "--planner", "downset-dp:downset_budget=5000", "--json"
    )
    assert (ran.status, ran.json["status"], ran.json["stop_reason"]) == (0, "FEASIBLE", "STATE_LIMIT")
    assert 0.658297 / 4 < ran.json["bound_s"] * 1.001 < ran.json["objective_s"] < 0.2
    assert any("more than 5,000 downsets" in note for note in ran.json["notes"])


@needs_profiles
@pytest.mark.parametrize("flags", [(), ("--devices", 3, "--memory", "30GB", "--bandwidth", "10GB/s")])
def test_piper_files_bring_a_cluster_that_flags_override(command: Command, flags: tuple) -> None:
    ran = command("plan", FOLDER / "piper" / "bert32a100.json", *flags, "--optimizer", "sgd", "--json")
    assert ran.status == 0
    devices = flags[1] if flags else 10
    assert 0.972864 / devices <= ran.json["objective_s"] < 0.972864
