"""Every broken input gives exit status 2 and one line that says what, where and what to do."""

from __future__ import annotations

import json
import pickle
import socket
import zipfile
from pathlib import Path

import pytest

from explorer.cli.terminal.command import print_table, printable_streams
from tests.explorer.cli.command import Command, workload, write


def test_truncated_json(command: Command, tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps(workload())[:-40])
    assert f"{path}: the JSON ends too early" in command.refused("plan", path)


def test_a_cycle(command: Command, tmp_path: Path) -> None:
    edges = [{"sourceId": i, "destId": j, "cost": 1.0} for i, j in ((0, 1), (1, 2), (2, 0))]
    assert "cycle" in command.refused("plan", write(tmp_path, workload(edges=edges)))


def test_a_negative_time(command: Command, tmp_path: Path) -> None:
    broken = workload()
    broken["nodes"][2]["fpgaLatency"] = -1.0
    message = command.refused("plan", write(tmp_path, broken))
    assert "fpgaLatency" in message
    assert "-1" in message


def test_a_time_that_is_not_a_number(command: Command, tmp_path: Path) -> None:
    broken = workload()
    broken["nodes"][2]["fpgaLatency"] = float("nan")
    assert "NaN" in command.refused("plan", write(tmp_path, broken))


def test_an_unknown_operator_in_a_pin_names_the_closest(command: Command, tmp_path: Path) -> None:
    named = workload()
    named["nodes"][1]["name"] = "attention"
    message = command.refused("plan", write(tmp_path, named), "--pin", "atention=0")
    assert message == "pin atention=0: there is no operator or module 'atention'; did you mean 'attention'?"


def test_a_pin_on_a_device_that_is_not_there(command: Command, model: Path) -> None:
    assert "there is no device 9" in command.refused("plan", model, "--pin", "a=9")


def test_a_pin_without_a_device(command: Command, model: Path) -> None:
    assert "expected a pin OPERATOR=DEVICE" in command.refused("plan", model, "--pin", "a")


@pytest.mark.parametrize("device", ["9" * 5000, "1\n2", "-1", "1.0", "\x00"])
def test_a_pin_with_an_index_that_is_none(command: Command, model: Path, device: str) -> None:
    message = command.refused("plan", model, f"--pin=a={device}")
    assert "expected a pin OPERATOR=DEVICE" in message
    assert len(message) < 500


def test_a_number_of_thousands_of_digits_is_shown_in_a_few(command: Command, tmp_path: Path) -> None:
    message = command.refused("plan", write(tmp_path, '{"nodes": [' + "9" * 4000 + "]}"))
    assert len(message) < 500
    assert len(command.refused("plan", tmp_path, "--devices", "9" * 4000)) < 500


def test_zero_devices(command: Command, model: Path) -> None:
    assert "--devices 0 leaves no device" in command.refused("plan", model, "--devices", 0)


def test_a_pickle_renamed_pt2_is_not_opened(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(pickle.dumps(Trap(tmp_path / "trapped")))
    assert "a pickle, which could run code and is never opened" in command.refused("plan", path)
    assert not (tmp_path / "trapped").exists()


def test_a_torch_save_archive_renamed_pt2_is_not_opened(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Trap(tmp_path / "trapped")))
        archive.writestr("archive/version", "3")
    assert "a pickle made by torch.save" in command.refused("plan", path)
    assert not (tmp_path / "trapped").exists()


def test_a_damaged_archive(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(b"PK\x03\x04 and then nothing")
    assert "a damaged zip archive" in command.refused("plan", path)


def test_an_unknown_planner_names_the_closest(command: Command, model: Path) -> None:
    message = command.refused("plan", model, "--planner", "brute-farce")
    assert message.startswith("there is no planner 'brute-farce'; did you mean 'brute-force'?")


def test_an_unknown_option_of_a_planner(command: Command, model: Path) -> None:
    message = command.refused("plan", model, "--planner", "brute-force:speed=9")
    assert message.startswith("planner brute-force: there is no option 'speed'; its options: ")


def test_an_option_of_the_wrong_type(command: Command, model: Path) -> None:
    message = command.refused("plan", model, "--planner", "brute-force:placement_limit=many")
    assert message == "planner brute-force: option placement_limit: expected a whole number, found 'many'"


def test_an_unknown_model_names_the_closest(command: Command) -> None:
    assert command.refused("plan", "resnet5").startswith("there is no demo model or file 'resnet5'; did you mean 'resn")


def test_a_file_that_is_not_there(command: Command, tmp_path: Path) -> None:
    assert command.refused("plan", tmp_path / "no.json") == f"{tmp_path / 'no.json'}: no such file or directory"


def test_a_folder_in_place_of_a_file(command: Command, tmp_path: Path) -> None:
    assert "is a directory" in command.refused("plan", tmp_path)


def test_an_empty_file(command: Command, tmp_path: Path) -> None:
    assert "found an empty file" in command.refused("plan", write(tmp_path, ""))


def test_a_file_of_no_known_kind(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(b"\x00\x01\x02")
    assert "PipeDream graph.txt, .pt2 or .onnx, found a file that begins" in command.refused("plan", path)


def test_json_of_no_known_kind(command: Command, tmp_path: Path) -> None:
    assert "neither a graph.json of ours nor an MSR 2020" in command.refused("plan", write(tmp_path, {"a": 1}))


def test_an_onnx_file_that_is_none_is_refused(command: Command, tmp_path: Path) -> None:
    assert "m.onnx: not a protocol buffer" in command.refused("plan", write(tmp_path, "onnx", "m.onnx"))


def test_a_broken_line_of_a_pipedream_profile(command: Command, tmp_path: Path) -> None:
    path = write(tmp_path, "node1 -- ReLU -- forward_compute_time=1.0\n", "graph.txt")
    assert command.refused("plan", path).startswith(f"{path}: line 1: 'backward_compute_time' is missing")


def test_a_broken_piper_file(command: Command, tmp_path: Path) -> None:
    path = write(tmp_path, {"maxDevices": 2, "nodes": [], "edges": []})
    assert command.refused("plan", path) == f"{path}: maxMemoryPerDevice: missing"


def test_a_plan_where_a_model_is_expected(command: Command, plan_file: Path) -> None:
    assert "this is a plan, not a model" in command.refused("plan", plan_file)


def test_a_plan_whose_graph_was_changed(command: Command, plan_file: Path) -> None:
    value = json.loads(plan_file.read_text())
    value["graph"]["operators"][0]["name"] = "other"
    plan_file.write_text(json.dumps(value))
    for name in ("simulate", "check"):
        assert "the embedded graph is not the one that was planned" in command.refused(name, plan_file)


def test_a_truncated_plan(command: Command, plan_file: Path) -> None:
    plan_file.write_text(plan_file.read_text()[:-100])
    assert "the JSON ends too early" in command.refused("check", plan_file)


def test_a_model_where_a_plan_is_expected(command: Command, model: Path) -> None:
    assert 'expected "format": "placement-explorer/plan"' in command.refused("check", model)


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("--memory", "16 GiBs", "expected a size such as 16GiB"),
        ("--memory", "-1", "expected a size"),
        ("--memory", "0", "more than 0"),
        ("--memory", "nan", "expected a size"),
        ("--bandwidth", "25Gb/s", "is in bits"),
        ("--bandwidth", "25GB/h", "expected a bandwidth"),
        ("--latency", "10 minutes", "expected a time such as 10us"),
        ("--devices", "two", "invalid int value"),
        ("--devices", "-1", "at least 0"),
        ("--device-kind", "H100", "no device kind 'H100' with compute times in this workload"),
        ("--devices-per-node", "0", "at least 1"),
        ("--node-bandwidth", "1GB/s", "needs the number of devices per node"),
        ("--objective", "speed", "invalid choice: 'speed'"),
        ("--mini-batch", "0", "at least 1 sample"),
        ("--micro-batches", "3", "must divide the mini-batch"),
        ("--micro-batches", "0", "the number of micro-batches must be at least 1, found 0"),
        ("--micro-batches", "-1", "the number of micro-batches must be at least 1, found -1"),
        ("--planner", "pesto", "planner pesto: its transfers occupy links"),
        ("--time-limit", "0", "more than 0 seconds"),
        ("--time-limit", "nan", "more than 0 seconds"),
        ("--gap", "2", "less than 1"),
        ("--output", "/no/such/folder/plan.json", "there is no folder"),
        ("--colour", "red", "unrecognized arguments"),
    ],
)
def test_a_flag_that_makes_no_sense(command: Command, model: Path, flag: str, value: str, message: str) -> None:
    assert message in command.refused("plan", model, f"{flag}={value}")


@pytest.mark.parametrize("name", ["plan", "compare"])
@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("--micro-batches", "0", "the number of micro-batches must be at least 1, found 0"),
        ("--micro-batches", "-1", "the number of micro-batches must be at least 1, found -1"),
        ("--micro-batches", "3", "micro_batches must divide the mini-batch of 64 samples, found 3"),
        ("--mini-batch", "0", "at least 1 sample"),
        ("--devices", "0", "--devices 0 leaves no device"),
        ("--time-limit", "0", "more than 0 seconds"),
        ("--time-limit", "nan", "more than 0 seconds"),
    ],
)
def test_a_flag_that_makes_no_sense_for_a_demo(
    command: Command, name: str, flag: str, value: str, message: str
) -> None:
    assert message in command.refused(name, "dlrm-small", f"{flag}={value}")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fpgaLatency": 0.0}, "every compute time of device kind 'accelerator' is 0"),
        ({"supportedOnFpga": 0}, "operator 'a' and 3 more can run on none of the devices (accelerator)"),
    ],
)
def test_times_that_make_no_plan_or_any(
    command: Command, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    broken = workload(maxCPUs=0)
    for node in broken["nodes"]:
        node.update(changes)
    for name in ("plan", "compare"):
        assert message in command.refused(name, write(tmp_path, broken))


def test_a_comparison_of_planners_none_of_which_supports_the_question(command: Command, model: Path) -> None:
    message = command.refused("compare", model, "--planners", "heft,pesto")
    assert message.startswith("none of these planners can be asked: heft: it minimises the makespan, and")
    assert "; pesto: " in message


def test_a_workload_cannot_be_turned_into_training(command: Command, model: Path) -> None:
    assert "holds inference, so it cannot be planned for training" in command.refused("plan", model, "--training")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("no_such_module_at_all:f", "ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("json:no_such_name", "AttributeError: module 'json' has no attribute"),
        ("tests.explorer.cli.broken.test_broken_input:fails", "RuntimeError: broken on purpose"),
        (
            "tests.explorer.cli.broken.test_broken_input:nothing",
            "expected it to return (module, example inputs), found NoneType",
        ),
    ],
)
def test_a_callable_that_gives_no_model(command: Command, reference: str, message: str) -> None:
    assert message in command.refused("plan", reference)


def test_no_command_at_all(command: Command) -> None:
    assert "COMMAND" in command.refused()


def test_the_page_is_for_this_machine_only(command: Command) -> None:
    assert "served to this machine only" in command.refused("app", "--host", "0.0.0.0")


def test_a_port_that_is_taken(command: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = command.refused("app", "--port", port)
    assert message == f"cannot listen on 127.0.0.1 port {port}: address already in use; try --port {port + 1}"


@pytest.mark.parametrize("workers", ["0", "-1", "65"])
def test_so_many_workers_are_too_few_or_too_many(command: Command, workers: str) -> None:
    assert command.refused("app", "--workers", workers) == f"--workers must be from 1 to 64, found {workers}"


def fails() -> None:
    raise RuntimeError("broken on purpose\nwith a second line")


def nothing() -> None:
    return None


class Trap:
    """Unpickling one leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> object:
        return Path.touch, (self.path,)


def test_the_page_is_not_served_for_a_file_that_cannot_be_read(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text('{"nodes": [')
    assert "ends too early" in command.refused("app", str(path), "--no-browser")


def test_names_in_tables_and_errors_do_not_steer_the_terminal(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steering = "\x1b]0;stolen\x07\x9b31m"
    refusal = command.refused("run", tmp_path / f"none{steering}.json")
    with printable_streams():
        print_table([["operator", "time"], [f"linear{steering}", "2 ms"]])
    refusal += capsys.readouterr().out
    assert "linear" in refusal
    assert not {"\x1b", "\x07", "\x9b"} & set(refusal)
