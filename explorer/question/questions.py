"""A question as a person asks it in Python: settings and how to search, and the model as a workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from explorer.question.planner_choice import choose_planner
from explorer.question.settings import SearchSettings, Settings, TracingSettings, declared
from explorer.question.written.declaring import Group, settings_of, unknown
from solvers.errors import InvalidProblem
from solvers.formats.workload import Workload
from solvers.problem.graph import BACKWARD_PHASES, OpGraph

if TYPE_CHECKING:
    from solvers.search.planner import Planner


@dataclass(frozen=True, init=False)
class Question(Settings, SearchSettings):
    """Settings, and how to search: what `explorer.plan` takes, and what `make_problem` makes a problem of."""

    def chosen_planner(self) -> Planner:
        """Raises InvalidProblem for a name or option that there is not."""
        return choose_planner(self.planner) if isinstance(self.planner, str) else self.planner


PLAN = tuple(one for one in declared() if one not in declared(TracingSettings))
"""The settings of a question, by whose names `explorer.plan` and the notebook's widget take them."""


def question_of(given: Mapping[str, object]) -> Question:
    """The question of settings by their names, and of groups of them under any name. Raises InvalidProblem for a name
    that there is not, and for what is given twice."""
    usual = {one.name: one.default for one in PLAN}
    flat: dict[str, object] = {}
    for name, value in given.items():
        if isinstance(value, Group):
            values = [(one, getattr(value, one.field)) for one in settings_of(type(value))]
            changed = {one.name: each for one, each in values if each != one.default}
        elif name not in usual:
            raise InvalidProblem(unknown(name, list(usual)))
        else:
            changed = {} if value is usual[name] else {name: value}
        for each in changed.keys() & flat.keys():
            raise InvalidProblem(f"{each} is given twice; keep one")
        flat |= changed
    return Question(**flat)


def workload_of(model: Workload | OpGraph | str) -> Workload:
    """A graph as a workload that states nothing else; a model by its name, loaded. Raises InvalidProblem for anything
    that was not traced."""
    if isinstance(model, Workload):
        return model
    if isinstance(model, str):
        from explorer.question.loading import load

        return load(model)
    if not isinstance(model, OpGraph):
        raise InvalidProblem(
            f"expected what explorer.trace returns, found {type(model).__name__};"
            " trace it first: explorer.plan(explorer.trace(module, example_inputs), ...)"
        )
    training = any(operator.phase in BACKWARD_PHASES for operator in model.operators)
    return Workload(model, model.name, training=training)
