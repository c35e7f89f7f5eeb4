"""What a request is about, so that it goes to the worker that has it already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from explorer.jobs.requests import PlanSource


def model_of(request: Any) -> str:
    """The model that it names, "" for none."""
    model = getattr(getattr(request, "ask", request), "model", "")
    return model if isinstance(model, str) else ""


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
