"""A model that is traced once, and divided over groups of any number of devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from demo_models import MODELS
from explorer.question.clusters import make_cluster
from explorer.question.graphs import stored
from explorer.question.loading import graph_variant, ignore, is_traced, load, traced_already, whole_name
from explorer.question.models.example import of_parts, split_example
from explorer.question.models.part_degrees import PartDegrees
from explorer.question.nodes.groups import ANY_MEMBERS, Members, by_parts, divided_by_parts, divider, members_of
from explorer.question.settings import Settings
from solvers.errors import InvalidProblem
from solvers.formats.workload import Workload
from solvers.problem.collectives import Axis

if TYPE_CHECKING:
    from explorer.tracing.captured import Captured
    from explorer.tracing.sharding.divide import ByPart


def has_degree(model: str) -> bool:
    """Whether a model that is traced here says by how many devices its tensors are divided."""
    example = split_example(model)[1]
    divided = example.degree > 1 or example.tensor_parallel_of is not None
    return divided and is_traced(split_example(model)[0])


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
    _by_parts: dict[Members, ByPart] = field(default_factory=dict, init=False)

    def as_named(self) -> Workload:
        """The model divided as its name says. Raises InvalidProblem or TraceError where it cannot be."""
        example = split_example(self.model)[1]
        return self.at(example.degree, example.tensor_parallel_of)

    def at(self, degree: int, parts: str | None = None) -> Workload:
        """The model divided over so many devices, but for ``parts``, as `PartDegrees` reads them. Raises InvalidProblem
        or TraceError where it cannot be."""
        example = split_example(self.model)[1]
        example.check_replicas()
        name, training = self._name(degree, parts), self.training is not False
        of = None if parts is None else PartDegrees.parse(parts)
        members = self._members(max(degree, *(size for _, size in of.parts)) if of else degree, in_parts=bool(of))
        if (known := traced_already(name, training, self.dtype, self.graphs, members)) is not None:
            return known
        if degree == 1 and of is None:
            return self._traced()
        sequence = split_example(name)[1].sequence_parallel
        outer = example.outer_degree if degree > 1 else 1
        divide = None if of is not None else divider(
            degree, sequence, self.dtype, members, example.axis, example.expert_load or 1.0, outer,
            example.redundant_experts or 0, example.inner_axis,
        )  # fmt: skip
        whole = self._traced()
        if self._captured is None:
            raise InvalidProblem(
                f"{self.model}: tensors of models that are traced here can be divided, those of files not"
            )
        from explorer.tracing.build import MIXTURE, build

        if divide is not None:
            small, large, most = divide(*self._captured)
        else:
            assert of is not None
            if members not in self._by_parts:  # each size is divided once for all parts that are tried
                self._by_parts[members] = by_parts(*self._captured, sequence, self.dtype, members)
            small, large, most = divided_by_parts(self._by_parts[members], degree, of)
        made = build(small, large, reference=name, training=training, tensor_parallel=most)
        even = any(note.startswith(MIXTURE) for note in made.notes)
        notes = (*(note for note in whole.notes if not (even and note.startswith(MIXTURE))), *made.notes)
        notes = tuple(dict.fromkeys(notes))
        made = replace(made, notes=notes)
        if self.graphs is not None and split_example(name)[0] in MODELS:
            stored.store(self.graphs, made, self.dtype, graph_variant(split_example(name)[1], members))
        return made

    def _members(self, degree: int, *, in_parts: bool = False) -> Members:
        """By whose times calls are divided, those of the largest group. in_parts: whether there are others. Raises
        InvalidProblem where the devices make no such groups."""
        if degree == 1 or self.settings is None:
            return ANY_MEMBERS
        already = traced_already(whole_name(self.model), self.training is not False, self.dtype, self.graphs)
        cluster = make_cluster(already or self._traced(), self.settings)
        example = split_example(self.model)[1]
        return members_of(
            cluster, degree, self._name(degree, None), in_parts=in_parts, axis=example.axis,
            outer_degree=example.outer_degree,
        )  # fmt: skip

    @property
    def _axis(self) -> Axis:
        return split_example(self.model)[1].axis

    def _name(self, degree: int, parts: str | None) -> str:
        """The model's name at a degree of its axis."""
        if self._axis is Axis.TENSOR or degree == 1:
            return of_parts(self.model, degree, parts)
        return self.model

    def _traced(self) -> Workload:
        """The whole model, whose capture is kept."""
        if self._whole is None:

            def capture(small: Captured, large: Captured, training: bool) -> tuple[Captured, Captured, int]:
                self._captured = small, large, training
                return small, large, 1

            self._whole = load(
                whole_name(self.model), training=self.training, dtype=self.dtype, on_call=self.on_call, divide=capture
            )
        return self._whole
