"""One hash of everything that an answer depends on."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path

import pytest

from explorer.library import question_key
from explorer.library.made_by import versions
from explorer.library.question_key import SearchQuestion
from explorer.question.graphs.sources import sources_hash
from solvers.contiguous.planners.downset_dp import DownsetDP
from solvers.evaluation.evaluate import judge
from solvers.formats.problem_json import problem_json
from solvers.planners.baselines import EqualSplit, SingleDevice
from solvers.planners.expert import Expert
from solvers.planners.registry import PLANNERS
from solvers.problem.cluster import Link, Repeats
from solvers.problem.engine import EngineCosts
from solvers.problem.graph import OpGraph
from solvers.problem.problem import Contiguity, Objective, Pipeline, Precision, Problem
from solvers.search.effort import Effort
from tests.explorer.library.questions import answer, asked, chain
from tests.instances import problem, training_graph


def test_the_same_question_has_the_same_hash() -> None:
    assert asked().hash == asked().hash


def test_the_same_question_has_the_same_hash_in_another_process() -> None:
    program = "from tests.explorer.library.questions import asked; print(asked().hash)"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert told.strip() == asked().hash


def _renamed() -> SearchQuestion:
    of = chain()
    graph = of.graph
    operators = (replace(graph.operators[0], name="other"), *graph.operators[1:])
    return asked(replace(of, graph=OpGraph(operators, graph.tensors, graph.samples, graph.name)))


OTHERS = {
    "costs": lambda: asked(chain(2.0)),
    "a cost in its last digit": lambda: asked(chain(1.0 + 2**-52)),
    "devices": lambda: asked(chain(gpus=3)),
    "memory": lambda: asked(chain(memory=1e6)),
    "bandwidth": lambda: asked(chain(bandwidth=2.0)),
    "latency": lambda: asked(chain(latency=0.5)),
    "objective": lambda: asked(chain(objective=Objective.MAX_LOAD)),
    "contiguity": lambda: asked(chain(contiguity=Contiguity.NONE)),
    "pipeline": lambda: asked(chain(pipeline=Pipeline.GPIPE)),
    "replicas": lambda: asked(chain(max_replicas=2)),
    "pins": lambda: asked(chain(pins={0: 1})),
    "a name": _renamed,
    "planner": lambda: asked(planner=SingleDevice()),
    "effort": lambda: asked(effort=Effort.QUICK),
    "seed": lambda: asked(seed=1),
    "time limit": lambda: asked(time_limit_s=10.0),
    "gap": lambda: asked(gap=0.01),
    "starting plan": lambda: asked(start=answer(asked()).plan),
}


@pytest.mark.parametrize("what", OTHERS)
def test_another_question_has_another_hash(what: str) -> None:
    assert OTHERS[what]().hash != asked().hash


def test_all_questions_differ() -> None:
    assert len({make().hash for make in OTHERS.values()}) == len(OTHERS)


@pytest.mark.parametrize(("option", "value"), [("downset_budget", 1000), ("work", 7)])
def test_an_option_of_a_planner_is_part_of_the_question(option: str, value: object) -> None:
    plain = DownsetDP()
    assert getattr(plain, option) != value
    assert asked(planner=replace(plain, **{option: value})).hash != asked(planner=plain).hash


def test_a_placement_by_hand_is_part_of_the_question() -> None:
    one, other = (asked(planner=Expert(placement=(0,) * 7 + (last,))) for last in (0, 1))
    assert one.nameable
    assert one.hash != other.hash


def test_other_code_is_another_question(monkeypatch: pytest.MonkeyPatch) -> None:
    now = asked().hash
    monkeypatch.setattr(question_key, "versions", lambda: {**versions(), "solvers": "0" * 16})
    assert asked().hash != now


def test_a_planner_of_somebody_else_is_not_nameable() -> None:
    @dataclass(frozen=True)
    class Mine(EqualSplit):
        pass

    assert not asked(planner=Mine()).nameable
    assert asked(planner=EqualSplit()).nameable


@pytest.mark.parametrize("name", PLANNERS)
def test_every_planner_has_options_that_can_be_named(name: str) -> None:
    one = asked(planner=PLANNERS[name]())
    assert one.nameable
    assert len(one.hash) == 64


def test_every_field_of_a_problem_is_part_of_the_question() -> None:
    """A new one has to be written by `problem_json` or `graph_json` before it is added here."""
    told = set(problem_json(chain())) | {"graph"}
    assert {field.name for field in fields(Problem)} - told == {
        "precision",
        "zero",
        "plain",
        "engine",
        "copy_tied",
        "recompute_operators",
        "host_links",
        "state_links",
        "group_link",
        "group_sum_link",
        "outer_link",
        "repeats",
    }  # if not default, but repeats: such a part of a question is none that is kept
    assert not asked(replace(chain(), repeats=Repeats(2))).nameable
    changed = (
        replace(chain(), precision=Precision.MIXED),
        replace(chain(max_replicas=2), zero=1),
        replace(chain(), copy_tied=True),
        replace(chain(), host_links={"gpu": 1e9}),
        replace(chain(), state_links={"gpu": 1e9}),
        replace(chain(), engine=EngineCosts(*[0.5] * len(fields(EngineCosts)))),
        replace(chain(), group_link=Link(0, 1, 1e9)),
        replace(chain(), group_sum_link=Link(0, 1, 1e9)),
        replace(chain(), outer_link=Link(0, 1, 1e9)),
    )
    assert len({asked(of).hash for of in (chain(), chain(max_replicas=2), *changed)}) == 11


def test_what_plans_say_of_what_runs_again_is_part_of_the_question() -> None:
    plain = problem(training_graph([(0, 1)], 2), [1.0] * 4)
    assert asked(replace(plain, recompute_operators=True)).hash != asked(plain).hash


def test_the_hash_of_sources_tells_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    first = sources_hash(tmp_path)
    (tmp_path / "a.py").write_text("x = 2\n")
    second = sources_hash(tmp_path)
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert len({first, second, sources_hash(tmp_path)}) == 3


def test_every_version_is_stated() -> None:
    told = versions()
    assert told["numpy"][0].isdigit()
    assert told["python"].startswith("3.")
    assert all(told.values())


def test_judging_changes_nothing_of_the_question() -> None:
    one = asked()
    before = one.hash
    judge(one.problem, answer(one).plan)
    assert asked(one.problem).hash == before
