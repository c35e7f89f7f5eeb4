"""From a PyTorch module, or an exported file, to an operator graph.

The names are loaded on first use: only tracing a module imports torch; `load_pt2` never does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from explorer.tracing.files.pt2 import load_pt2
    from explorer.tracing.trace import trace_demo, trace_module

__all__ = ["load_pt2", "trace_demo", "trace_module"]

_HOME = {"load_pt2": "files.pt2", "trace_demo": "trace", "trace_module": "trace"}


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(f"explorer.tracing.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
