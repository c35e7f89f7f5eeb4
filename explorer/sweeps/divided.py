"""A model that is traced once, and divided over groups of any number of devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from demo_models import MODELS
from explorer.question.clusters import make_cluster
from explorer.question.graphs import kept
from explorer.question.loading import ignore, is_traced, load, told_by, traced_already
from explorer.question.models.example import of_degree, split_example
from explorer.question.nodes.groups import ANY_MEMBERS, Members, divider, members_of
from explorer.question.settings import Settings
from solvers.errors import InvalidProblem
from solvers.formats.workload import Workload

if TYPE_CHECKING:
    from explorer.tracing.captured import Captured


def has_degree(model: str) -> bool:
    """Whether a model that is traced here says by how many devices its tensors are divided."""
    degree = split_example(model)[1].tensor_parallel
    return degree is not None and degree > 1 and is_traced(split_example(model)[0])


@dataclass
class DividedModel:
    """model: its name, of any degree. training, dtype, on_call and graphs: as `load` takes them. settings: of the plan,
    whose devices and links say how calls are divided; None: those of no plan (`Members`)."""

    model: str
    training: bool | None = None
    dtype: str | None = None
    on_call: Callable[[int], None] = ignore
    graphs: Path | None = None
    settings: Settings | None = None
    _captured: tuple[Captured, Captured, bool] | None = field(default=None, init=False)
    _whole: Workload | None = field(default=None, init=False)

    def as_named(self) -> Workload:
        """The model divided as its name says. Raises InvalidProblem or TraceError where it cannot be."""
        return self.at(split_example(self.model)[1].tensor_parallel or 1)

    def at(self, degree: int) -> Workload:
        """The model divided over so many devices. Raises InvalidProblem or TraceError where it cannot be."""
        name, training = of_degree(self.model, degree), self.training is not False
        members = self._members(degree)
        if (known := traced_already(name, training, self.dtype, self.graphs, members)) is not None:
            return known
        divide = divider(degree, split_example(name)[1].sequence_parallel, self.dtype, members)
        if divide is None:
            return self._traced()
        whole = self._traced()
        if self._captured is None:
            raise InvalidProblem(
                f"{self.model}: tensors of models that are traced here can be divided, those of files not"
            )
        from explorer.tracing.build import build

        small, large, _ = divide(*self._captured)
        made = build(small, large, reference=name, training=training, tensor_parallel=degree)
        notes = tuple(dict.fromkeys((*whole.notes, *made.notes)))
        made = replace(made, notes=notes)
        if self.graphs is not None and split_example(name)[0] in MODELS:
            kept.keep(self.graphs, made, self.dtype, told_by(split_example(name)[1], members))
        return made

    def _members(self, degree: int) -> Members:
        """By whose times calls are divided. Raises InvalidProblem where the devices make no such groups."""
        if degree == 1 or self.settings is None:
            return ANY_MEMBERS
        name = of_degree(self.model, 1)
        already = traced_already(name, self.training is not False, self.dtype, self.graphs)
        cluster = make_cluster(already or self._traced(), self.settings)
        return members_of(cluster, degree, of_degree(self.model, degree))

    def _traced(self) -> Workload:
        """The whole model, whose capture is kept."""
        if self._whole is None:

            def keep(small: Captured, large: Captured, training: bool) -> tuple[Captured, Captured, int]:
                self._captured = small, large, training
                return small, large, 1

            name = of_degree(self.model, 1)
            self._whole = load(name, training=self.training, dtype=self.dtype, on_call=self.on_call, divide=keep)
        return self._whole
