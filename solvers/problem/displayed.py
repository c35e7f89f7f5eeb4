"""How values show themselves to people. The values know no pictures: who has some hands them in (`explorer` does).

A value of such a class shows what was handed in for it in a notebook, and as text in a terminal; without anything
handed in it shows itself as Python does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Display = Callable[[object], object]

_handed: dict[str, Display] = {}


def hand_in(name: str, display: Display) -> None:
    """From now on values answer ``name`` by ``display(value)``: "html" and "text" (each a str), or one of the methods
    that say so."""
    _handed[name] = display


def displayed(name: str, value: object) -> object:
    """What was handed in, of a value. Raises ImportError if nothing was."""
    if name not in _handed:
        raise ImportError(f"{name} of {type(value).__name__} comes with the package `explorer`: import explorer first")
    return _handed[name](value)


class Displayed:
    """A value that is shown."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        """IPython asks class by class, and takes the `__repr__` of a dataclass before a base's `_repr_pretty_`."""
        cls._repr_pretty_ = Displayed._repr_pretty_  # type: ignore[method-assign]

    def __str__(self) -> str:
        return str(displayed("text", self)) if "text" in _handed else repr(self)

    def _repr_html_(self) -> str | None:
        """A card with a small picture, for notebooks; None leaves the text."""
        return str(displayed("html", self)) if "html" in _handed else None

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The plain text form, for IPython."""
        printer.text("..." if cycle else str(self))
