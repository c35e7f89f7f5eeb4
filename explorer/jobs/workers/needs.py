"""What a request is about, so that it goes to the worker that has it already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from explorer.jobs.requests import PlanSource


def model_of(request: Any) -> str:
    """The model that it names, "" for none."""
    model = getattr(getattr(request, "ask", request), "model", "")
    return model if isinstance(model, str) else ""


def for_first_plan(request: Any) -> Any:
    """The same question, to be ended with its first plan; None for one that cannot be."""
    return replace(request, first_only=True) if hasattr(request, "first_only") else None


def same_question(request: Any, other: Any) -> bool:
    """Whether one search answers both, but for the plan that is shown before it."""
    return hasattr(request, "first_only") and type(request) is type(other) and alone(request) == alone(other)


def alone(request: Any) -> Any:
    """A question without the plan that is shown before its own."""
    return replace(request, before="")


def plans_of(request: Any) -> Iterator[str]:
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
