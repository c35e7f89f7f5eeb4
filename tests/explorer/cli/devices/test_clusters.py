"""Clusters by name on the command line, and the examples of their chapter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from explorer.question.cluster_file import parse_cluster
from explorer.question.nodes.presets import OFFERED, PRESETS, preset_cluster
from tests.explorer.cli.command import Command

CHAPTER = (Path(__file__).parents[4] / "docs" / "clusters.md").read_text()
EXAMPLES = re.findall(r"```(yaml|json)\n(.*?)```", CHAPTER, re.DOTALL)


@pytest.mark.parametrize("name", OFFERED)
def test_what_is_printed_is_a_file_of_the_same_cluster(command: Command, name: str) -> None:
    assert parse_cluster(command("clusters", name).out, "printed.yaml") == preset_cluster(name)
    assert parse_cluster(command("clusters", name, "--json").out, "printed.json") == preset_cluster(name)


def test_the_list_names_them_all(command: Command) -> None:
    output = command("clusters").out
    assert all(name in output for name in OFFERED)
    assert {row["name"] for row in command("clusters", "--json").json} == set(PRESETS)
    wrong = command("clusters", "dgx-h1000")
    assert (wrong.status, "did you mean 'dgx-h100'" in wrong.err) == (2, True)


def test_a_plan_is_for_the_cluster_that_was_named(command: Command, tmp_path: Path) -> None:
    ran = command("plan", "gpt-small", "--cluster", "2xv100-node", "--effort", "quick", "--json")
    assert ran.status == 0
    assert len(ran.json["metrics"]["peak_memory_bytes"]) == 8
    clash = command("plan", "gpt-small", "--cluster", "v100-node", "--devices", 2)
    assert (clash.status, "leave out --devices" in clash.err) == (2, True)


@pytest.mark.parametrize(("kind", "text"), EXAMPLES)
def test_the_examples_of_the_chapter_are_clusters(kind: str, text: str) -> None:
    assert len(parse_cluster(text, f"example.{kind}").links) > 1


def test_the_chapter_has_an_example_of_each_form() -> None:
    assert {("nodes" in text, kind) for kind, text in EXAMPLES} >= {(True, "yaml"), (False, "json")}
