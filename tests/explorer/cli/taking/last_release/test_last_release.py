"""What the last release wrote and took, this one opens.

The files of this folder were made at `surface.json`'s commit: links and their sessions by `view.session`, plans by
`plan -o`; notebooks are those of docs/examples, without outputs.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import explorer
from demo_models import MODELS
from explorer.cli import make_parser
from explorer.costs.devices import DEVICES
from explorer.view.session import Choices, parse_query, to_dict
from solvers.planners.registry import PLANNERS
from tests.notebook.save_notebooks import executed

HERE = Path(__file__).parent
SURFACE = json.loads((HERE / "surface.json").read_text(encoding="utf-8"))
LINKS = list(zip(SURFACE["links"], SURFACE["sessions"], strict=True))
PLANS = sorted(HERE.glob("*.plan.json"))
NOTEBOOKS = sorted(HERE.glob("*.ipynb"))


@pytest.mark.parametrize(("link", "session"), LINKS, ids=["everything set", "one pass", "model only"])
def test_its_links_mean_what_they_meant(link: str, session: dict[str, object]) -> None:
    choices = Choices(models=tuple(MODELS), planners=tuple(PLANNERS), device_kinds=tuple(DEVICES))
    wanted = {**session, **({"recompute": "stage"} if session.get("recompute") else {})}  # a choice now
    assert to_dict(parse_query(link, choices)) == wanted


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.name.split(".")[0])
def test_its_plans_keep_every_rule_and_have_the_time_that_they_state(path: Path) -> None:
    stated = json.loads(path.read_text(encoding="utf-8"))["result"]["objective_s"]
    assert explorer.load(str(path)).objective_s == pytest.approx(stated, rel=1e-9)


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.name.split(".")[0])
def test_its_plans_are_reviewed_compared_and_exported(path: Path) -> None:
    assert all(line.verdict.name != "FAIL" for line in explorer.review(str(path)).lines)
    assert not explorer.diff(str(path), str(path)).moved
    assert explorer.export(str(path), "gantt-svg").startswith(b"<svg")


def test_its_commands_have_their_flags() -> None:
    today = dict(_flags(make_parser(), ""))
    missing = {command: sorted({*flags} - today.get(command, set())) for command, flags in SURFACE["flags"].items()}
    assert {command: flags for command, flags in missing.items() if flags} == {}


@pytest.mark.parametrize("name", SURFACE["functions"])
def test_its_functions_take_their_arguments_by_name(name: str) -> None:
    assert [*SURFACE["functions"][name]] == [one for one in SURFACE["functions"][name] if one in _parameters(name)]


def test_its_widget_has_its_traits() -> None:
    assert {*SURFACE["traits"]} <= {*explorer.PlacementWidget.class_own_traits()}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_notebooks_call_with_arguments_that_there_are(path: Path) -> None:
    calls = list(_calls(path))
    assert calls
    for name, call in calls:
        assert name in SURFACE["names"]
        assert {one.arg for one in call.keywords} <= _parameters(name)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_notebooks_run(path: Path) -> None:
    pytest.importorskip("nbclient", reason="nbclient is not installed")
    cells = executed(path).cells
    assert all(output.output_type != "error" for cell in cells for output in cell.outputs)


def _flags(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, set[str]]]:
    """Each command by its words, with its long flags."""
    yield name, {flag for action in parser._actions for flag in action.option_strings}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, command in action.choices.items():
                yield from _flags(command, f"{name} {word}".strip())


def _parameters(name: str) -> set[str]:
    called: Callable[..., object] = getattr(explorer, name)
    if name == "PlacementWidget":
        return {*explorer.PlacementWidget.class_own_traits()}
    return {*inspect.signature(called).parameters}


def _calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """Calls of `explorer`'s names in a notebook."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        for node in ast.walk(ast.parse("".join(cell["source"]))):
            called = node.func if isinstance(node, ast.Call) else None
            named = called.value if isinstance(called, ast.Attribute) else None
            if isinstance(named, ast.Name) and named.id == "explorer":
                yield called.attr, node
