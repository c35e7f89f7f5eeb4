"""A session survives its query string, and nothing else gets in."""

import pytest

from explorer.settings import Settings
from explorer.view.session import Choices, Look, Session, parse, parse_look, parse_query, to_dict, to_query
from solvers.errors import InvalidProblem
from solvers.problem import Contiguity, Objective, Pipeline

CHOICES = Choices(("gpt", "bert-small"), ("auto", "pipedream"), ("V100-16GB", "H100-80GB"))
FULL = Session(
    "bert-small",
    Settings(
        devices=8,
        device_kind="H100-80GB",
        memory_bytes=2.0**34,
        objective=Objective.MAX_LOAD,
        contiguity=Contiguity.NONE,
        pipeline=Pipeline.GPIPE,
        training=False,
        dtype="bf16",
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
)


def test_a_session_survives_its_query_string():
    assert parse_query(to_query(FULL), CHOICES) == FULL
    assert parse_query("?" + to_query(FULL), CHOICES) == FULL


def test_a_session_survives_json():
    assert parse(to_dict(FULL), CHOICES) == FULL


def test_an_empty_query_is_the_first_model_with_defaults():
    assert parse_query("", CHOICES) == Session("gpt")
    assert to_query(Session("gpt")) == "model=gpt"


def test_auto_empty_and_unknown_keys_mean_the_default():
    raw = {"micro_batches": "auto", "mini_batch": "", "devices": None, "colour": "red"}
    assert parse(raw, CHOICES) == Session("gpt")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("devices", 0),
        ("devices", 33),
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
    ],
)
def test_anything_else_is_refused_by_name(key, value):
    with pytest.raises(InvalidProblem, match=key) as error:
        parse({key: value}, CHOICES)
    assert len(str(error.value)) < 400


def test_a_look_keeps_what_is_not_said():
    before = Look("stages", "devices", ("auto", "pipedream"))
    assert parse_look({}, CHOICES, before) == before
    assert parse_look({"graph": "operators"}, CHOICES, before).rows == "devices"
    assert parse_look({"rows": "auto", "pair": "none"}, CHOICES, before) == Look("stages")
