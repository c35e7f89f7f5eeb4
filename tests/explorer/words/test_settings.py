"""A setting is declared once: one entry, and it is everywhere; and what was released is still taken."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import explorer
from explorer.cli.listings.settings import reference, schema
from explorer.question.questions import question_of
from explorer.question.settings import (
    GROUPS,
    ClusterSettings,
    MemorySettings,
    PipelineSettings,
    SearchSettings,
    Settings,
    TrainingSettings,
    declared,
)
from explorer.question.written.declaring import OWN
from explorer.view.session import parse_query, to_query
from solvers.errors import InvalidProblem
from tests.explorer.view.test_session import CHOICES, FULL

ROOT = Path(__file__).parents[3]
NEW = """    headroom_bytes: float = setting(
        0.0, SIZE, "room for what nobody counts", name="headroom", metavar="SIZE",
        control=Control(
            id="head-room", label="Headroom, GiB", meaning="Room that stays.", shape=NUMBER, place=RARE, unit=GIB,
            in_widget=True,
        ),
    )
"""
SETTING_IN = "    keep_free_bytes: float = setting("
PLACES = """
import sys, types, json
import explorer.question
module = types.ModuleType("explorer.question.settings")
sys.modules[module.__name__] = explorer.question.settings = module
exec(compile(sys.stdin.read(), "settings.py", "exec"), module.__dict__)

import argparse, inspect
import explorer
from explorer.cli import make_parser
from explorer.cli.flags import settings_of
from explorer.cli.listings.settings import reference, schema
from explorer.notebook.messages import SETTABLE
from explorer.notebook.widget import PlacementWidget
from explorer.question.questions import question_of
from explorer.view.lessons.lesson import LIGHTS
from explorer.view.session import Choices, Session, parse_query, to_query
from explorer.web.contract.backend import Catalogue, KindEntry, ModelEntry, PlannerEntry
from explorer.web.contract.terms import TERMS
from explorer.web.layout import page
from explorer.web.serving.callbacks import register
from dash import Dash

parser = make_parser()
commands = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction)).choices
choices = Choices(("gpt",), ("auto",), ("H100-80GB",))
session = parse_query("headroom=2147483648&v=2", choices)
app = Dash("test")
register(app)
heard = [f"{one['id']}.{one['property']}" for call in app.callback_map.values() for one in call["inputs"]]
catalogue = Catalogue((ModelEntry("gpt"),), (PlannerEntry("auto", "heuristic"),), (KindEntry("H100-80GB", 2.0**36),))
drawn = json.dumps(page(catalogue, session).to_plotly_json(), default=lambda part: part.to_plotly_json())
try:
    question_of({"hedroom": 1})
    refused = ""
except ValueError as error:
    refused = str(error)
print(json.dumps({
    "help": "--headroom SIZE" in commands["plan"].format_help(),
    "flag": settings_of(parser.parse_args(["plan", "gpt", "--headroom", "2GiB"])).headroom_bytes == 2.0**31,
    "link": session.settings.headroom_bytes == 2.0**31 and "headroom=2147483648" in to_query(session),
    "argument": "headroom" in inspect.signature(explorer.plan).parameters,
    "flat": question_of({"headroom": "2GiB"}).headroom_bytes == 2.0**31,
    "group": question_of({"memory": module.MemorySettings(headroom="2GiB")}).headroom_bytes == 2.0**31,
    "refusal": "did you mean 'headroom'?" in refused,
    "trait": "headroom" in PlacementWidget.class_trait_names(sync=True) and "headroom" in SETTABLE,
    "control": '"id": "head-room", "value": 2.0' in drawn or "head-room" in drawn,
    "heard by the page": "head-room.value" in heard,
    "found by scripts": '["headroom", "head-room", "number", 1073741824.0, "rare", ""]' in drawn,
    "words": TERMS["head-room"].meaning == "Room that stays.",
    "lesson": "headroom" in LIGHTS,
    "schema": "headroom" in schema()["properties"],
    "reference": "| `headroom` | `--headroom` | `headroom`" in reference(),
}))
"""

RELEASED_LINK = (
    "model=bert-small&devices=8&device_kind=H100-80GB&memory=17179869184&keep_free=1073741824&cpus=1"
    "&bandwidth=50000000000&latency=5e-06&links=shared&memory_model=static&objective=max-load&contiguity=none"
    "&transfers=lane&execution=call&pipeline=gpipe&training=false&dtype=bf16&optimizer=adafactor"
    "&precision=mixed-fp32-gradients&zero=3&mini_batch=64&micro_batches=16&devices_per_node=4&max_replicas=all"
    "&recompute=true&in_sequence=true&planner=pipedream&time_limit=2.5&effort=thorough&theme=dark&graph=stages"
    "&rows=devices&pair=auto%2Cpipedream%2Fin-sequence&v=2"
)
RELEASED_ARGUMENTS = (
    "model devices memory planner objective device_kind keep_free cpus bandwidth latency devices_per_node"
    " node_bandwidth links cluster profile times memory_model contiguity transfers execution pipeline optimizer"
    " precision zero mini_batch micro_batches max_replicas recompute mixed_micro_batches in_sequence copy_tied"
    " subgraphs_per_device pins together start effort time_limit_s gap seed should_stop library fresh"
)
RELEASED_FLAGS = (
    "--bandwidth --cluster --contiguity --copy-tied --cpus --device-kind --devices --devices-per-node --dtype --effort"
    " --execution --gap --in-sequence --inference --keep-free --latency --links --memory --memory-model --micro-batches"
    " --mini-batch --mixed-micro-batches --node-bandwidth --objective --optimizer --pin --pipeline --planner"
    " --precision --profile --recompute --replicate --seed --subgraphs --time-limit --times --together --training"
    " --zero"
)


def test_one_entry_is_in_all_that_is_made_from_settings() -> None:
    pytest.importorskip("dash")
    pytest.importorskip("anywidget")
    source = (ROOT / "explorer/question/settings.py").read_text(encoding="utf-8")
    assert source.count(SETTING_IN) == 1
    changed = source.replace(SETTING_IN, NEW + SETTING_IN)
    ran = subprocess.run([sys.executable, "-c", PLACES], input=changed, capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    listed = json.loads(ran.stdout.splitlines()[-1])
    assert [place for place, there in listed.items() if not there] == []


def test_the_reference_is_current() -> None:
    written = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    assert written == reference(), "write it anew: placement-explorer settings > docs/settings.md"


def test_what_was_released_is_still_taken() -> None:
    from explorer.cli import make_parser

    assert parse_query(RELEASED_LINK, CHOICES) == FULL
    assert parse_query(to_query(FULL), CHOICES) == FULL
    assert set(RELEASED_ARGUMENTS.split()) <= set(inspect.signature(explorer.plan).parameters)
    assert list(inspect.signature(explorer.plan).parameters)[:4] == RELEASED_ARGUMENTS.split()[:4]
    commands = next(action for action in make_parser()._actions if isinstance(action.choices, dict)).choices
    assert isinstance(commands, dict)
    flags = {flag for action in commands["plan"]._actions for flag in action.option_strings}
    assert set(RELEASED_FLAGS.split()) <= flags


def test_groups_and_flat_names_ask_the_same() -> None:
    flat = question_of(
        {"devices": 3, "memory": "16GiB", "keep_free": "1GiB", "optimizer": "sgd", "recompute": "layers", "seed": 7}
    )
    grouped = question_of(
        {
            "cluster": ClusterSettings(devices=3),
            "memory": MemorySettings(memory="16GiB", keep_free=2**30),
            "training": TrainingSettings(optimizer="sgd"),
            "pipeline": PipelineSettings(recompute="layers"),
            "search": SearchSettings(seed=7),
        }
    )
    assert flat == grouped
    assert grouped.memory_bytes == 2.0**34
    planned = [
        explorer.plan("gpt-small", devices=2, planner="equal"),
        explorer.plan(
            "gpt-small", cluster=explorer.ClusterSettings(devices=2), search=explorer.SearchSettings(planner="equal")
        ),
    ]
    assert planned[0].plan == planned[1].plan


def test_what_is_unknown_or_given_twice_is_refused_by_name() -> None:
    with pytest.raises(InvalidProblem, match=r"there is no setting 'keep_fre'; did you mean 'keep_free'\?"):
        explorer.plan("gpt-small", keep_fre="1GiB")
    with pytest.raises(InvalidProblem, match="there is no setting 'optimiser'; did you mean 'optimizer'"):
        TrainingSettings(optimiser="adam")
    with pytest.raises(InvalidProblem, match="devices is given twice"):
        question_of({"devices": 4, "cluster": ClusterSettings(devices=3)})
    with pytest.raises(InvalidProblem, match="memory_bytes is given twice"):
        Settings(memory=2**30, memory_bytes=2**30)


def test_names_flags_links_and_controls_are_each_of_one_setting() -> None:
    every = declared()
    for names in (
        [one.name for one in every],
        [one.flag for one in every],
        [one.link for one in every if one.link],
        [one.control.id for one in every if one.control is not None],
    ):
        assert len(names) == len(set(names))
    assert set(schema()["properties"]) == {one.name for one in every}
    assert sum(len(declared(group)) for group in GROUPS) == len(every)


def test_defaults_are_values_of_their_kinds() -> None:
    for one in declared():
        assert one.kind.read(one.name, one.default) == one.default
        if one.link and one.default is not None and (shown := one.kind.to_link(one.default)) is not None:
            assert one.kind.from_link(one.link, shown, ("auto",)) == one.default


def test_scripts_find_controls_by_what_is_declared() -> None:
    """Only those that scripts make of several controls, or whose choices grow, are named there."""
    source = (ROOT / "assets/controls.js").read_text(encoding="utf-8")
    named = set(re.findall(r'"([a-z-]+)"', source))
    ids = {one.control.id for one in declared() if one.control is not None and one.control.shape != OWN}
    assert named & (ids - {"planner", "objective", "bandwidth"}) == set()  # the others are keys, too
