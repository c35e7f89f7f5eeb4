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
from tests.explorer.library.questions import answer, chain, search_question
from tests.instances import problem, training_graph


def test_the_same_question_has_the_same_hash() -> None:
    assert search_question().hash == search_question().hash


def test_the_same_question_has_the_same_hash_in_another_process() -> None:
    program = "from tests.explorer.library.questions import search_question; print(search_question().hash)"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output.strip() == search_question().hash


def _renamed() -> SearchQuestion:
    of = chain()
    graph = of.graph
    operators = (replace(graph.operators[0], name="other"), *graph.operators[1:])
    return search_question(replace(of, graph=OpGraph(operators, graph.tensors, graph.samples, graph.name)))


OTHERS = {
    "costs": lambda: search_question(chain(2.0)),
    "a cost in its last digit": lambda: search_question(chain(1.0 + 2**-52)),
    "devices": lambda: search_question(chain(gpus=3)),
    "memory": lambda: search_question(chain(memory=1e6)),
    "bandwidth": lambda: search_question(chain(bandwidth=2.0)),
    "latency": lambda: search_question(chain(latency=0.5)),
    "objective": lambda: search_question(chain(objective=Objective.MAX_LOAD)),
    "contiguity": lambda: search_question(chain(contiguity=Contiguity.NONE)),
    "pipeline": lambda: search_question(chain(pipeline=Pipeline.GPIPE)),
    "replicas": lambda: search_question(chain(max_replicas=2)),
    "pins": lambda: search_question(chain(pins={0: 1})),
    "a name": _renamed,
    "planner": lambda: search_question(planner=SingleDevice()),
    "effort": lambda: search_question(effort=Effort.QUICK),
    "seed": lambda: search_question(seed=1),
    "time limit": lambda: search_question(time_limit_s=10.0),
    "gap": lambda: search_question(gap=0.01),
    "starting plan": lambda: search_question(start=answer(search_question()).plan),
}


@pytest.mark.parametrize("what", OTHERS)
def test_another_question_has_another_hash(what: str) -> None:
    assert OTHERS[what]().hash != search_question().hash


def test_all_questions_differ() -> None:
    assert len({make().hash for make in OTHERS.values()}) == len(OTHERS)


@pytest.mark.parametrize(("option", "value"), [("downset_budget", 1000), ("work", 7)])
def test_an_option_of_a_planner_is_part_of_the_question(option: str, value: object) -> None:
    plain = DownsetDP()
    assert getattr(plain, option) != value
    assert search_question(planner=replace(plain, **{option: value})).hash != search_question(planner=plain).hash


def test_a_placement_by_hand_is_part_of_the_question() -> None:
    one, other = (search_question(planner=Expert(placement=(0,) * 7 + (last,))) for last in (0, 1))
    assert one.nameable
    assert one.hash != other.hash


def test_other_code_is_another_question(monkeypatch: pytest.MonkeyPatch) -> None:
    now = search_question().hash
    monkeypatch.setattr(question_key, "versions", lambda: {**versions(), "solvers": "0" * 16})
    assert search_question().hash != now


def test_a_planner_of_somebody_else_is_not_nameable() -> None:
    @dataclass(frozen=True)
    class Custom(EqualSplit):
        pass

    assert not search_question(planner=Custom()).nameable
    assert search_question(planner=EqualSplit()).nameable


@pytest.mark.parametrize("name", PLANNERS)
def test_every_planner_has_options_that_can_be_named(name: str) -> None:
    one = search_question(planner=PLANNERS[name]())
    assert one.nameable
    assert len(one.hash) == 64


def test_every_field_of_a_problem_is_part_of_the_question() -> None:
    """A new one has to be written by `problem_json` or `graph_json` before it is added here."""
    shown = set(problem_json(chain())) | {"graph"}
    assert {field.name for field in fields(Problem)} - shown == {
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
    assert not search_question(replace(chain(), repeats=Repeats(2))).nameable
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
    assert len({search_question(of).hash for of in (chain(), chain(max_replicas=2), *changed)}) == 11


def test_what_plans_say_of_what_runs_again_is_part_of_the_question() -> None:
    plain = problem(training_graph([(0, 1)], 2), [1.0] * 4)
    assert search_question(replace(plain, recompute_operators=True)).hash != search_question(plain).hash


def test_the_hash_of_sources_tells_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    first = sources_hash(tmp_path)
    (tmp_path / "a.py").write_text("x = 2\n")
    second = sources_hash(tmp_path)
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert len({first, second, sources_hash(tmp_path)}) == 3


def test_every_version_is_stated() -> None:
    shown = versions()
    assert shown["numpy"][0].isdigit()
    assert shown["python"].startswith("3.")
    assert all(shown.values())


def test_judging_changes_nothing_of_the_question() -> None:
    one = search_question()
    before = one.hash
    judge(one.problem, answer(one).plan)
    assert search_question(one.problem).hash == before
