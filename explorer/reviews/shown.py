"""A difference of two plans as people see it in a notebook."""

from __future__ import annotations

from explorer.reviews.moves import Moved
from explorer.view.pictures.card import card, rows
from explorer.words import text

MOST_MOVED = 8
"""Modules that a card names."""
Number = tuple[str, str, float, float]


def value(amount: float, unit: str) -> str:
    """A number in its unit: "s", "bytes", "share" or "per s"."""
    tell = {"s": text.seconds, "bytes": text.nbytes, "share": text.percent, "per s": text.rate}[unit]
    return tell(amount)


def html(moved: tuple[Moved, ...], operators: int, numbers: list[Number], questions: tuple[str, ...]) -> str:
    """questions: what was asked otherwise."""
    count = sum(one.operators for one in moved)
    told = rows(("", "first", "second"), [(what, value(a, unit), value(b, unit)) for what, unit, a, b in numbers])
    names = [
        (one.module or "the graph", one.source, one.target, f"{one.operators:,} of {one.of:,}")
        for one in moved[:MOST_MOVED]
    ]
    more = f"<div>and {len(moved) - MOST_MOVED:,} more</div>" if len(moved) > MOST_MOVED else ""
    list_ = rows(("moved", "from", "to", "operators"), names, texts=3) + more if moved else "<div>Nothing moved.</div>"
    asked = [("asked otherwise", text.listing(questions, 4))] if questions else []
    return card(f"{count:,} of {text.plural(operators, 'operator')} moved", asked, None, told + list_)


def plain(moved: tuple[Moved, ...], operators: int, numbers: list[Number]) -> str:
    """A few lines."""
    count = sum(one.operators for one in moved)
    lines = [f"{count:,} of {text.plural(operators, 'operator')} moved"]
    lines += [f"  {one.module or 'the graph'}: {one.source} -> {one.target}" for one in moved[:MOST_MOVED]]
    lines += [f"{what}: {value(a, unit)}, then {value(b, unit)}" for what, unit, a, b in numbers]
    return "\n".join(lines)
