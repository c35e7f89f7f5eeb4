"""The model that the server was started with, where it is a file: pages know its name, and workers where it is."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from demo_models import MODELS


@dataclass(frozen=True, slots=True)
class OwnersFile:
    """name: what pages call it, in place of a path of this machine. path: the model as workers load it."""

    name: str
    path: str

    def located(self, request: Any) -> Any:
        """A request of a page (one of `explorer.jobs.requests`) with the path in place of the name."""
        if getattr(request, "model", None) == self.name:
            return replace(request, model=self.path)
        if getattr(getattr(request, "ask", None), "model", None) == self.name:
            return replace(request, ask=replace(request.ask, model=self.path))
        return request


def owners_file(model: str) -> OwnersFile:
    """Of a model as the command line names it; what is no file is called what it is."""
    if model in MODELS or not os.path.isfile(model):
        return OwnersFile(model, model)
    name = os.path.basename(model)
    return OwnersFile(f"./{name}" if name in MODELS else name, os.path.abspath(model))
