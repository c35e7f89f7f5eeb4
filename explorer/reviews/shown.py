"""A difference of two plans for people: as lines of text, and as a card in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from explorer.view.pictures.card import card, rows
from explorer.words import text
from explorer.words.tables import aligned

if TYPE_CHECKING:
    from explorer.reviews.difference import Difference

SHOWN_MODULES = 40
"""Modules that moved, in a terminal; JSON has all."""
CARD_MODULES = 8
"""The same, on a card."""


def moved_words(difference: Difference) -> str:
    """ "24 of 192 operators moved"."""
    return f"{difference.moved_operators:,} of {text.plural(difference.operators, 'operator')} moved"


def number_row(what: str, unit: str, first: float | None, second: float | None) -> tuple[str, str, str, str]:
    """A number of both plans as text, and how it changes. unit: of `text.quantity`."""
    shown = [text.quantity(first, unit), text.quantity(second, unit)]
    if unit == "s":
        shown = text.seconds_alike([first, second], 4)
    change = text.points(first, second) if unit == "share" else text.change(first, second)
    return what, shown[0], shown[1], change


def verdict_words(difference: Difference) -> str:
    """Which plan is better, where they answer one question."""
    if difference.is_same_plan:
        return "the plans are the same, to the last action"
    if difference.verdict is None:
        return "asked otherwise, so that neither is the better one"
    unsure = (
        ", but by less than the estimates of what they do differently are off"
        if difference.distinguishable is False
        else ""
    )
    return f"the second is {difference.verdict}{unsure}"


def lines(difference: Difference) -> list[str]:
    """In a screenful: which is faster, what was asked otherwise, numbers, devices, and what moved."""
    sentences = [f"asked      {words}" for words in difference.questions]
    sentences.append(f"verdict    {verdict_words(difference)}")
    if difference.renamed:
        pairs = [f"{difference.names[0][i]} is {difference.names[1][j]}" for i, j in difference.renamed.items()]
        sentences.append(f"devices    matched for most operators in common: {text.listing(pairs, 8)}")
    return [*sentences, "", *number_lines(difference), "", *_devices(difference), *_moved(difference)]


def number_lines(difference: Difference, first: str = "first", second: str = "second") -> list[str]:
    """The numbers of both plans, a line each, with how they change. first, second: what the plans are called."""
    splits = [" or ".join(f"{count:,}" for count in counts) for counts in difference.micro_batches]
    numbers = [("", first, second, "change"), ("stages", *map(text.count, difference.stages), "")]
    numbers.append(("micro-batches", splits[0], splits[1], ""))
    numbers += [number_row(*number) for number in difference.numbers if number[2] or number[3]]
    return aligned(numbers, {1, 2, 3})


def _devices(difference: Difference) -> list[str]:
    table = [["first", "second", "peak, first", "second", "change", "computes, first", "second"]]
    table += [
        [
            row["first"] or text.NOTHING,
            row["second"] or text.NOTHING,
            *(text.nbytes(peak) for peak in row["peak_bytes"]),
            text.change(*row["peak_bytes"]),
            *(text.seconds(busy) for busy in row["busy_s"]),
        ]
        for row in difference.device_numbers
    ]
    return aligned(table, {2, 3, 4, 5, 6})


def _moved(difference: Difference) -> list[str]:
    if not difference.moved:
        return []
    table = [["moved", "of", "module", "from", "to"]]
    for one in difference.moved[:SHOWN_MODULES]:
        name = one.module or ("everything" if one.whole and one.of == difference.operators else "(no module)")
        table.append([text.count(one.operators), text.count(one.of), text.short(name, 70), one.source, one.target])
    sentences = ["", *aligned(table, {0, 1})]
    rest = difference.moved[SHOWN_MODULES:]
    if rest:
        left = sum(one.operators for one in rest)
        sentences.append(
            f"and {text.plural(left, 'operator')} in {text.plural(len(rest), 'smaller group')} (--json has all)"
        )
    return sentences


def html(difference: Difference) -> str:
    """A card."""
    numbers = rows(("", "first", "second", ""), [number_row(*number) for number in difference.numbers])
    names: Sequence[tuple[str, str, str, str]] = [
        (one.module or "the graph", one.source, one.target, f"{one.operators:,} of {one.of:,}")
        for one in difference.moved[:CARD_MODULES]
    ]
    rest = len(difference.moved) - CARD_MODULES
    more = f"<div>and {rest:,} more</div>" if rest > 0 else ""
    moved = rows(("moved", "from", "to", "operators"), names, texts=3) + more if names else "<div>Nothing moved.</div>"
    facts = [("asked otherwise", text.listing(difference.questions, 4))] if difference.questions else []
    return card(moved_words(difference), [*facts, ("verdict", verdict_words(difference))], None, numbers + moved)
