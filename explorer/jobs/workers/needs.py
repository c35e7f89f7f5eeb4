"""What a request is about, so that it goes to the worker that has it already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

from explorer.jobs.requests import PlanSource


@runtime_checkable
class Search(Protocol):
    """A question whose first plan can be shown before its answer: one search serves all who ask it. before: the name of
    the plan that is shown before its own; first_only: whether it ends with its first plan."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def before(self) -> str: ...
    @property
    def first_only(self) -> bool: ...


def model_of(request: object) -> str:
    """The model that it names, "" for none."""
    model = getattr(getattr(request, "ask", request), "model", "")
    return model if isinstance(model, str) else ""


def for_first_plan(request: object) -> Search | None:
    """The same question, to be ended with its first plan; None for one that cannot be."""
    return replace(request, first_only=True) if isinstance(request, Search) else None


def alone(request: Search) -> Search:
    """A question without the plan that is shown before its own."""
    return replace(request, before="")


def plans_of(request: object) -> Iterator[str]:
    """Names of the plans that a worker has to hold for it."""
    if not is_dataclass(request):
        return
    for one in fields(request):
        value = getattr(request, one.name)
        if isinstance(value, PlanSource):
            if value.held and value.text is None and not value.path:
                yield value.held
        elif one.name in ("held", "before") and isinstance(value, str) and value:
            yield value
