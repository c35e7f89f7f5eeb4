"""The flags that describe devices, links and memory, from the command line to the plan."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from tests.explorer.cli.command import Command, workload, write

HOST = {
    "devices": [
        {"name": "left", "kind": "accelerator", "memory_bytes": 30.0},
        {"name": "right", "kind": "accelerator", "memory_bytes": 20.0},
        {"name": "host", "kind": "cpu"},
    ],
    "links": [
        {"src": src, "dst": dst, "bandwidth_bytes_per_s": 1e9, "resource": "wire"}
        for src, dst in itertools.permutations(range(3), 2)
    ],
}


def cluster_of(plan: Path) -> dict:
    return json.loads(plan.read_text())["problem"]["cluster"]


def test_a_cluster_from_a_file_is_planned_for_and_kept_in_the_plan(
    command: Command, model: Path, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    ran = command("plan", model, "--cluster", write(tmp_path, HOST, "mine.json"), "-o", plan, "--json")
    assert ran.status == 0
    shown = cluster_of(plan)
    assert [device["name"] for device in shown["devices"]] == ["left", "right", "host"]
    assert {link["resource"] for link in shown["links"]} == {"wire"}
    assert len(ran.json["metrics"]["peak_memory_bytes"]) == 3
    assert ran.json["metrics"]["peak_memory_bytes"][0] <= 30
    assert ran.json["metrics"]["peak_memory_bytes"][1] <= 20
    assert command("check", plan).status == 0


@pytest.mark.parametrize(("caps", "held"), [("30,10", [30, 10]), ("10,30", [10, 30])])
def test_a_cap_for_each_accelerator(command: Command, model: Path, caps: str, held: list[int]) -> None:
    printed = command("plan", model, "--memory", caps, "--cpus", 0, "--json").json
    assert printed["metrics"]["peak_memory_bytes"] == held
    assert command("plan", model, "--memory", "20,10", "--cpus", 0).status == 3


def test_shared_links_are_kept_in_the_plan(command: Command, model: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    assert command("plan", model, "--links", "shared", "-o", plan).status == 0
    assert {link["resource"] for link in cluster_of(plan)["links"]} == {"host 0 root"}


@pytest.mark.parametrize(
    ("flags", "contiguity"),
    [
        ((), "acyclic"),
        (("--objective", "makespan"), "acyclic"),
        (("--objective", "makespan", "--execution", "operator"), "none"),
        (("--objective", "makespan", "--execution", "operator", "--contiguity", "convex"), "convex"),
    ],
)
def test_single_operators_go_anywhere_unless_set_otherwise(
    command: Command, model: Path, tmp_path: Path, flags: tuple[str, ...], contiguity: str
) -> None:
    plan = tmp_path / "plan.json"
    assert command("plan", model, "--planner", "single", "--memory", 100, *flags, "-o", plan).status == 0
    assert json.loads(plan.read_text())["problem"]["contiguity"] == contiguity
    given = [flag for flag in flags if flag != "--json"]
    printed = command("compare", model, "--planners", "single", "--memory", 100, *given, "--json").json
    assert {entry["contiguity"] for entry in printed} == {contiguity}


def test_static_memory_saves_every_micro_batch_at_once(command: Command, tmp_path: Path) -> None:
    """Two layers of 100 bytes of activations each: eight micro-batches run one after the other on one device."""
    times = "forward_compute_time=1.0, backward_compute_time=2.0, activation_size=100.0, parameter_size=10.0"
    path = write(tmp_path, f"node1 -- A -- {times}\nnode2 -- B -- {times}\n\tnode1 -- node2\n", "graph.txt")
    flags = ("--devices", 1, "--planner", "single", "--mini-batch", 8, "--micro-batches", 8, "--json")
    static = command("plan", path, *flags, "--memory-model", "static").json["metrics"]["peak_memory_bytes"]
    peak = command("plan", path, *flags).json["metrics"]["peak_memory_bytes"]
    assert static == [2 * (4 * 10 + 8 * 100)]
    assert peak == [2 * (4 * 10 + 100)]


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("--device-kind", "acc,", "expected a device kind, or one for each accelerator such as 2xV100"),
        ("--device-kind", "20000xacc", "at most 16,384 accelerators"),
        (
            "--device-kind",
            "accelerator,acc",
            "no device kind 'acc' with compute times in this workload; there are: accelerator",
        ),
        ("--device-kind", "accelerator,cpu", "'cpu' is not an accelerator"),
        ("--memory", "8,8,8", "--memory gives 3 sizes for 2 accelerators; give one, or one for each"),
        ("--memory", "8,", "expected a size such as 16GiB"),
        ("--memory", "8,0", "more than 0"),
        ("--bandwidth", "0.1", "the bandwidth must be at least 1 byte/s"),
        ("--latency", "2e9s", "at most 3600 s"),
        ("--links", "nvlink", "invalid choice: 'nvlink'"),
        ("--memory-model", "dynamic", "invalid choice: 'dynamic'"),
        ("--contiguity", "round", "invalid choice: 'round'"),
        ("--cluster", "no-such-file.json", "no-such-file.json: no such file or directory"),
        ("--cluster", ".", ".: is a directory"),
    ],
)
def test_a_flag_that_makes_no_cluster(command: Command, model: Path, flag: str, value: str, message: str) -> None:
    assert message in command.refused("plan", model, f"{flag}={value}")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--devices", 2), "--cluster describes every device and link; leave out --devices"),
        (("--cpus", 0, "--links", "shared"), "leave out --cpus, --links"),
        (("--bandwidth", "1GB/s", "--latency", "0"), "leave out --bandwidth, --latency"),
        (("--devices-per-node", 1, "--node-bandwidth", "1GB/s"), "leave out --devices-per-node, --node-bandwidth"),
        (("--device-kind", "accelerator"), "leave out --device-kind"),
        (("--memory", "9,9,9"), "--memory gives 3 sizes for 2 accelerators"),
        (("--pin", "a=3"), "there is no device 3"),
    ],
)
def test_what_a_whole_cluster_leaves_no_room_for(
    command: Command, model: Path, tmp_path: Path, flags: tuple[object, ...], message: str
) -> None:
    path = write(tmp_path, HOST, "mine.json")
    assert message in command.refused("plan", model, "--cluster", path, *flags)


def test_a_broken_cluster_is_reported_with_its_file_and_place(command: Command, model: Path, tmp_path: Path) -> None:
    broken = HOST | {"links": [*HOST["links"], {"src": 0, "dst": 7, "bandwidth_bytes_per_s": 1e9}]}
    path = write(tmp_path, broken, "mine.json")
    assert command.refused("compare", model, "--cluster", path) == f"{path}: link 0 -> 7: no such device"
    truncated = write(tmp_path, json.dumps(HOST)[:-5], "mine.json")
    assert f"{truncated}: the JSON ends too early" in command.refused("plan", model, "--cluster", truncated)
    unknown = write(tmp_path, {"devices": [{"name": "x", "kind": "abacus"}]}, "mine.json")
    assert "has no compute times for device kind 'abacus'" in command.refused("plan", model, "--cluster", unknown)


def test_a_workload_is_no_cluster(command: Command, model: Path, tmp_path: Path) -> None:
    path = write(tmp_path, workload(), "other.json")
    assert f"{path}: devices: missing" in command.refused("plan", model, "--cluster", path)
