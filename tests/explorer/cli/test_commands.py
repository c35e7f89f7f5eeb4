"""What each command prints, and its exit status."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from demo_models import MODELS
from explorer.costs.devices import DEVICES
from solvers.errors import InvalidPlan
from solvers.planners.registry import PLANNERS
from tests.explorer.cli.command import Command, workload, write

COMMANDS = ("app", "models", "planners", "devices", "trace", "plan", "compare", "sweep", "decode", "simulate", "check",
            "diff", "export")  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_with_an_example(command: Command, name: str) -> None:
    ran = command(name, "--help")
    assert ran.status == 0
    assert f"example: placement-explorer {name}" in ran.out


def test_help_lists_the_commands(command: Command) -> None:
    assert all(name in command("--help").out for name in COMMANDS)


@pytest.mark.parametrize(("name", "known"), [("models", MODELS), ("planners", PLANNERS), ("devices", DEVICES)])
def test_lists_show_every_name(command: Command, name: str, known: dict[str, object]) -> None:
    shown = [line.split()[0] for line in command(name).out.splitlines()[1:]]
    assert shown == list(known)
    assert [entry["name"] for entry in command(name, "--json").json] == list(known)


def test_plan_prints_one_object_with_the_promised_keys(command: Command, model: Path) -> None:
    ran = command("plan", model, "--planner", "brute-force", "--cpus", 0, "--json")
    printed = ran.json
    assert ran.status == 0
    assert {"model", "planner", "planner_options", "status", "stop_reason", "objective", "objective_s", "bound_s",
            "gap", "runtime_s", "seed", "metrics", "placement", "stages"} <= printed.keys()  # fmt: skip
    assert {"max_load_s", "makespan_s", "iteration_s", "throughput_per_s", "bubble", "cut_bytes",
            "peak_memory_bytes"} <= printed["metrics"].keys()  # fmt: skip
    assert (printed["planner"], printed["objective"], printed["status"]) == ("brute-force", "max-load", "OPTIMAL")
    # two operators of 4 ms each, and the transfer of 1 ms that blocks both devices
    assert printed["objective_s"] == pytest.approx(9e-3)
    assert printed["bound_s"] == pytest.approx(9e-3)
    assert printed["metrics"]["max_load_s"] == pytest.approx(printed["objective_s"])
    assert printed["seconds_per_sample"] == printed["objective_s"]
    assert printed["placement"] in ({"a": 0, "b": 0, "c": 1, "d": 1}, {"a": 1, "b": 1, "c": 0, "d": 0})
    assert sorted(name for stage in printed["stages"] for name in stage["operators"]) == list("abcd")
    assert len(printed["metrics"]["peak_memory_bytes"]) == 2


def test_plan_reports_for_people(command: Command, model: Path) -> None:
    ran = command("plan", model)
    assert ran.status == 0
    assert "status     OPTIMAL" in ran.out
    assert "objective  9 ms" in ran.out
    assert "peak memory" in ran.out
    assert ran.err == ""


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            ("--objective", "iteration"),
            "iteration 128 ms (16 ms a sample, 62.5 samples/s), makespan 128 ms, max-load 16 ms,",
        ),
        (
            ("--objective", "makespan"),
            "iteration 128 ms, makespan 128 ms (16 ms a sample, 62.5 samples/s), max-load 16 ms,",
        ),
        (("--objective", "max-load"), "iteration 128 ms (62.5 samples/s), makespan 128 ms, max-load 16 ms,"),
    ],
)
def test_beside_the_time_of_a_mini_batch_are_that_of_a_sample_and_the_throughput(
    command: Command, model: Path, flags: tuple[str, ...], words: str
) -> None:
    arguments = ("plan", model, "--planner", "single", *flags, "--mini-batch", 8)
    assert words in command(*arguments).out
    printed = command(*arguments, "--json").json
    assert printed["seconds_per_sample"] == pytest.approx(16e-3)
    assert printed["metrics"]["throughput_per_s"] == pytest.approx(62.5)


def test_plan_says_who_shares_a_stage_and_how_many_stages_a_device_has(command: Command, tmp_path: Path) -> None:
    few = write(tmp_path, workload(maxCPUs=0))
    assert "replicas   4 operators on each of GPU 0 and GPU 1" in command("plan", few, "--replicate").out
    split = tmp_path / "split.json"
    split.write_text(json.dumps({"a": 0, "b": 1, "c": 0, "d": 1}), encoding="utf-8")
    assert "stages" not in command("plan", few).out
    output = command("plan", few, "--contiguity", "none", "--expert", split).out
    assert [line.split()[:5] for line in output.splitlines() if "GPU" in line] == [
        ["0", "GPU", "0", "2", "2"],
        ["1", "GPU", "1", "2", "2"],
    ]


def test_plan_says_what_is_in_which_node_and_crosses_between_them(command: Command, tmp_path: Path) -> None:
    """Two operators on a device each; the first one's output crosses for both samples, and back as a gradient."""
    line = "forward_compute_time=1.0, backward_compute_time=2.0, activation_size=1048576.0, parameter_size=1048576.0"
    profile = tmp_path / "profile.txt"
    profile.write_text(f"node1 -- a -- {line}\nnode2 -- b -- {line}\n\tnode1 -- node2\n", encoding="utf-8")
    flags = ("--devices", 2, "--mini-batch", 2, "--micro-batches", 2, "--planner", "linear-dp")
    assert "node" not in command("plan", profile, *flags).out
    output = command("plan", profile, *flags, "--devices-per-node", 1).out
    assert "in 2 nodes" in output
    assert "nodes      4 MiB a mini-batch between 2 nodes" in output
    assert [line.split()[:4] for line in output.splitlines() if line[2:5] == "GPU"] == [
        ["0", "GPU", "0", "0"],
        ["1", "GPU", "1", "1"],
    ]
    output = command("plan", profile, *flags, "--devices-per-node", 1, "--json").json
    assert output["nodes"] == [0, 1]
    assert output["metrics"]["between_nodes_bytes"] == 2**22


def test_plan_says_what_the_load_of_gpipe_is_made_of(command: Command, tmp_path: Path) -> None:
    flags = ("--objective", "max-load", "--pipeline", "gpipe", "--transfers", "blocking", "--time-limit", 5)
    assert " forward (GPU " in command("plan", "gpt-small", *flags).out


def test_a_reader_that_leaves_early_does_not_cost_the_file(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    command = [sys.executable, "-m", "explorer", "plan", str(model), "-o", str(path)]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        subprocess.run(command, stdout=writing, stderr=subprocess.DEVNULL, check=False, timeout=240)
    finally:
        os.close(writing)
    assert json.loads(path.read_text(encoding="utf-8"))["format"] == "placement-explorer/plan"


def test_a_latency_plan_says_among_which_it_is_proved(command: Command, model: Path) -> None:
    ran = command("plan", model, "--objective", "makespan", "--execution", "call", "--subgraphs", 1)
    assert "OPTIMAL (proved; at most 1 subgraph of one device)" in ran.out
    compared = command(
        "compare", model, "--objective", "makespan", "--execution", "call", "--planners", "single", "--time-limit", 3
    )
    assert "asked for  any number of subgraphs, at most 3 s a planner" in compared.out


def test_flags_override_the_file(command: Command, model: Path) -> None:
    printed = command("plan", model, "--devices", 4, "--memory", "10", "--cpus", 0, "--json").json
    assert sorted(printed["placement"].values()) == [0, 1, 2, 3]
    assert printed["metrics"]["peak_memory_bytes"] == [10, 10, 10, 10]


def test_pins_hold(command: Command, model: Path) -> None:
    printed = command("plan", model, "--pin", "a=1", "--pin", "d=1", "--json").json
    assert (printed["placement"]["a"], printed["placement"]["d"]) == (1, 1)


def test_options_reach_the_planner(command: Command, model: Path) -> None:
    printed = command("plan", model, "--planner", "brute-force:placement-limit=5000", "--json").json
    assert printed["planner_options"]["placement_limit"] == 5000


def test_the_version_is_that_of_the_package(command: Command) -> None:
    assert command("--version").out == f"placement-explorer {version('placement-explorer')}\n"


def test_a_file_named_by_a_dash_is_standard_output_and_all_else_goes_to_stderr(
    model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = Command(capfd)
    planned = command("plan", model, "-o", "-")
    assert (planned.status, planned.json["format"]) == (0, "placement-explorer/plan")
    assert "objective" in planned.err
    Path("plan.json").write_text(planned.out)
    assert command("export", "plan.json", "--to", "gantt-svg", "-o", "-").out.startswith("<svg")
    assert command("trace", model, "-o", "-").json["format"] == "placement-explorer/graph"
    assert {path.name for path in tmp_path.iterdir()} == {model.name, "plan.json"}


def test_a_file_and_json_do_not_share_standard_output(command: Command, model: Path) -> None:
    assert "leave one of them out" in command.refused("plan", model, "-o", "-", "--json")


def test_a_kind_is_known_in_any_case_and_by_the_nearest_name(command: Command) -> None:
    def plan(kind: str) -> tuple[object, ...]:
        return ("plan", "gpt-small", "--devices", 2, "--planner", "equal", "--device-kind", kind)

    assert "on 2 x A100-80GB" in command(*plan("a100-80gb")).out
    assert "on 1 x A100-80GB + 1 x L4-24GB" in command(*plan("a100-80gb,l4-24gb")).out
    assert command.refused(*plan("a100-90gb")).endswith("did you mean 'A100-80GB'?")


def test_a_dtype_is_known_by_its_long_name(command: Command) -> None:
    long, short = (command("trace", "gpt-small", "--dtype", name).out for name in ("torch.bfloat16", "bf16"))
    assert long == short


def test_help_says_which_files_are_models(command: Command) -> None:
    assert ".onnx" in command("plan", "--help").out


def test_infeasible_ends_with_3_and_says_what_would_fit(command: Command, model: Path) -> None:
    ran = command("plan", model, "--memory", "15", "--cpus", 0, "--json")
    printed = ran.json
    assert (ran.status, printed["status"]) == (3, "INFEASIBLE")
    assert (printed["objective_s"], printed["metrics"], printed["placement"]) == (None, None, None)
    why = printed["infeasible"]
    assert why["operators"]
    assert why["cap_lower_bound_bytes"] == 20
    assert why["smallest_cap_bytes"] == 20


def test_infeasible_for_people(command: Command, model: Path) -> None:
    ran = command("plan", model, "--memory", "15", "--cpus", 0)
    assert ran.status == 3
    assert "too large" in ran.out
    assert "proved: nothing fits below 20 B" in ran.out
    assert "a plan was found at 20 B" in ran.out


def test_no_plan_ends_with_4(command: Command, tmp_path: Path) -> None:
    # 60 + 60 bytes do not fit in 100: an equal split fails, which proves nothing
    heavy = workload(maxCPUs=0)
    for node in heavy["nodes"][:3]:
        node["size"] = 60.0
    path = write(tmp_path, heavy)
    ran = command("plan", path, "--planner", "equal", "--json")
    assert (ran.status, ran.json["status"], ran.json["placement"]) == (4, "NO_PLAN", None)
    assert "a larger --memory may find one" in command("plan", path, "--planner", "equal").out


def test_a_plan_file_can_be_simulated_and_checked(command: Command, plan_file: Path) -> None:
    checked = command("check", plan_file)
    assert checked.status == 0
    assert "valid; " in checked.out
    assert command("check", plan_file, "--json").json["violations"] == []
    shown = command("simulate", plan_file)
    assert shown.status == 0
    assert "0F0" in shown.out
    printed = command("simulate", plan_file, "--json").json
    assert printed["makespan_s"] == max(span["end_s"] for span in printed["spans"])


def test_simulate_writes_a_chrome_trace(command: Command, plan_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    assert command("simulate", plan_file, "--chrome-trace", path).status == 0
    events = json.loads(path.read_text())["traceEvents"]
    assert {event["ph"] for event in events} >= {"M", "X"}


def test_check_lists_the_rules_that_a_plan_breaks(command: Command, plan_file: Path) -> None:
    value = json.loads(plan_file.read_text())
    stages = value["plan"]["stages"]
    stages[0]["operators"], stages[1]["operators"] = stages[0]["operators"][:1], stages[1]["operators"]
    plan_file.write_text(json.dumps(value))
    ran = command("check", plan_file)
    assert ran.status == 2
    assert "is in no stage" in ran.out
    assert ran.err.startswith(f"placement-explorer: error: {plan_file}: the plan breaks a rule")
    assert ran.err.count("\n") == 1
    assert "is in no stage" in command.refused("simulate", plan_file)


def test_check_notices_an_objective_that_is_not_the_plan_s(command: Command, plan_file: Path) -> None:
    value = json.loads(plan_file.read_text())
    value["result"].update(objective_s=1e-3, bound_s=0.0)
    plan_file.write_text(json.dumps(value))
    assert "the file says its objective is 0.001 s" in command("check", plan_file).out


def test_trace_writes_a_graph_that_plans_alike(command: Command, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    assert command("trace", model, "-o", path).status == 0
    printed = [command("plan", name, "--planner", "brute-force", "--json").json for name in (model, path)]
    assert printed[0]["objective_s"] == printed[1]["objective_s"]
    assert printed[0]["placement"] == printed[1]["placement"]


def test_trace_describes_the_graph(command: Command, model: Path) -> None:
    printed = command("trace", model, "--json").json
    assert (printed["operators"], printed["tensors"], printed["training"]) == (4, 3, False)


def test_a_demo_is_traced_and_planned(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    printed = command("plan", "gpt-small", "--devices", 2, "--planner", "equal", "-o", path, "--json").json
    assert printed["status"] in ("FEASIBLE", "OPTIMAL")
    assert set(printed["placement"].values()) == {0, 1}
    assert command("check", path).status == 0


def test_one_error_of_the_planner_is_one_line(command: Command, model: Path) -> None:
    message = command.refused("plan", model, "--planner", "brute-force:placement-limit=1")
    assert "brute-force" in message


def test_a_defect_of_a_planner_is_not_called_bad_input(
    command: Command, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> bool:
        raise InvalidPlan("a stage has no operators")

    monkeypatch.setattr(PLANNERS["single"], "__call__", broken)
    ran = command("plan", model, "--planner", "single")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == "placement-explorer: internal error: a stage has no operators (please report it)\n"


def test_a_placement_made_by_hand_is_judged(command: Command, model: Path, tmp_path: Path) -> None:
    """Four operators of 4 ms, two on each device; the tensor between costs 1 ms on both."""
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"a": 0, "b": 0, "c": 1, "d": 1}))
    printed = command("plan", model, "--expert", path, "--json").json
    assert (printed["planner"], printed["placement"]) == ("expert", {"a": 0, "b": 0, "c": 1, "d": 1})
    rows = command("compare", model, "--expert", path, "--planners", "single", "--json").json
    assert {row["planner"] for row in rows} == {"single", "expert"}
    path.write_text(json.dumps({"nobody": 0}))
    assert "nobody" in command.refused("plan", model, "--expert", path)
    assert "leave out --planner" in command.refused("plan", model, "--expert", path, "--planner", "single")


def test_a_bad_part_of_a_models_name_is_one_line_wherever_it_is_read(command: Command, tmp_path: Path) -> None:
    """Flags before a model become a part of its name while they are read."""
    assert "batch must be a whole number" in command.refused("plan", "--batch", 3, "gpt-small,batch=y")
    counts = tmp_path / "counts.json"
    assert "no such file" in command.refused("plan", "gpt-small", "--expert-parallel", 2, "--expert-load", counts)
    counts.write_text("[4, 1, 1, 2]")
    assert "add --expert-parallel N" in command.refused("plan", "gpt-small", "--devices", 2, "--expert-load", counts)
    assert "add --expert-parallel N" in command.refused("plan", "gpt-small", "--devices", 2, "--expert-load", 2)
    assert "1 to 999" in command.refused("plan", "gpt-small", "--expert-parallel", 2, "--expert-load", 0.5)


@pytest.mark.slow
def test_redundant_experts_are_placed_by_a_file_of_counts(command: Command, tmp_path: Path) -> None:
    """Flags come in any order; 8 experts of which the first is chosen most."""
    model, counts = "tests.explorer.runner.model.mixtures:gpt", tmp_path / "counts.json"
    counts.write_text("[80, 10, 10, 10, 10, 10, 10, 20]")
    group = ("--devices", 4, "--devices-per-node", 4, "--mini-batch", 16, "--expert-parallel", 4)
    load, plan = ("--expert-load", counts), tmp_path / "plan.json"
    few = command("plan", "--redundant-experts", 4, model, *group, *load, "-o", plan, "--json").json
    none = command("plan", model, *load, *group, "--json").json
    assert few["sent_bytes"]["all_reduce"][0] > none["sent_bytes"]["all_reduce"][0]
    assert few["sent_bytes"]["all_to_all"][0] == pytest.approx(none["sent_bytes"]["all_to_all"][0] / 2.25)
    assert any("8 experts and 4 redundant ones" in note for note in few["notes"])
    assert any("4 of them redundant: the busiest has 1 times the mean, no packing" in note for note in few["notes"])
    assert any("without redundant ones it would have 2.25" in note for note in few["notes"])
    assert "redundant experts in a group are planned for and not run" in command.refused("run", plan, "--allow-model")
    for launcher in ("megatron", "torchtitan"):
        assert "4 redundant experts" in command.refused("export", plan, "--to", launcher, "-o", tmp_path / "out")
    assert "valid" in command("check", plan).out
    more = ("--redundant-experts", 4)
    for flags, why in (
        ((*group, *more, "--expert-load", 1.5), "does not say which experts are chosen most"),
        ((*group, *more), "add --expert-load FILE"),
        ((*group, *load, "--redundant-experts", 3), "cannot be divided over 4 devices .*with --redundant-experts 4"),
        ((*group, *load, "--redundant-experts", 28), "give at most 24"),
        (("--tensor-parallel", 2, *load, *more), "add --expert-parallel N"),
    ):
        assert re.search(why, command.refused("plan", model, *flags)), why
    counts.write_text("[3, 1, 1, 1]")
    assert "mixtures of 8 experts, and the file" in command.refused("plan", model, *group, *load, *more)
