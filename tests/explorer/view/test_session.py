"""A session survives its query string, and nothing else gets in."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.question.settings import MemoryModel, Settings
from explorer.view.session import Choices, Look, Session, parse, parse_look, parse_query, to_dict, to_query
from solvers.errors import InvalidProblem
from solvers.problem.cluster import Wires
from solvers.problem.problem import Contiguity, Execution, Objective, Optimizer, Pipeline, Precision, Transfers
from solvers.search.effort import Effort

CHOICES = Choices(("gpt", "bert-small"), ("auto", "pipedream"), ("V100-16GB", "H100-80GB"))
FULL = Session(
    "bert-small",
    Settings(
        devices=8,
        device_kind="H100-80GB",
        memory_bytes=2.0**34,
        keep_free_bytes=2.0**30,
        cpus=1,
        bandwidth_bytes_per_s=50e9,
        latency_s=5e-6,
        links=Wires.SHARED,
        memory_model=MemoryModel.STATIC,
        objective=Objective.MAX_LOAD,
        contiguity=Contiguity.NONE,
        transfers=Transfers.LANE,
        execution=Execution.CALL,
        pipeline=Pipeline.GPIPE,
        training=False,
        dtype="bf16",
        optimizer=Optimizer.ADAFACTOR,
        precision=Precision.MIXED_FP32_GRADIENTS,
        zero=3,
        mini_batch=64,
        micro_batches=16,
        devices_per_node=4,
        max_replicas=0,
        recompute=True,
        in_sequence=True,
    ),
    "pipedream",
    2.5,
    "dark",
    Look("stages", "devices", ("auto", "pipedream/in-sequence")),
    effort=Effort.THOROUGH,
)


def test_a_session_survives_its_query_string():
    assert parse_query(to_query(FULL), CHOICES) == FULL
    assert parse_query("?" + to_query(FULL), CHOICES) == FULL


def test_a_session_survives_json():
    assert parse(to_dict(FULL), CHOICES) == FULL


def test_an_empty_query_is_the_first_model_with_defaults():
    assert parse_query("", CHOICES) == Session("gpt")
    assert to_query(Session("gpt")) == "model=gpt&v=3"


@pytest.mark.parametrize(
    ("query", "mini_batch"),
    [
        ("model=gpt&devices=8", 128),
        ("?theme=dark", 64),
        ("devices=2&objective=makespan", 32),
        ("model=gpt&device_kind=2xV100-16GB,1xH100-80GB", 48),
        ("model=gpt&devices=8&mini_batch=24", 24),
        ("model=gpt&devices=8&mini_batch=auto", 128),
        ("model=mine:build&devices=2", 32),
        ("model=workload.json&devices=8", None),
        ("model=gpt&devices=8&v=2", None),
        ("", None),
    ],
)
def test_a_link_without_a_version_means_16_samples_a_device(query, mini_batch):
    choices = Choices((*CHOICES.models, "workload.json", "mine:build"), CHOICES.planners, CHOICES.device_kinds)
    assert parse_query(query, choices).settings.mini_batch == mini_batch


@pytest.mark.parametrize(
    ("query", "pipeline"),
    [
        ("model=gpt&v=2&pipeline=1f1b", Pipeline.K_F_K_B),
        ("model=gpt&pipeline=1f1b", Pipeline.K_F_K_B),
        ("model=gpt&v=2", Pipeline.K_F_K_B),
        ("model=gpt&v=2&pipeline=gpipe", Pipeline.GPIPE),
        ("model=gpt&v=3&pipeline=1f1b", Pipeline.ONE_F_ONE_B),
        ("model=gpt&v=3", Pipeline.K_F_K_B),
    ],
)
def test_1f1b_in_a_link_of_before_leaves_planners_free_to_run_ahead(query, pipeline):
    assert parse_query(query, CHOICES).settings.pipeline is pipeline


def test_a_message_of_the_page_is_no_link():
    assert parse({"model": "gpt", "devices": 8}, CHOICES).settings.mini_batch is None


def test_a_link_of_too_many_fields_is_refused():
    with pytest.raises(InvalidProblem, match="at most 40 fields"):
        parse_query("&".join(f"x{i}=1" for i in range(41)), CHOICES)


def test_auto_empty_and_unknown_keys_mean_the_default():
    raw = {"micro_batches": "auto", "mini_batch": "", "devices": None, "flavour": "red"}
    assert parse(raw, CHOICES) == Session("gpt")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("devices", 0),
        ("devices", 16_385),
        ("devices", 2.5),
        ("devices", "many"),
        ("devices", True),
        ("devices", [4]),
        ("memory", -1),
        ("memory", "nan"),
        ("memory", "inf"),
        ("memory", 10**400),
        ("mini_batch", 10**9),
        ("time_limit", 1e9),
        ("model", "os:system"),
        ("model", "../../etc/passwd"),
        ("model", {"a": 1}),
        ("planner", "x" * 10_000),
        ("device_kind", "TPU"),
        ("objective", "fastest"),
        ("pipeline", ["gpipe"]),
        ("contiguity", "round"),
        ("contiguity", {"none": 1}),
        ("training", "maybe"),
        ("dtype", "int4"),
        ("theme", "neon"),
        ("max_replicas", -1),
        ("devices_per_node", 0),
        ("recompute", "maybe"),
        ("graph", "pie"),
        ("rows", "columns"),
        ("pair", "auto,auto"),
        ("pair", "auto,pipedream,auto"),
        ("pair", ["auto", "pipedream"]),
        ("pair", "auto,os:system"),
        ("pair", "auto,/in-sequence"),
        ("in_sequence", 2),
        ("links", "wireless"),
        ("memory_model", ["static"]),
        ("transfers", "pigeon"),
        ("execution", 1),
        ("bandwidth", 0),
        ("bandwidth", "nan"),
        ("latency", -1),
        ("cpus", 65),
        ("device_kind", "V100-16GB,TPU"),
        ("device_kind", "65xV100-16GB"),
        ("device_kind", "0xV100-16GB"),
        ("device_kind", ","),
        ("memory", "1e9,"),
        ("memory", "1e9,auto"),
        ("memory", "1e9,nan"),
        ("memory", ",".join(["1e9"] * 65)),
    ],
)
def test_anything_else_is_refused_by_name(key, value):
    with pytest.raises(InvalidProblem, match=key) as error:
        parse({key: value}, CHOICES)
    assert len(str(error.value)) < 400


def test_a_look_keeps_what_is_not_given():
    before = Look("stages", "devices", ("auto", "pipedream"))
    assert parse_look({}, CHOICES, before) == before
    assert parse_look({"graph": "operators"}, CHOICES, before).rows == "devices"
    assert parse_look({"rows": "auto", "pair": "none"}, CHOICES, before) == Look("stages")


KINDS = st.sampled_from(CHOICES.device_kinds)
CAPS = st.floats(2.0**20, 2.0**50)
DEVICES = st.integers(1, 32)


@given(
    st.builds(
        Settings,
        devices=st.none() | DEVICES,
        device_kind=st.none() | KINDS | st.lists(KINDS, min_size=1, max_size=32).map(tuple),
        memory_bytes=st.none() | CAPS | st.lists(CAPS, min_size=2, max_size=8).map(tuple),
        keep_free_bytes=st.floats(0.0, 2.0**40),
        cpus=st.none() | st.integers(0, 4),
        bandwidth_bytes_per_s=st.none() | st.floats(1e3, 1e15),
        latency_s=st.none() | st.floats(0.0, 10.0),
        links=st.none() | st.sampled_from(Wires),
        memory_model=st.sampled_from(MemoryModel),
        contiguity=st.none() | st.sampled_from(Contiguity),
        transfers=st.none() | st.sampled_from(Transfers),
        execution=st.none() | st.sampled_from(Execution),
        optimizer=st.sampled_from(Optimizer),
        precision=st.sampled_from(Precision),
        zero=st.integers(0, 3),
    )
)
def test_settings_of_devices_and_links_survive_a_link(settings):
    session = Session("gpt", settings)
    assert parse_query(to_query(session), CHOICES) == session
    assert parse(to_dict(session), CHOICES) == session


def test_a_kind_for_each_accelerator_is_written_in_runs():
    settings = Settings(device_kind=("V100-16GB", "V100-16GB", "H100-80GB"), memory_bytes=(2.0**34, 2.0**34, 2.0**36))
    shown = to_dict(Session("gpt", settings))
    assert shown["device_kind"] == "2xV100-16GB,1xH100-80GB"
    assert shown["memory"] == "17179869184,17179869184,68719476736"


def test_what_was_measured_is_requested_by_names_the_server_knows_alone():
    saved = replace(CHOICES, files=("file-" + "0" * 24,), profiles=("desk",), times=("desk", "lab"))
    session = parse({"profile": "desk", "times_file": "file-" + "0" * 24}, saved)
    assert (session.profile, session.times) == ("desk", "file-" + "0" * 24)
    assert parse_query(to_query(session), saved) == session
    assert parse({"times_file": "lab"}, saved).times == "lab"
    for field, value in (("profile", "lab"), ("times_file", "../desk"), ("times_file", ["lab"])):
        with pytest.raises(InvalidProblem, match=f"^{field}: .*leave it out$"):
            parse({field: value}, saved)
    with pytest.raises(InvalidProblem, match="no longer on the server"):
        parse({"times_file": "file-" + "1" * 24}, saved)
