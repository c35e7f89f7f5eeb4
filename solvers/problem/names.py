"""Names of values are printable, wherever they come from: whoever shows one need not look."""

from __future__ import annotations

from solvers.errors import printable


def clean_names(value: object, *fields: str) -> None:
    """Make the texts in these fields of a frozen value `solvers.errors.printable`; None stays. For `__post_init__`."""
    for field in fields:
        name: str | None = getattr(value, field)
        if name is not None and not name.isprintable():
            object.__setattr__(value, field, printable(name))
