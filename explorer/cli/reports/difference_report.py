"""What differs between two plans, for people."""

from __future__ import annotations

import math

from explorer.cli.terminal.command import print_table
from explorer.reviews.difference import SAME, Difference, device_numbers, numbers
from explorer.words import text

SHOWN_MODULES = 40
"""Modules that moved; --json has all."""


def print_difference(told: Difference, first: str, second: str) -> None:
    """In a screenful: how much moved, what was asked otherwise, numbers, devices, and what moved."""
    share = told.moved_operators / told.operators
    many = f"{told.moved_operators:,} of {text.plural(told.operators, 'operator')}"
    print(f"{first} -> {second}: {many} moved ({text.percent(share)})")
    if told.hashes[0] == told.hashes[1]:
        print("the plans are the same, to the last action")
    for words in told.questions:
        print(f"asked      {words}")
    if told.renamed:
        pairs = [f"{told.names[0][i]} is {told.names[1][j]}" for i, j in told.renamed.items()]
        print(f"devices    matched for most operators in common: {text.listing(pairs, 8)}")
    splits = [" or ".join(f"{count:,}" for count in counts) for counts in told.micro_batches]
    print()
    rows = [["", "first", "second", "change"]]
    rows.append(["stages", *(text.count(count) for count in told.stages), ""])
    rows.append(["micro-batches", *splits, ""])
    rows += [_row(*number) for number in numbers(told) if number[2] or number[3]]
    print_table(rows, right=frozenset({1, 2, 3}))
    print()
    _print_devices(told)
    if told.moved:
        _print_moved(told)


def _row(what: str, unit: str, first: float, second: float) -> list[str]:
    if unit == "s":
        shown = text.seconds_alike([first, second], 4)
    else:
        say = {"bytes": text.nbytes, "share": text.percent, "per s": text.rate}[unit]
        shown = [say(first), say(second)]
    return [what, *shown, points(first, second) if unit == "share" else change(first, second)]


def change(first: float | None, second: float | None) -> str:
    """ "+12.3 %"; "equal"; "" where there is nothing to compare."""
    if first is None or second is None or not (math.isfinite(first) and math.isfinite(second)):
        return ""
    if math.isclose(first, second, rel_tol=SAME):
        return "equal"
    if first <= 0:
        return ""
    ratio = second / first - 1
    return ("+" if ratio > 0 else "−") + text.percent(abs(ratio))


def points(first: float, second: float) -> str:
    """Between shares: "+3.1 points", which is no share of a share."""
    if math.isclose(first, second, rel_tol=SAME, abs_tol=SAME):
        return "equal"
    return f"{'+' if second > first else '−'}{abs(second - first) * 100:.1f} points"


def _print_devices(told: Difference) -> None:
    rows = [["first", "second", "peak, first", "second", "change", "computes, first", "second"]]
    rows += [
        [
            row["first"] or text.NOTHING,
            row["second"] or text.NOTHING,
            *(text.nbytes(peak) for peak in row["peak_bytes"]),
            change(*row["peak_bytes"]),
            *(text.seconds(busy) for busy in row["busy_s"]),
        ]
        for row in device_numbers(told)
    ]
    print_table(rows, right=frozenset({2, 3, 4, 5, 6}))


def _print_moved(told: Difference) -> None:
    print()
    rows = [["moved", "of", "module", "from", "to"]]
    for one in told.moved[:SHOWN_MODULES]:
        name = one.module or ("everything" if one.whole and one.of == told.operators else "(no module)")
        rows.append([text.count(one.operators), text.count(one.of), text.short(name, 70), one.source, one.target])
    print_table(rows, right=frozenset({0, 1}))
    rest = told.moved[SHOWN_MODULES:]
    if rest:
        left = sum(one.operators for one in rest)
        print(f"and {text.plural(left, 'operator')} in {text.plural(len(rest), 'smaller group')} (--json has all)")
