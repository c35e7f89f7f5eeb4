"""What a forward returns, as far as a graph can: its tensors, in whatever they came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor, nn

DEEPEST = 8
"""Containers in containers; deeper ones are left out."""

CACHE_DROPPED = "what it keeps for decoding token by token ({kind}) is left out"


def tensors_of(value: object, dropped: set[str], depth: int = 0) -> Any:
    """The tensors of ``value`` in dicts and tuples of the same shape; None where there is none. What is left out
    though it holds tensors is named in ``dropped``."""
    if isinstance(value, Tensor):
        return value
    if depth > DEEPEST or isinstance(value, (str, bytes, int, float, bool, complex, nn.Module)) or value is None:
        return None
    if "Cache" in type(value).__name__:
        dropped.add(type(value).__name__)
        return None
    if isinstance(value, Mapping):
        return _some({str(key): tensors_of(inner, dropped, depth + 1) for key, inner in value.items()})
    if isinstance(value, (list, tuple, set, frozenset)):
        kept = [tensors_of(inner, dropped, depth + 1) for inner in value]
        return tuple(inner for inner in kept if inner is not None) or None
    if is_dataclass(value):
        named = {field.name: getattr(value, field.name, None) for field in fields(value)}
    else:
        named = dict(vars(value)) if hasattr(value, "__dict__") else {}
    return _some({name: tensors_of(inner, dropped, depth + 1) for name, inner in named.items()})


def _some(kept: dict[str, Any]) -> dict[str, Any] | None:
    return {name: inner for name, inner in kept.items() if inner is not None} or None


def without_caches(module: nn.Module) -> None:
    """Turns off, in every config that ``module`` (a copy) carries, what only decoding needs."""
    for part in module.modules():
        for held in (getattr(part, "config", None), getattr(part, "generation_config", None)):
            if getattr(held, "use_cache", None):
                held.use_cache = False  # type: ignore[union-attr]
